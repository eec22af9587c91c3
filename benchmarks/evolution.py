"""What evolving costs, and what it finds in ten minutes; kept in results/benchmark-MACHINE.json.

python -m benchmarks.evolution overhead      evolve against the bare vmapped training of the same members
python -m benchmarks.evolution discover      LPO from nothing on short CartPole lifetimes, then on unseen tasks
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from rich.console import Console

import purerl
from benchmarks import report, tables
from benchmarks.tables import Table
from purerl.algos.ppo import PPOConfig, ppo
from purerl.devices.selection import make_host_devices
from purerl.evolution.evolve import EvolutionJob, Evolved
from purerl.evolution.generations import flatten
from purerl.evolution.inner_loop import Plug, Task, in_chunks, lifetimes, score
from purerl.evolution.meta_evaluate import improvement
from purerl.evolution.plan import EvolveOptions, EvolvePlan, python_plan
from purerl.functional.drifts import LPO
from purerl.functional.objectives import Clip, Drifting
from purerl.loop.train import make_train

# Settings under which nothing but the drift holds a policy back: without one it falls to chance within a few updates.
# Measured over 8 seeds of 16k steps: no drift 47 +- 34 (mean return of a lifetime), PPO's clip 154 +- 42.
HANDICAP = PPOConfig(
    learning_rate=0.03,
    anneal_learning_rate=False,
    entropy_coefficient=0.0,
    num_envs=16,
    rollout_length=32,
    num_epochs=8,
    num_minibatches=8,
    hidden_sizes=(32, 32),
)
SEEDS = 32


def task(name: str, steps: int) -> Task:
    """Return a task under the handicap."""
    return Task(name, purerl.make(name), HANDICAP, steps)


def plan(population: int, generations: int, steps: int, minutes: float = 0.0) -> EvolvePlan:
    """Return the evolution of LPO from nothing on CartPole."""
    make_host_devices(2)
    start = Drifting(drift=LPO.from_nothing(jax.random.key(0)))
    options = EvolveOptions(population=population, generations=generations, minutes=minutes)
    return python_plan(options, start, Plug(ppo, "objective"), [task("CartPole-v1", steps)])


@click.group()
def cli() -> None:
    """Measure."""


FIGURES = click.option(
    "--figures", type=click.Path(path_type=Path), default=Path("results"), metavar="DIR", help="Where figures go."
)


@cli.command()
@click.option("--population", default=64)
@click.option("--steps", default=16_384)
@click.option("--repeats", default=5)
@FIGURES
def overhead(population: int, steps: int, repeats: int, figures: Path) -> None:
    """Time a generation, and the trainings of its members alone, in turn; count compilations and bytes."""
    whole = plan(population, 1, steps)
    mesh, evolution = whole.mesh, whole.evolution(None, whole.mesh)
    compilations = _count_compilations()
    state = jax.jit(evolution.init)(jax.random.key(0))
    step = jax.jit(evolution.step).lower(state).compile()
    members, seeds = flatten(whole.candidate)[0], jax.random.split(jax.random.key(0), population)
    rows = members + 0.04 * jax.random.normal(jax.random.key(1), (population, members.size))
    first = whole.tasks[0]

    def member(row: jax.Array, key: jax.Array) -> jax.Array:
        train = make_train(whole.learner(evolution.tree(row)), first.env, first.config, first.total_timesteps)
        return score(*train(key), "auc")

    bare = jax.jit(lambda rows, keys: in_chunks(member, (rows, keys), None, mesh)).lower(rows, seeds).compile()
    times: dict[str, list[float]] = {"generation": [], "bare": []}
    for _ in range(repeats + 1):
        for name, call in (("generation", lambda: step(state)), ("bare", lambda: bare(rows, seeds))):
            began = time.perf_counter()
            jax.block_until_ready(call())
            times[name].append(time.perf_counter() - began)
    generation, alone = (float(np.median(times[name][1:])) for name in ("generation", "bare"))
    extra = (_bytes(step) - _bytes(bare)) / population
    small = EvolutionJob(plan(4, 5, 1024), None, plain=True)
    before = compilations()
    small.complete()
    rows = [
        ["seconds of a generation", generation],
        ["seconds of its trainings alone", alone],
        ["a generation against its trainings", generation / alone],
        ["environment steps per second", population * steps / generation],
        ["megabytes per member beyond its training", extra / 1e6],
        ["programs compiled in an evolution", compilations() - before],
    ]
    title = (
        f"Evolving LPO from nothing: {population} trainings of {steps:,} steps of CartPole-v1 on {mesh.size} devices"
    )
    table = Table(title, [("what", "text"), ("figure", "number")], rows)
    _keep(figures, "evolve-overhead", table, {"repeats": repeats})


@cli.command()
@click.option("--minutes", default=10.0, help="For the evolution, compilation included.")
@click.option("--population", default=64)
@click.option("--generations", default=100, help="At most.")
@click.option("--steps", default=16_384)
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the report.")
@FIGURES
def discover(minutes: float, population: int, generations: int, steps: int, out: Path | None, figures: Path) -> None:
    """Evolve LPO from nothing, then compare it with generation 0 and PPO's clip, on fresh seeds and unseen tasks."""
    began = time.perf_counter()
    whole = plan(population, generations, steps, minutes)
    life = EvolutionJob(whole, None, plain=True)
    life.complete()
    found = life.evolved()
    about = f"{found.generation} generations of {population} in {(time.perf_counter() - began) / 60:.1f} minutes"
    columns = [("task", "text"), ("learned", "text"), ("generation 0", "text"), ("PPO", "text")]
    columns += [(f"P(learned > {rival}), 95% interval", "text") for rival in ("generation 0", "PPO")]
    rows = [_compare(found, task(name, steps), whole.mesh) for name in ("CartPole-v1", "Acrobot-v1", "Catch")]
    title = f"LPO evolved on CartPole-v1, {about}: mean return of lifetimes of {steps:,} steps, {SEEDS} fresh seeds"
    settings = {"minutes": minutes, "generations": found.generation, "population": population, "steps": steps}
    _keep(figures, "evolve-discover", Table(title, columns, rows), settings)
    if out is not None:
        from purerl.evolution.report import write_report

        print(write_report(whole, found.columns, found.frames, out))


