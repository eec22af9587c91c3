"""The environment as an algorithm's model, from outside: the loop and the contract of environments know nothing of it.

An algorithm whose config says `uses_model` is made with `model=`, the environment's own pure step, and acts on
`Situation`s: the observation, and the state from which the model goes on. What it learns from holds no states.
"""

from typing import Any

from purerl.errors import InputError
from purerl.host_environment import HostSource
from purerl.types import (
    Algorithm,
    AlgorithmFactory,
    Config,
    Environment,
    EnvironmentSpec,
    Key,
    Metrics,
    PyTree,
    Rollout,
)
from purerl.wrappers import Against, Situations
from purerl.wrappers.situations import sides


def with_model(factory: AlgorithmFactory, env: Environment) -> tuple[AlgorithmFactory, Situations, Environment]:
    """Return (factory, environment to train in, environment to evaluate in) of an algorithm that plans.

    A game of two sides in turns is trained on by playing both, and evaluated against an opponent who looks one move
    ahead, `purerl.wrappers.lookahead`, on either side.

    Args:
      factory: (spec, config, model=Model) -> Algorithm.
      env: an environment of one agent, or of two that move in turns.

    Raises:
      InputError: for other groups of agents.
    """
    situations = Situations(env)
    evaluation: Any = Against(situations) if sides(env) else situations

    def planning(spec: EnvironmentSpec, config: Config) -> Algorithm:
        made: Any = factory
        algorithm = made(spec, config, model=situations.model)

        def update(agent: PyTree, key: Key, rollout: Rollout) -> tuple[PyTree, Metrics]:
            observation = rollout.observation._replace(state=())
            next_observation = rollout.next_observation._replace(state=())
            return algorithm.update(
                agent, key, rollout._replace(observation=observation, next_observation=next_observation)
            )

        return algorithm._replace(update=update)

    return planning, situations, evaluation


def check_sides(env: Environment, config: Any) -> None:
    """Raise an `InputError` where an algorithm that plans for one agent is given a game of two sides in turns."""
    if sides(env) and not getattr(config, "plays_sides", True):
        name = type(config).__name__.removesuffix("Config").lower()
        raise InputError(
            f"{name} plans for one agent, and this is a game of two in turns; alphazero and muzero play it"
        )


def check_steppable(source: HostSource, config: Config) -> None:
    """Raise an `InputError` where an algorithm would plan in an environment that runs on the host."""
    if getattr(config, "uses_model", False):
        name = type(config).__name__.removesuffix("Config").lower()
        raise InputError(
            f"{name} searches in the environment itself, and {source.id} runs on the host, where no search can step "
            "it; muzero learns a model of it and searches in that"
        )
