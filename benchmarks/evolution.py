"""The overhead of an evolution beyond its training runs, and what an evolution finds in ten minutes.

Both use all available devices: `python -m benchmarks evolution --devices 2` divides a CPU.
"""

import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

import purerl
from benchmarks import tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import compilations, compiled, in_turn
from purerl.algos.ppo import PPOConfig, ppo
from purerl.evolution.evolve import Evolved, evolve
from purerl.evolution.inner_loop import Plug, Task, in_chunks, lifetimes, score
from purerl.evolution.meta_evaluate import improvement
from purerl.evolution.method import flatten
from purerl.evolution.plan import EvolveOptions, python_plan
from purerl.functional.drifts import LPO
from purerl.functional.objectives import Clip, Drifting
from purerl.loop.train import make_train

# Settings under which nothing but the drift holds a policy back: without one it falls to chance within a few updates.
# Measured over 8 seeds of 16k steps: no drift 47 +- 34 (mean return of a lifetime), PPO's clip 154 +- 42.
HANDICAP = PPOConfig(
    learning_rate=0.03,
    learning_rate_schedule="constant",
    entropy_coefficient=0.0,
    num_envs=16,
    rollout_length=32,
    num_epochs=8,
    num_minibatches=8,
    hidden_sizes=(32, 32),
)
SEEDS = 32
POPULATION = 64
STEPS = 16_384  # environment steps of a lifetime
UNSEEN = ("Acrobot-v1", "Catch")


def task(name: str, steps: int) -> Task:
    """Return a task under the handicap."""
    return Task(name=name, env=purerl.make(name), config=HANDICAP, total_timesteps=steps)


def search(steps: int) -> dict[str, Any]:
    """Return the parts of the evolution of LPO from nothing on CartPole."""
    start = Drifting(drift=LPO.from_nothing(jax.random.key(0)))
    return {"candidate": start, "learner": Plug(ppo, "objective"), "tasks": [task("CartPole-v1", steps)]}


def overhead(request: Request) -> list[Table]:
    """Time a generation, and only the training runs of its members, in turn; count compilations and bytes."""
    steps, population = max(int(STEPS * request.size), 1024), max(int(POPULATION * request.size), 4)
    whole = python_plan(EvolveOptions(population=population, generations=1), **search(steps))
    mesh, evolution, first = whole.mesh, whole.method(None, whole.mesh), whole.tasks[0]
    state = jax.jit(evolution.init)(jax.random.key(0))
    step, _ = compiled(evolution.step, state)
    center, seeds = flatten(whole.candidate)[0], jax.random.split(jax.random.key(0), population)
    members = center + 0.04 * jax.random.normal(jax.random.key(1), (population, center.size))

    def member(row: jax.Array, key: jax.Array) -> jax.Array:
        train = make_train(whole.learner(evolution.tree(row)), first.env, first.config, first.total_timesteps)
        return score(train(key)[1], "auc")

    bare, _ = compiled(lambda rows, keys: in_chunks(member, (rows, keys), None, mesh), members, seeds)
    timed = in_turn([lambda: step(state), lambda: bare(members, seeds)], request.runs)
    generation, alone = (statistics.median(seconds) for seconds in timed)
    extra = (_bytes(step) - _bytes(bare)) / population
    parts, programs = search(1024), compilations()
    evolve(**parts, population=4, generations=5, display="plain")
    rows = [
        ["seconds of a generation", generation],
        ["seconds of its trainings alone", alone],
        ["a generation against its trainings", generation / alone],
        ["environment steps per second", population * steps / generation],
        ["megabytes per member beyond its training", extra / 1e6],
        ["compilations of a generation's program", programs.count("jit(advance)")],
    ]
    title = (
        f"Evolving LPO from nothing: {population} trainings of {steps:,} steps of CartPole-v1 on {mesh.size} devices"
    )
    return [Table(title=title, columns=tables.columns("what: text; figure: number"), rows=rows)]


def discover(request: Request) -> list[Table]:
    """Evolve LPO from nothing, then compare it with generation 0 and PPO's clip, on fresh seeds and unseen tasks."""
    began, steps, generations = (
        time.perf_counter(),
        max(int(STEPS * request.size), 1024),
        max(int(100 * request.size), 2),
    )
    best = evolve(**search(steps), population=POPULATION, generations=generations, minutes=10.0, display="plain")
    spent = (time.perf_counter() - began) / 60
    columns = tables.columns(
        "task: text; learned: text; generation 0: text; PPO: text; P(learned > generation 0), 95% interval: text; "
        "P(learned > PPO), 95% interval: text"
    )
    rows = [_compare(best, task(name, steps), best.plan.mesh) for name in ("CartPole-v1", *UNSEEN)]
    title = (
        f"LPO evolved on CartPole-v1, {best.generation} generations of {POPULATION} in {spent:.1f} minutes: "
        f"mean return of lifetimes of {steps:,} steps, {SEEDS} fresh seeds"
    )
    return [Table(title=title, columns=columns, rows=rows)]


def _compare(best: Evolved, where: Task, mesh: Mesh) -> list[str]:
    """Return a row: means, and how probably the learned objective is better than generation 0 and than PPO's clip."""
    learned, zero = _lives(best, [best.candidate, best.first], where, mesh)
    (clip,) = _lives(best, [Clip(epsilon=jnp.float32(0.2))], where, mesh)
    better = (improvement([learned], [rival]) for rival in (zero, clip))
    chances = [f"{chance:.2f} ({low:.2f} .. {high:.2f})" for chance, (low, high) in better]
    return [where.name, *(_summary(scores) for scores in (learned, zero, clip)), *chances]


def _lives(best: Evolved, candidates: list[Any], where: Task, mesh: Mesh) -> np.ndarray:
    """Return f32[candidates, SEEDS]; the candidates differ in numbers only."""
    rows, tree = jnp.stack([flatten(candidate)[0] for candidate in candidates]), flatten(candidates[0])[1]
    keys = jnp.broadcast_to(jax.random.split(jax.random.key(2**31 - 1), SEEDS), (len(candidates), SEEDS))
    learner = best.plan.learner
    return np.asarray(jax.jit(lambda rows: lifetimes(learner, where, tree, rows, keys, "auc", None, mesh))(rows))


def _summary(scores: np.ndarray) -> str:
    known = scores[np.isfinite(scores)]
    return f"{known.mean():.1f} +- {known.std():.1f}, {len(scores) - len(known)} failed"


def _bytes(program: Any) -> int:
    analysis = program.memory_analysis()
    return analysis.temp_size_in_bytes + analysis.output_size_in_bytes