def _compare(found: Evolved, where: Task, mesh: Mesh) -> list[str]:
    """Return a row: means, and how probably the learned objective is better than generation 0 and than PPO's clip."""
    learned, zero = _lives(found, [found.candidate, found.first], where, mesh)
    (clip,) = _lives(found, [Clip(epsilon=jnp.float32(0.2))], where, mesh)
    better = (improvement([learned], [rival]) for rival in (zero, clip))
    told = [f"{chance:.2f} ({low:.2f} .. {high:.2f})" for chance, (low, high) in better]
    return [where.name, *(_told(scores) for scores in (learned, zero, clip)), *told]


def _lives(found: Evolved, candidates: list[Any], where: Task, mesh: Mesh) -> np.ndarray:
    """Return f32[candidates, SEEDS]; the candidates differ in numbers only."""
    rows, tree = jnp.stack([flatten(candidate)[0] for candidate in candidates]), flatten(candidates[0])[1]
    keys = jnp.broadcast_to(jax.random.split(jax.random.key(2**31 - 1), SEEDS), (len(candidates), SEEDS))
    learner = found.plan.learner
    return np.asarray(jax.jit(lambda rows: lifetimes(learner, where, tree, rows, keys, "auc", None, mesh))(rows))


def _told(scores: np.ndarray) -> str:
    known = scores[np.isfinite(scores)]
    return f"{known.mean():.1f} +- {known.std():.1f}, {len(scores) - len(known)} failed"


def _bytes(compiled: Any) -> int:
    found = compiled.memory_analysis()
    return found.temp_size_in_bytes + found.output_size_in_bytes


def _count_compilations() -> Callable[[], int]:
    """Return a function that says how many programs were compiled since."""

    counter = _Counter()
    logger = logging.getLogger("jax._src.dispatch")
    logger.addHandler(counter)
    logger.propagate = False
    jax.config.update("jax_log_compiles", True)
    return lambda: counter.count


class _Counter(logging.Handler):
    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count what was compiled."""
        self.count += record.getMessage().startswith("Finished XLA compilation")


def _keep(folder: Path, name: str, table: Table, settings: dict[str, Any]) -> None:
    console = Console()
    console.print(tables.show(table))
    console.print(f"kept in {report.keep(folder, {name: [table]}, settings)}")


if __name__ == "__main__":
    cli()
