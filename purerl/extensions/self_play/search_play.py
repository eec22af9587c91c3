"""Self-play with planning: one agent that plans makes the moves of both sides of a turn-based game.

It always plays against its current self. Past policies are kept, as in `self_play`, for the table of ratings at the
end.
"""

from typing import Any, ClassVar

from purerl.errors import InputError
from purerl.extensions.groups.joint import config_of
from purerl.extensions.self_play.self_play import SelfPlayAgent, SelfPlayConfig, alone, learned
from purerl.fields import validate
from purerl.networks.actor_critic import PolicyAgent
from purerl.types import Algorithm, EnvironmentSpec, Key, Metrics, PyTree, Rollout, pytree
from purerl.wrappers.situations import Model


@pytree
class SearchPlayConfig(SelfPlayConfig):
    """Settings of self-play by an algorithm that plans in the environment."""

    plans: ClassVar[int] = 2


def search_play(spec: EnvironmentSpec, config: SearchPlayConfig, *, model: Model | None = None) -> Algorithm:
    """Return the algorithm, which keeps snapshots of past policies.

    Args:
      spec: the spaces of one side.
      config: the settings.
      model: the game's step; the loop gives it.

    Raises:
      InputError: as the algorithm itself.
    """
    validate(config, "self-play")
    inner = planner(spec, config, model)

    def init(key: Key) -> SelfPlayAgent:
        learner = inner.init(key)
        return alone(learner, acting(learner), config)

    def act(agent: SelfPlayAgent, carry: PyTree, key: Key, situation: PyTree, explore: bool):
        return inner.act(agent.learner, carry, key, situation, explore)

    def update(agent: SelfPlayAgent, key: Key, rollout: Rollout) -> tuple[SelfPlayAgent, Metrics]:
        learner, metrics = inner.update(agent.learner, key, rollout)
        return learned(agent, learner, acting(learner), config), metrics

    return Algorithm(init=init, initial_carry=inner.initial_carry, act=act, update=update)


def planner(spec: EnvironmentSpec, config: SelfPlayConfig, model: Model | None) -> Algorithm:
    """Return the algorithm of one policy."""
    made: Any = config.algorithm
    return made(spec, config_of(config, config.policy, 1), model=model)


def acting(learner: PolicyAgent) -> PolicyAgent:
    """Return the part of an agent that acts: everything except its optimizer's state."""
    return learner._replace(opt_state=())


def check_game(sizes: dict[str, int], name: str) -> None:
    """Raise an `InputError` unless an environment is a game of two groups that an agent can plan for."""
    if len(sizes) != 2:
        raise InputError(f"self-play needs a game of two groups of agents; {name} has {len(sizes)}")
