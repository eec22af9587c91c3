"""The environment as an algorithm's model. The loop and the contract of environments do not depend on it.

An algorithm whose config says `plans` is made with `model=`, the environment's own pure step, and acts on
`Situation`s: the observation, and the state from which the model continues. What it learns from holds no states.
"""

import dataclasses
from typing import Any

from purerl import registry
from purerl.errors import InputError
from purerl.loop.train import CompiledTrainer
from purerl.loop.trainer import MakeTrainer, Policy
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


def planner(factory: AlgorithmFactory, game: Situations) -> AlgorithmFactory:
    """Return the factory of an algorithm that plans in a game and whose rollouts hold no states.

    Args:
      factory: (spec, config, model=Model) -> Algorithm.
      game: the environment, with its states.
    """

    def planning(spec: EnvironmentSpec, config: Config) -> Algorithm:
        made: Any = factory
        algorithm = made(spec, config, model=game.model)

        def update(agent: PyTree, key: Key, rollout: Rollout) -> tuple[PyTree, Metrics]:
            observation = rollout.observation._replace(state=())
            next_observation = rollout.next_observation._replace(state=())
            return algorithm.update(
                agent, key, rollout._replace(observation=observation, next_observation=next_observation)
            )

        return algorithm._replace(update=update)

    return planning


def planning_trainer(make: MakeTrainer, factory: AlgorithmFactory, env: Environment, config: Config) -> CompiledTrainer:
    """Return the trainer of an algorithm that plans.

    In a turn-based game of two players, training plays both. It is evaluated against an opponent that looks one move
    ahead, `purerl.wrappers.lookahead`, on either side.

    Args:
      make: makes a trainer.
      factory: (spec, config, model=Model) -> Algorithm.
      env: an environment of one agent, or of two that take turns.
      config: the algorithm's.

    Raises:
      InputError: for other groups of agents, or two players where the algorithm plans for one.
    """
    players = sides(env)
    if players and config.plans < 2:
        name = registry.name_of(config)
        raise InputError(
            f"{name} plans for one agent, and this is a turn-based game of two; alphazero and muzero play it"
        )
    game = Situations(env)
    trainer = make(planner(factory, game), game, config)
    assert isinstance(trainer, CompiledTrainer)
    return dataclasses.replace(
        trainer,
        evaluation=Against(game) if players else game,
        policies={"": Policy(factory=factory, config=config, select=lambda agent: agent)},
    )
