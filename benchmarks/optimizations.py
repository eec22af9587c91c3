"""Each optimization taken away: its gain in speed, and that learning is the same without it.

The interval is that of the difference of the final returns' means (95%, bootstrap over seeds): it should hold 0.
"""

import contextlib
import dataclasses
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import optax

import purerl
from benchmarks import tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import compiled, in_turn, progress
from purerl import registry
from purerl.algo_parts import minibatch, optimizers
from purerl.devices import selection, sharding, threads
from purerl.stats import bootstrap_interval

STEPS = 100_000
TASKS = {"ppo": {"learning_rate": 1e-3}, "dqn": {"learning_rate": 1e-3, "learning_starts": 1_000}}
COLUMNS = tables.columns(
    "task: text; without: text; steps/s: rate; of all: ratio; final return: number; difference: number; "
    "95% interval: text"
)


class Variant(NamedTuple):
    """An optimization that is taken away: by settings, or by plain code in its place."""

    settings: dict[str, Any]
    patched: Callable[[], Any] = contextlib.nullcontext  # a context in which training is traced


def leaf_by_leaf(inner: Any, max_grad_norm: Any) -> Any:
    """Return optax's own chain, on the arrays as they are."""
    return inner if max_grad_norm is None else optax.chain(optax.clip_by_global_norm(max_grad_norm), inner)


DQN = {
    "nothing": Variant({}),
    "the fast generator": Variant({"prng": "threefry"}),
    "starts in reserve": Variant({"reset_policy": "always"}),
    "Adam on one vector": Variant({}, lambda: patch.object(optimizers, "clipped", leaf_by_leaf)),
}
PAIRS = Variant({}, lambda: patch.object(minibatch, "permutation", jax.random.permutation))
VARIANTS = {"ppo": DQN | {"the sort of one operand": PAIRS}, "dqn": DQN}


def measure(request: Request) -> list[Table]:
    """Return the speed and the final return of PPO and DQN on CartPole-v1, 20 seeds, without each optimization."""
    seeds, rows = max(int(20 * request.size), 2), []
    for algorithm, variants in VARIANTS.items():
        reference = None
        for name, variant in variants.items():
            speed, returns = train(algorithm, variant, seeds, max(int(STEPS * request.size), 12_288))
            reference = reference or (speed, returns)
            apart = lambda x, y: jnp.mean(x) - jnp.mean(y)
            low, high = bootstrap_interval(jax.random.key(0), returns, reference[1], statistic=apart)
            mean, gap = float(returns.mean()), float(returns.mean() - reference[1].mean())
            progress(f"{algorithm} without {name}: {speed:,.0f} steps/s, return {mean:.1f}")
            row = [f"{algorithm} CartPole-v1", name, speed, speed / reference[0], mean, gap]
            rows.append([*row, f"{low:.1f} .. {high:.1f}"])
    title = f"Each optimization taken away, {seeds} seeds"
    return [Table(title=title, columns=COLUMNS, rows=rows)]


def train(algorithm: str, variant: Variant, seeds: int, steps: int) -> tuple[float, np.ndarray]:
    """Return (environment steps per second of all seeds, f32[seeds] the mean return of the last tenth)."""
    factory, cls = registry.algorithm(algorithm)
    config = dataclasses.replace(cls(), **TASKS[algorithm] | variant.settings | {"total_timesteps": steps})
    with threads.fitting(config, "CartPole-v1", {}):
        mesh = selection.choose("auto", (), seeds, config.num_envs)
    keys = sharding.place(jax.random.split(jax.random.key(0), seeds), mesh, "seed")
    with variant.patched():
        whole = purerl.make_train(factory, purerl.make("CartPole-v1"), config, num_points=20)
        program, _ = compiled(sharding.lanes(whole, mesh, "seed"), keys)
    (seconds,) = in_turn([lambda: program(keys)], 3)
    returns = np.asarray(program(keys)[1].episodes["episode_return"])
    return seeds * steps / statistics.median(seconds), np.nanmean(returns[:, -2:], axis=1)
