"""Schedules: numbers that change over a run follow one counter, the agent's updates."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp

from purerl.fields import static
from purerl.types import Array

T = TypeVar("T")
Schedule = str | Callable[[Array], Array]  # a name of `SCHEDULES`, or a share of the run, f32[] from 0 to 1 -> a factor
WARMUP = 0.05  # the share of a run in which "warmup-cosine" rises


def _linear(share: Array) -> Array:
    return jnp.maximum(1.0 - share, 0.0)


def _cosine(share: Array) -> Array:
    return 0.5 * (1.0 + jnp.cos(jnp.pi * jnp.minimum(share, 1.0)))


def _warmup_cosine(share: Array) -> Array:
    return jnp.where(share < WARMUP, share / WARMUP, _cosine((share - WARMUP) / (1.0 - WARMUP)))


SCHEDULES: dict[str, Callable[[Array], Array] | None] = {
    "constant": None,
    "linear": _linear,
    "cosine": _cosine,
    "warmup-cosine": _warmup_cosine,
}


def schedule(default: str = "constant") -> Any:
    """Declare a field NAME_schedule: how the number NAME of the same config changes over total_timesteps.

    Its value is a name of `SCHEDULES`, or from Python a function (progress of the run, f32[]) -> factor of NAME, f32[].
    """
    doc = "schedule over total_timesteps, counted in updates that learn; linear and cosine decay to 0"
    return static(default=default, doc=doc, choices=tuple(SCHEDULES), or_function=True)


def scheduled(config: T, num_updates: Array) -> T:
    """Return the config of the update that follows i32[] updates: scheduled numbers have that update's value.

    A number x is x f(share) then, with f its schedule and share the environment steps so far / total_timesteps.
    """
    names = [field.name for field in dataclasses.fields(config) if field.name.endswith("_schedule")]  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name in names:
        given, number = getattr(config, name), name.removesuffix("_schedule")
        factor = SCHEDULES[given] if isinstance(given, str) else given
        if factor is not None:
            total = jnp.asarray(config.total_timesteps, jnp.float32)  # type: ignore[attr-defined]
            share = environment_steps(config, num_updates) / total
            values[number] = getattr(config, number) * factor(share)
    return dataclasses.replace(config, **values) if values else config  # type: ignore[type-var]


def environment_steps(config: Any, num_updates: Array) -> Array:
    """Return the environment steps of i32[] updates: f32[], which does not overflow."""
    return num_updates.astype(jnp.float32) * float(config.steps_per_update)


def updates_of(config: Any, steps: int) -> int:
    """Return the updates that complete `steps` environment steps, rounded up."""
    return -(-steps // config.steps_per_update)
