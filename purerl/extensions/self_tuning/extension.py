"""Self-tuning as an extension: `purerl train ppo CartPole-v1 --self-tune gae_lambda,entropy_coefficient`."""

import dataclasses

from purerl import registry
from purerl.errors import InputError, unknown
from purerl.extensions.self_tuning.tuning import SCALES, self_tuned
from purerl.fields import number, pytree, static
from purerl.host_environment import HostSource
from purerl.loop.extension import Extension, field_names
from purerl.loop.train import CompiledTrainer
from purerl.loop.trainer import MakeTrainer, Policy, Trainer
from purerl.types import AlgorithmFactory, Config, Environment, EnvironmentSpec


@pytree
class SelfTuneOptions:
    """The numbers of its config that an agent tunes, and their learning rate."""

    self_tune: tuple[str, ...] = static(
        default=(), doc=f"numbers of the config that the agent tunes by meta-gradients, from {', '.join(SCALES)}"
    )
    self_tune_learning_rate: float = number(
        default=0.01, doc="learning rate of Adam, for the logits and logarithms of tuned numbers", above=0
    )
    self_tune_decay: float = number(
        default=0.0, doc="how much earlier updates count in the meta-gradient", at_least=0, at_most=1
    )


def wrap(make: MakeTrainer, options: SelfTuneOptions) -> MakeTrainer:
    """Wrap a maker of trainers: let an algorithm tune numbers of its config."""
    names = options.self_tune

    def make_tuner(algorithm: AlgorithmFactory, env: Environment, config: Config) -> Trainer:
        if not names:
            return make(algorithm, env, config)
        _check(algorithm, env, config, names)
        tuned = self_tuned(algorithm, names, options.self_tune_learning_rate, options.self_tune_decay)
        trainer = make(tuned, env, config)
        assert isinstance(trainer, CompiledTrainer)  # nothing else is inside: see `excludes`
        policy = Policy(factory=algorithm, config=config, select=lambda agent: agent.agent)
        return dataclasses.replace(trainer, policies={"": policy})  # other runs begin with the agent alone

    return make_tuner


def _check(algorithm: AlgorithmFactory, env: Environment, config: Config, names: tuple[str, ...]) -> None:
    """Reject numbers that cannot be tuned."""
    what = registry.name_of(config)
    if isinstance(env, HostSource):
        raise InputError("self_tune needs an environment in JAX; this one runs on the host")
    if "replay_capacity" in field_names(config):
        raise InputError(
            f"self_tune needs an algorithm that learns from each rollout once, such as ppo; {what} has a replay"
        )
    made = algorithm(EnvironmentSpec(env.observation_space, env.action_space), config)
    if made.likelihood is None or made.values is None:
        raise InputError(
            f"self_tune needs an algorithm with a critic (Algorithm.values) and the likelihood of its actions "
            f"(Algorithm.likelihood), such as ppo or a2c; {what} does not offer both"
        )
    allowed = [name for name in SCALES if name in field_names(config)]
    for name in names:
        if name not in allowed:
            raise unknown(f"number that {what} can tune", name, allowed)
        value = getattr(config, name)
        if not hasattr(value, "dtype") and not SCALES[name].holds(value):
            raise InputError(f"{name} is {value}; to be tuned it must start {SCALES[name].range}")
    if len(set(names)) < len(names):
        raise InputError(f"self_tune names a number twice: {','.join(names)}")


EXTENSION = Extension(
    name="self_tuning",
    options=SelfTuneOptions,
    wrap=wrap,
    excludes=("levels", "self_play", "groups", "planning", "host"),
)
