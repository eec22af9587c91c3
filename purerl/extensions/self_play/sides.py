"""A game with a built-in opponent, converted to a game of two sides."""

import dataclasses
from typing import Any, Protocol, runtime_checkable

from purerl.types import Environment
from purerl.wrappers import Wrapper


@runtime_checkable
class ForSelfPlay(Protocol):
    """A game with a built-in opponent that can also be played by both sides."""

    def for_self_play(self) -> Environment:
        """Return the game as both sides play it."""
        ...


def both_sides(env: Environment) -> Any:
    """Return the two-sided form of a game; an environment with groups is returned unchanged."""
    if isinstance(env, ForSelfPlay):
        return env.for_self_play()
    if isinstance(env, Wrapper):
        inner = both_sides(env.env)
        return env if inner is env.env else dataclasses.replace(env, env=inner)
    return env
