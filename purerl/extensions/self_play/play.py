"""The trainer of self-play: one policy for both sides of a game."""

import dataclasses

from purerl import agent_groups
from purerl.errors import InputError
from purerl.extensions.groups.joint import config_of, multi_agent
from purerl.extensions.self_play.search_play import SearchPlayConfig, check_game, search_play
from purerl.extensions.self_play.self_play import SELF, SelfPlayConfig, of_groups, self_play, self_play_config
from purerl.loop.train import CompiledTrainer
from purerl.loop.trainer import MakeTrainer, Policy
from purerl.types import Algorithm, AlgorithmFactory, Config, Environment, EnvironmentSpec, PyTree


def self_play_trainer(
    make: MakeTrainer, factory: AlgorithmFactory, env: Environment, config: Config, num_selves: int
) -> CompiledTrainer:
    """Return the trainer of an algorithm that plays against its past policies.

    Args:
      make: makes a trainer.
      factory: (spec, config) -> Algorithm: a policy-gradient one, or one that plans.
      env: a symmetric game of two groups.
      config: the algorithm's.
      num_selves: number of past policies that are kept.

    Raises:
      InputError: if the environment is not such a game.
    """
    sizes = agent_groups.sizes(env)
    if config.plans:
        check_game(sizes, type(env).__name__)
    play, kind = (search_play, SearchPlayConfig) if config.plans else (self_play, SelfPlayConfig)
    settings = self_play_config(factory, config, num_selves, kind)
    trainer = make(play, env, settings)
    if not isinstance(trainer, CompiledTrainer):
        raise InputError("self-play needs the compiled loop")
    size = 1 if config.plans else next(iter(sizes.values()), 1)
    policy = Policy(
        factory=factory,
        config=config_of(settings, config, size),
        select=lambda agent: agent.learner if config.plans else agent.learner[SELF],
    )
    if config.plans:
        return dataclasses.replace(trainer, policies={"": policy})

    def playing(agent: PyTree) -> tuple[Algorithm, PyTree]:
        """Return the game in which the learner plays both sides."""
        sides = tuple(sizes)
        both = multi_agent(EnvironmentSpec(env.observation_space, env.action_space), of_groups(settings, sides))
        return both, dict.fromkeys(sides, agent.learner[SELF])

    return dataclasses.replace(trainer, policies={"": policy}, playing=playing)
