"""A game that plays its other side itself, as both sides play it."""

import dataclasses
from typing import Any, Protocol, runtime_checkable

from purerl.types import Environment
from purerl.wrappers import Wrapper


@runtime_checkable
class ForSelfPlay(Protocol):
    """A game that plays the other side itself, and can be played by both sides instead."""

    def for_self_play(self) -> Environment:
        """Return the game as both sides play it."""
        ...


def both_sides(env: Environment) -> Any:
    """Return a game as both sides play it; an environment of groups as it is."""
    if isinstance(env, ForSelfPlay):
        return env.for_self_play()
    if isinstance(env, Wrapper):
        inner = both_sides(env.env)
        return env if inner is env.env else dataclasses.replace(env, env=inner)
    return env
