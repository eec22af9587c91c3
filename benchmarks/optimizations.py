"""Each optimization taken away: what it gains in speed, and that learning is the same without it.

python -m benchmarks.optimizations            PPO and DQN on CartPole, 20 seeds: a table, results/optimizations.csv
python -m benchmarks.optimizations --quick    2 seeds, few steps: shows that it runs, writes nothing

The interval is that of the difference of the final returns' means (95%, bootstrap over seeds): it should hold 0.
"""

import argparse
import contextlib
import csv
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import optax

import purerl
from purerl import registry
from purerl.algo_parts import minibatch, optimizers
from purerl.devices import selection, sharding, threads
from purerl.stats import bootstrap_interval

PATH = Path(__file__).parent.parent / "results" / "optimizations.csv"
COLUMNS = ("task", "without", "steps_per_second", "of_all", "final_return", "difference", "low", "high")
TASKS = {
    "ppo": {"learning_rate": 1e-3, "total_timesteps": 100_000},
    "dqn": {"learning_rate": 1e-3, "total_timesteps": 100_000, "learning_starts": 1_000},
}


class Variant(NamedTuple):
    """An optimization that is taken away: by settings, or by putting plain code in its place."""

    settings: dict[str, Any]
    place: Callable[[], Any] = contextlib.nullcontext  # a context in which training is traced


def leaf_by_leaf(inner: Any, max_grad_norm: Any) -> Any:
    """Return optax's own chain, on the arrays as they are."""
    return inner if max_grad_norm is None else optax.chain(optax.clip_by_global_norm(max_grad_norm), inner)


ALL = Variant({})
THREEFRY = Variant({"prng": "threefry"})
ALWAYS = Variant({"reset_policy": "always"})
LEAVES = Variant({}, lambda: patch.object(optimizers, "clipped", leaf_by_leaf))
PAIRS = Variant({}, lambda: patch.object(minibatch, "permutation", jax.random.permutation))
VARIANTS = {
    "ppo": {
        "nothing": ALL,
        "the fast generator": THREEFRY,
        "starts in reserve": ALWAYS,
        "Adam on one vector": LEAVES,
        "the sort of one operand": PAIRS,
    },
    "dqn": {
        "nothing": ALL,
        "the fast generator": THREEFRY,
        "starts in reserve": ALWAYS,
        "Adam on one vector": LEAVES,
    },
}


def measure(algorithm: str, variant: Variant, seeds: int, steps: int) -> tuple[float, np.ndarray]:
    """Return (environment steps per second of all seeds, f32[seeds] the mean return of the last tenth)."""
    factory, cls = registry.algorithm(algorithm)
    config = dataclasses.replace(cls(), **TASKS[algorithm] | variant.settings | {"total_timesteps": steps})
    with threads.fitting(config, "CartPole-v1", {}):
        mesh = selection.choose("auto", (), seeds, config.num_envs)
    keys = sharding.place(jax.random.split(jax.random.key(0), seeds), mesh, "seed")
    with variant.place():
        train = purerl.make_train(factory, purerl.make("CartPole-v1"), config, num_points=20)
        program = jax.jit(sharding.lanes(train, mesh, "seed")).lower(keys).compile()
    took, done = [], program(keys)
    for _ in range(3):
        began = time.perf_counter()
        done = jax.block_until_ready(program(keys))
        took.append(time.perf_counter() - began)
    returns = np.asarray(done[1]["episode_return"])
    return seeds * steps / float(np.median(took)), np.nanmean(returns[:, -2:], axis=1)


def main() -> None:
    """Measure all variants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 seeds, few steps; writes nothing")
    quick = parser.parse_args().quick
    seeds, rows = 2 if quick else 20, []
    for algorithm, variants in VARIANTS.items():
        reference = None
        for name, variant in variants.items():
            steps = 12_288 if quick else int(TASKS[algorithm]["total_timesteps"])
            speed, returns = measure(algorithm, variant, seeds, steps)
            reference = reference or (speed, returns)
            gap = returns.mean() - reference[1].mean()
            apart = lambda x, y: jnp.mean(x) - jnp.mean(y)
            low, high = bootstrap_interval(jax.random.key(0), returns, reference[1], statistic=apart)
            share = speed / reference[0]
            numbers = (round(speed), f"{share:.2f}", *(f"{x:.1f}" for x in (returns.mean(), gap, low, high)))
            rows.append((f"{algorithm} CartPole-v1", name, *numbers))
            print(
                f"{algorithm} without {name}: {speed:,.0f} steps/s ({share:.2f}), return {returns.mean():.1f}, "
                f"difference {gap:.1f} ({low:.1f} .. {high:.1f})",
                flush=True,
            )
    if not quick:
        with PATH.open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
