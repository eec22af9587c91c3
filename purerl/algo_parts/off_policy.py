"""Off-policy learning: every step goes to a replay, and gradient steps learn from what is drawn of it."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.errors import InputError
from purerl.functional.counters import increment
from purerl.functional.normalize import RunningStatistics, normalized
from purerl.networks.encoder import NetworkConfig
from purerl.networks.torsos import ACTIVATIONS
from purerl.optim.schedules import Schedule, schedule, updates_of
from purerl.replay import uniform
from purerl.replay.uniform import Replay
from purerl.types import Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static
from purerl.xla.vmap_cond import any_member


@pytree
class OffPolicyConfig(NetworkConfig):
    """Settings of an algorithm with a replay."""

    rollout_length: int = static(default=1, doc="steps of each environment per update", at_least=1)
    activation: str = static(default="relu", doc="of the hidden layers", choices=tuple(ACTIVATIONS))
    learning_rate: float = number(default=2.5e-4, doc="Adam's step size", above=0)
    learning_rate_schedule: Schedule = schedule("constant")
    batch_size: int = static(default=128, doc="transitions per gradient step", at_least=1)
    num_gradient_steps: int = static(default=1, doc="gradient steps per update", at_least=1)
    replay_capacity: int = static(default=10_000, doc="steps held, all environments together", at_least=1)
    learning_starts: int = static(default=10_000, doc="environment steps before the first gradient step", at_least=1)
    n_step: int = static(default=1, doc="steps of reward before bootstrapping", at_least=1)

    @property
    def replay_ratio(self) -> float:
        """Steps trained on per environment step collected, once learning has started."""
        return self.num_gradient_steps * self.samples_per_gradient / self.steps_per_update

    @property
    def samples_per_gradient(self) -> int:
        """Steps that a gradient step learns from."""
        return self.batch_size


class OffPolicyAgent(NamedTuple):
    """The state of such an agent."""

    params: PyTree
    target_params: PyTree
    opt_state: PyTree
    replay: Any
    num_updates: Array  # i32[], so far; drives every schedule
    num_gradient_steps: Array  # i32[]; it may wrap around, as only its remainders count
    observation_statistics: RunningStatistics | None


GradientStep = Callable[[OffPolicyAgent, Any, Key], tuple[OffPolicyAgent, Array, Metrics]]
# (agent, what the replay drew, key) -> (agent, |TD error| f32[N] that priorities are made of, metrics)


def new_agent(
    params: PyTree,
    target_params: PyTree,
    opt_state: PyTree,
    replay: Replay,
    statistics: RunningStatistics | None = None,
) -> OffPolicyAgent:
    """Return an agent before its first step; the target is a copy, so that the state can be donated."""
    return OffPolicyAgent(
        params=params,
        target_params=jax.tree.map(jnp.copy, target_params),
        opt_state=opt_state,
        replay=replay.init(),
        num_updates=jnp.int32(0),
        num_gradient_steps=jnp.int32(0),
        observation_statistics=statistics,
    )


def new_statistics(spec: EnvironmentSpec, config: Any) -> RunningStatistics | None:
    """Return the statistics of no observations where `config.normalize_observation` asks for them."""
    return RunningStatistics.create(spec.observation_space.struct) if config.normalize_observation else None


def learn_from_replay(
    agent: OffPolicyAgent,
    key: Key,
    rollout: Rollout,
    replay: Replay,
    gradient_step: GradientStep,
    config: OffPolicyConfig,
) -> tuple[OffPolicyAgent, Metrics]:
    """Store a rollout and, from `config.learning_starts` steps on, take `config.num_gradient_steps`: an `update`.

    The replay holds observations as they are. Where the agent has statistics of them, gradient steps see what is drawn
    standardized by those of today.

    Args:
      agent, key, rollout: as for `Algorithm.update`.
      replay: its functions.
      gradient_step: (agent, what the replay drew, key) -> (agent, priorities f32[N], metrics).
      config: the settings.
    """

    def once(agent: OffPolicyAgent, key: Key, started: Array) -> tuple[OffPolicyAgent, Metrics]:
        key_sample, key_step = jax.random.split(key)
        drawn = replay.sample(agent.replay, key_sample)
        if agent.observation_statistics is not None:
            seen = partial(normalized, agent.observation_statistics)
            inner = drawn.between
            drawn = drawn._replace(
                observation=seen(drawn.observation),
                next_observation=seen(drawn.next_observation),
                between=inner and inner._replace(observation=seen(inner.observation)),
            )
        learned, td_error, metrics = gradient_step(agent, drawn, key_step)
        counted = drawn._replace(weight=jnp.where(started, drawn.weight, 0.0))
        stored = replay.update(agent.replay, counted, td_error)
        learned = learned._replace(replay=(), num_gradient_steps=agent.num_gradient_steps + 1)
        # The replay is no part of the choice: its copy would cost more than the rest of the update.
        chosen = jax.tree.map(lambda new, old: jnp.where(started, new, old), learned, agent._replace(replay=()))
        return chosen._replace(replay=stored), jax.tree.map(lambda m: jnp.where(started, m, 0), metrics)

    def learn(agent: OffPolicyAgent, key: Key, started: Array) -> tuple[OffPolicyAgent, Metrics]:
        if config.num_gradient_steps == 1:
            return once(agent, key, started)
        keys = jax.random.split(key, config.num_gradient_steps)
        agent, metrics = jax.lax.scan(lambda agent, key: once(agent, key, started), agent, keys)
        return agent, jax.tree.map(jnp.mean, metrics)

    agent = agent._replace(replay=replay.add(agent.replay, rollout))
    if agent.observation_statistics is not None:
        statistics = agent.observation_statistics.update(rollout.observation, rollout.mask)
        agent = agent._replace(observation_statistics=statistics)
    started = agent.num_updates >= updates_of(config, config.learning_starts) - 1  # with this rollout
    zeros = jax.tree.map(lambda m: jnp.zeros(m.shape, m.dtype), jax.eval_shape(learn, agent, key, started)[1])
    rest = lambda agent, key, started: (agent, zeros)
    agent, metrics = jax.lax.cond(any_member(started), learn, rest, agent, key, started)
    metrics["learning"] = started.astype(jnp.float32)
    return agent._replace(num_updates=increment(agent.num_updates)), metrics


def move_towards(target_params: PyTree, params: PyTree, tau: Array | float) -> PyTree:
    """Return target + tau (params - target): Polyak averaging."""
    return jax.tree.map(lambda old, new: old + tau * (new - old), target_params, params)


def periodic_update(
    target_params: PyTree, params: PyTree, num_gradient_steps: Array, interval: Array | int, tau: Array | float = 1.0
) -> PyTree:
    """Return the target network after a gradient step: every `interval` steps it moves by `tau`; 1: it is copied.

    Args:
      target_params, params: of the two networks.
      num_gradient_steps: i32[], before this step.
      interval: gradient steps between two updates of the target.
      tau: share of the new parameters.
    """
    due = (num_gradient_steps + 1) % interval == 0
    return move_towards(target_params, params, jnp.where(due, tau, 0.0))


def check_batch(config: OffPolicyConfig) -> None:
    """Check that a batch fits in what is stored when learning starts.

    Raises:
      InputError: if it is larger.
    """
    stored = -(-config.learning_starts // config.steps_per_update) * config.steps_per_update
    if config.batch_size > stored:
        raise InputError(
            f"batch_size {config.batch_size} is larger than the {stored} steps that are stored when learning starts, "
            f"after learning_starts {config.learning_starts}"
        )


def uniform_replay(spec: EnvironmentSpec, config: OffPolicyConfig, between: bool = False) -> Replay:
    """Return the uniform replay that the config describes; `between` as for `uniform.uniform`.

    Raises:
      InputError: if its sizes do not fit one another or the memory there is.
    """
    check_batch(config)
    return uniform.uniform(
        spec, config.replay_capacity, config.num_envs, config.batch_size, config.discount, config.n_step, between
    )
