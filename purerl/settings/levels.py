"""The settings of levels: fields that any algorithm's config takes on where a run is to train on many levels."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any

from purerl.errors import InputError
from purerl.fields import number, pytree, static

METHODS = ("dr", "plr", "robust-plr", "accel")
SCORES = ("max_monte_carlo", "positive_value_loss")


@pytree
class LevelSettings:
    """Which levels a run trains on, and how they are chosen; see `purerl.levels`."""

    levels: str = static(
        default="none",
        doc="levels drawn at random (dr), replayed by what there is to learn (plr), learned from in replay alone "
        "(robust-plr), and also mutated (accel)",
        choices=("none", *METHODS),
    )
    levels_over: tuple[str, ...] = static(
        default=(), doc="ranges of the environment's numbers that make a level, such as gravity=5:15; none: its own"
    )
    levels_capacity: int = static(default=4000, doc="levels kept for replay", at_least=1)
    levels_minimum_fill: float = number(
        default=0.5, doc="share of the capacity that is filled before a replay", at_least=0, at_most=1
    )
    levels_replay_probability: float = number(
        default=0.8, doc="probability of a replay, else levels are drawn anew", at_least=0, at_most=1
    )
    levels_temperature: float = number(default=0.3, doc="of the ranks of scores; high: all as likely", above=0)
    levels_staleness: float = number(
        default=0.3, doc="share of a replay by how long ago levels were played", at_least=0, at_most=1
    )
    levels_score: str = static(default="max_monte_carlo", doc="estimate of the regret of a level", choices=SCORES)
    levels_mutations: int = number(default=5, doc="accel: changes to a level that was replayed", at_least=1)


@functools.cache
def with_level_settings(cls: type) -> Any:
    """Return an algorithm's config class with the fields of `LevelSettings`, as a subclass of it."""
    if issubclass(cls, LevelSettings):
        return cls
    return pytree(type(cls.__name__, (LevelSettings, cls), {"__doc__": cls.__doc__, "__module__": cls.__module__}))


def leveled(config: Any, **fields: Any) -> Any:
    """Return an algorithm's config with levels: `leveled(PPOConfig(), levels="accel", levels_capacity=1000)`.

    Args:
      config: the algorithm's.
      **fields: of `LevelSettings`; numbers may be traced.

    Raises:
      InputError: for a field that does not exist.
    """
    cls = with_level_settings(type(config))
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return cls(**{**values, **fields})


def mentioned(values: Iterable[str]) -> list[str]:
    """Return the names of settings of levels among those of a layer."""
    return [name for name in values if str(name).startswith("levels")]


def without(config: Mapping[str, Any], given: Iterable[str]) -> dict[str, Any]:
    """Return the values of a config whose `levels` are none without the others of levels: they are of another run.

    Args:
      config: values by field.
      given: the names of the settings that the user gave.

    Raises:
      InputError: if the user gave one of levels.
    """
    if wrong := [name for name in mentioned(given) if name != "levels"]:
        raise InputError(f"{wrong[0]} is of levels: give levels too, allowed: {', '.join(METHODS)}")
    return {name: value for name, value in config.items() if name == "levels" or not mentioned([name])}


def check(config: Any) -> None:
    """Raise an `InputError` where more levels are played together than are kept."""
    replays = getattr(config, "levels", "none") not in ("none", "dr")
    if replays and config.levels_capacity < config.num_envs:
        raise InputError(
            f"levels_capacity is {config.levels_capacity}; it must be at least num_envs {config.num_envs}, the levels "
            "that are replayed together"
        )
