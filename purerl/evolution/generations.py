"""A generation as one pure function: sample candidates, train with each on every task, update the strategy.

A candidate is any part that plugs into an algorithm, such as an objective; its fitness is the score of complete
training runs.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from purerl.errors import InputError, unknown
from purerl.evolution.fitness import centered_ranks, nan_is_worst, standardize
from purerl.evolution.inner_loop import Learner, Task, lifetimes
from purerl.evolution.method import Generation, Method, check_search, flatten
from purerl.evolution.strategies import OpenES, check_population
from purerl.settings.options import ACROSS_TASKS, FITNESS, SHAPING
from purerl.types import Array, Key, PyTree

SHAPERS = {"zscore": standardize, "rank": centered_ranks}


class EvolutionState(NamedTuple):
    """The state of an evolution: arrays only."""

    strategy: PyTree
    key: Key  # generation n draws from fold_in(key, n)
    generation: Array  # i32[], how many are done


def make_evolution(
    candidate: PyTree,
    learner: Learner,
    tasks: Sequence[Task],
    strategy: Any = None,
    *,
    seeds: int = 1,
    fitness: str = "auc",
    shaping: str = "zscore",
    across_tasks: str = "mean",
    weight_decay: float = 0.0,
    common: bool = True,
    chunk: int | None = None,
    mesh: Mesh | None = None,
    checked: bool = False,
) -> Method:
    """Return the evolution of a candidate's float parameters.

    Args:
      candidate: any pytree; the start of the search. Only its float leaves are evolved.
      learner: candidate -> algorithm, such as `Plug(ppo, "objective")`.
      tasks: what candidates are tried on.
      strategy: from `purerl.evolution.strategies`; `OpenES()` if none is given.
      seeds: lifetimes per candidate and task.
      fitness: "auc", the mean over a lifetime of the training episodes' return; "final", its last tenth; "wins", which
        of a pair's two was better in its "auc", over seeds and tasks.
      shaping: "zscore" or "rank": how a task's fitness is normalized over the population before tasks are averaged.
      across_tasks: "mean": the mean of the normalized fitness over tasks; "worst": the lowest, normalized again.
      weight_decay: is multiplied by the mean square of a candidate's parameters, and subtracted from its normalized
        fitness.
      common: whether all candidates of a generation get the same random numbers, rather than different ones.
      chunk: lifetimes run in parallel, one chunk after another. None: all at once, but on a CPU one by one.
      mesh: a mesh of `purerl.devices.sharding`: its axis "seed" divides the lifetimes among devices.
      checked: whether these arguments passed the checks before, which are then skipped; checking an objective compiles
        a small program.

    Raises:
      InputError: if nothing can be evolved, the population cannot be sampled, the objective is not one, or the tasks
        do not fit together.
    """
    strategy = OpenES() if strategy is None else strategy
    if not checked:
        named = {"fitness": fitness, "shaping": shaping, "across_tasks": across_tasks}
        _check(candidate, learner, tasks, seeds=seeds, strategy=strategy, **named)
    start, tree = flatten(candidate)
    population = strategy.population

    def init(key: Key) -> EvolutionState:
        return EvolutionState(strategy=strategy.init(start), key=key, generation=jnp.int32(0))

    def step(state: EvolutionState) -> tuple[EvolutionState, Generation]:
        key_ask, key_lives = jax.random.split(jax.random.fold_in(state.key, state.generation))
        candidates, asked = strategy.ask(state.strategy, key_ask)
        if common:
            keys = jnp.broadcast_to(jax.random.split(key_lives, seeds), (population, seeds))
        else:
            keys = jax.random.split(key_lives, (population, seeds))
        kind = "auc" if fitness == "wins" else fitness
        lives = [
            lifetimes(learner, task, tree, candidates=candidates, keys=keys, kind=kind, chunk=chunk, mesh=mesh)
            for task in tasks
        ]
        scores = jnp.stack(lives)  # f32[tasks, P, seeds]
        per_task = jnp.mean(scores, axis=2)
        shaped = _wins(scores) if fitness == "wins" else _combine(_shape(per_task, shaping), shaping, across_tasks)
        if weight_decay:
            shaped = shaped - weight_decay * jnp.mean(candidates**2, axis=1)
        told = strategy.tell(asked, candidates, shaped)
        lost = _turned_nan(state.strategy, told) | ~jnp.all(jnp.isfinite(strategy.mean(told)))
        updated = jax.tree.map(partial(jnp.where, lost), state.strategy, told)  # a deviation that fell to 0, mostly
        report = Generation(
            fitness=per_task,
            failed=~jnp.isfinite(per_task),
            mean=strategy.mean(state.strategy),
            metrics={"sigma": strategy.sigma(state.strategy)},
        )
        return EvolutionState(strategy=updated, key=state.key, generation=state.generation + 1), report

    return Method(init=init, step=step, tree=tree, center=lambda state: strategy.mean(state.strategy), size=start.size)


def _turned_nan(old: PyTree, new: PyTree) -> Array:
    """Return whether a number of a strategy's state is NaN that was not, bool[]; some begin as NaN."""
    turned = [
        jnp.any(jnp.isnan(after) & ~jnp.isnan(before))
        for before, after in zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True)
        if jnp.issubdtype(after.dtype, jnp.floating)
    ]
    return jnp.any(jnp.stack(turned)) if turned else jnp.bool_(False)


def _shape(fitness: Array, shaping: str) -> Array:
    return jax.vmap(lambda scores: SHAPERS[shaping](nan_is_worst(scores)))(fitness)


def _combine(shaped: Array, shaping: str, across_tasks: str) -> Array:
    """Combine the normalized fitness over tasks, f32[tasks, P], into f32[P]."""
    if across_tasks == "worst":
        return SHAPERS[shaping](jnp.min(shaped, axis=0))
    return jnp.mean(shaped, axis=0)


def _wins(scores: Array) -> Array:
    """Return f32[P], wins minus losses per run against the other candidate of the pair, from f32[tasks, P, seeds]."""
    known = jnp.where(jnp.isfinite(scores), scores, -jnp.inf)
    plus, minus = jnp.split(known, 2, axis=1)
    won = jnp.mean((plus > minus).astype(jnp.float32) - (plus < minus).astype(jnp.float32), axis=(0, 2))
    return jnp.concatenate([won, -won])


def _check(
    candidate: PyTree,
    learner: Learner,
    tasks: Sequence[Task],
    seeds: int,
    fitness: str,
    shaping: str,
    across_tasks: str,
    strategy: Any,
) -> None:
    """Reject candidates that cannot be evolved, before a generation is compiled."""
    check_population(strategy.population, strategy.antithetic)
    if fitness not in FITNESS:
        raise unknown("fitness", fitness, FITNESS)
    if shaping not in SHAPING:
        raise unknown("shaping", shaping, SHAPING)
    if fitness == "wins" and not strategy.antithetic:
        raise InputError("fitness 'wins' compares the two candidates of a pair: it needs antithetic sampling")
    if across_tasks not in ACROSS_TASKS:
        raise unknown("across_tasks", across_tasks, ACROSS_TASKS)
    if fitness == "wins" and across_tasks == "worst":
        raise InputError("fitness 'wins' averages over tasks; across_tasks 'worst' needs fitness 'auc' or 'final'")
    if seeds < 1:
        raise InputError(f"seeds is {seeds}; it must be at least 1")
    check_search(candidate, learner, tasks)
