"""Levels of an environment: values of some of its number fields; how they are sampled and mutated."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from purerl.errors import InputError, hints, unknown
from purerl.fields import is_static
from purerl.loop.extension import Setup
from purerl.settings import ranges
from purerl.settings.ranges import Range
from purerl.types import Array, Config, Environment, Key

Level = dict[str, Array]  # number fields of an environment by name
STEP = 0.1  # standard deviation of a mutation, of the length of a range


@runtime_checkable
class DrawsLevels(Protocol):
    """An environment that samples and mutates its own levels."""

    def draw_level(self, key: Key) -> Level:
        """Sample a level."""
        ...

    def mutate_level(self, key: Key, level: Level) -> Level:
        """Return a level with one small change."""
        ...


@runtime_checkable
class HoldsLevelsOut(Protocol):
    """An environment with held-out levels for evaluation."""

    def held_out_levels(self) -> Mapping[str, Mapping[str, object]]:
        """Return {name: level}."""
        ...


class LevelSpace(NamedTuple):
    """The levels that a run can play."""

    draw: Callable[[Key], Level]
    mutate: Callable[[Key, Level], Level]  # one small change


def level_space(env: Environment, over: tuple[str, ...], config: Config | None = None) -> LevelSpace:
    """Return the levels of an environment: its own, or the values of number fields within ranges.

    Args:
      env: one environment; its fields may be traced.
      over: ranges as NAME=LOW:HIGH or NAME=LOW:HIGH:log; none: the environment's own levels.
      config: the algorithm's, for messages that name its fields.

    Raises:
      InputError: if the environment has no levels of its own and no range is given, or a range is none of its.
    """
    if over:
        return _within({name: _range(text, env, config) for text in over for name in [text.partition("=")[0].strip()]})
    if not isinstance(env, DrawsLevels):
        numbers = _numbers(env)
        name = type(env).__name__
        if not numbers:
            raise InputError(f"levels: {name} does not define levels of its own and has no number fields")
        raise InputError(
            f"levels: {name} does not define levels of its own: give levels_over, such as {numbers[0]}=LOW:HIGH; "
            f"its numbers are {', '.join(numbers)}"
        )
    return LevelSpace(draw=env.draw_level, mutate=env.mutate_level)


def held_out(env: Environment) -> dict[str, Level]:
    """Return {name: level} of the held-out levels of an environment; {} without any."""
    if not isinstance(env, HoldsLevelsOut):
        return {}
    return {
        name: {field: jnp.asarray(x) for field, x in level.items()} for name, level in env.held_out_levels().items()
    }


def on_level(env: Any, level: Mapping[str, Any]) -> Any:
    """Return an environment whose fields are replaced by a level."""
    return dataclasses.replace(env, **level)


def _numbers(env: Environment) -> list[str]:
    """Return the names of the fields of an environment that are single numbers."""
    if not dataclasses.is_dataclass(env):
        return []
    kinds = hints(type(env))
    return [f.name for f in dataclasses.fields(env) if not is_static(f) and kinds[f.name] in (int, float)]


def _range(text: str, env: Environment, config: Config | None) -> Range:
    forms = "LOW:HIGH or LOW:HIGH:log"
    name, wanted = ranges.parse(text, flag="levels_over", forms=forms)
    if not isinstance(wanted, Range):
        raise InputError(f"levels_over {text}: it must be NAME={forms}")
    if name not in _numbers(env):
        raise unknown(f"number of {type(env).__name__}", name, _numbers(env))
    bound = ranges.bind({f"env.{name}": wanted}, Setup(config=config, env=env, options={}))[f"env.{name}"]
    assert isinstance(bound, Range)
    return bound


def _within(over: dict[str, Range]) -> LevelSpace:
    """Return the levels whose numbers lie within ranges."""

    def draw(key: Key) -> Level:
        keys = jax.random.split(key, len(over))
        return {name: _at(of, jax.random.uniform(k)) for (name, of), k in zip(over.items(), keys, strict=True)}

    def mutate(key: Key, level: Level) -> Level:
        key_field, key_step = jax.random.split(key)
        chosen, step = jax.random.randint(key_field, (), 0, len(over)), STEP * jax.random.normal(key_step)
        moved = {name: _moved(of, level[name], step) for name, of in over.items()}
        return {name: jnp.where(chosen == i, moved[name], level[name]) for i, name in enumerate(over)}

    return LevelSpace(draw=draw, mutate=mutate)


def _at(of: Range, position: Array) -> Array:
    """Return the number at a position of 0 to 1 in a range: f32[], or i32[] for integers."""
    return of.at(position, jnp).astype(jnp.int32 if of.whole else jnp.float32)


def _moved(of: Range, value: Array, step: Array) -> Array:
    """Return a number moved by a fraction of its range, an integer by at least 1, and kept within the range."""
    low, high = of.edges
    scaled = jnp.log(value.astype(jnp.float32)) if of.log else value.astype(jnp.float32)
    moved = _at(of, jnp.clip((scaled - low) / (high - low) + step, 0.0, 1.0))
    if not of.whole:
        return moved
    least = jnp.where(step < 0, value - 1, value + 1)
    return jnp.clip(jnp.where(moved == value, least, moved), int(of.low), int(of.high)).astype(jnp.int32)
