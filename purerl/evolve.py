"""Evolving whatever an algorithm is plugged with; how fit a candidate is, whole trainings say.

One generation is one pure function: draw candidates, train an agent (or several) with each on every task, step. All
generations are the same compiled program.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from purerl.errors import InputError, unknown
from purerl.evolution import OpenES, centred_ranks, check_population, nan_is_worst, standardize
from purerl.objectives import check_objective
from purerl.train import TrainState, make_train
from purerl.types import AlgorithmFactory, Array, Environment, Key, Metrics, PyTree

FITNESS = ("auc", "final", "wins")
SHAPING = {"zscore": standardize, "rank": centred_ranks}
LAST = 10  # "final" is the mean over the last 1 / LAST of the updates


class Task(NamedTuple):
    """What candidates are tried on: a lifetime of an agent."""

    name: str
    env: Environment
    config: Any  # the algorithm's
    total_timesteps: int  # environment steps of a lifetime
    redraw: Callable[[Key, Any], Any] | None = None  # (key, env) -> env, for each lifetime; None: always the same


class Plug(NamedTuple):
    """Where a candidate goes: `Plug(ppo, "objective")(candidate)` is `partial(ppo, objective=candidate)`."""

    algorithm: AlgorithmFactory
    argument: str  # "objective", "loss" or "optimizer" of ppo, "rule" of lpg

    def __call__(self, candidate: PyTree) -> AlgorithmFactory:
        """Return the algorithm with the candidate in it."""
        return partial(self.algorithm, **{self.argument: candidate})


class EvolutionState(NamedTuple):
    """Where an evolution is: arrays only."""

    strategy: PyTree
    key: Key  # generation n draws from fold_in(key, n)
    generation: Array  # i32[], how many there were


class Generation(NamedTuple):
    """What a generation was like; P candidates."""

    fitness: Array  # f32[tasks, P], the means over seeds; NaN: a training failed
    mean: Array  # f32[n], the centre that the candidates were drawn around
    sigma: Array  # f32[]
    best: Array  # f32[n], the candidate that was fittest over all tasks


class Evolution(NamedTuple):
    """An evolution as pure functions."""

    init: Callable[[Key], EvolutionState]
    step: Callable[[EvolutionState], tuple[EvolutionState, Generation]]
    tree: Callable[[Array], PyTree]  # a flat vector as a candidate
    center: Callable[[EvolutionState], Array]  # f32[n], the centre of the search
    size: int  # n


def make_evolution(
    candidate: PyTree,
    learner: Callable[[PyTree], AlgorithmFactory],
    tasks: Sequence[Task],
    strategy: Any = None,
    *,
    seeds: int = 1,
    fitness: str = "auc",
    shaping: str = "zscore",
    common: bool = True,
    chunk: int | None = None,
) -> Evolution:
    """Return the evolution of a candidate's float parameters.

    Args:
      candidate: any pytree; where the search starts. Its float leaves are evolved, the others stay.
      learner: candidate -> algorithm, such as `Plug(ppo, "objective")`.
      tasks: what candidates are tried on.
      strategy: from `purerl.evolution`; `OpenES()` if none is given.
      seeds: lifetimes per candidate and task.
      fitness: "auc", the mean over a lifetime of the training episodes' return; "final", its last tenth; "wins", which
        of a pair's two was better in its "auc", over seeds and tasks.
      shaping: "zscore" or "rank": how a task's fitness is normalised over the population before tasks are averaged.
      common: all candidates of a generation meet the same random numbers; otherwise each its own.
      chunk: lifetimes side by side; the rest waits. None: all at once.

    Raises:
      InputError: if there is nothing to evolve, the population cannot be drawn, the objective is not one, or the tasks
        do not fit together.
    """
    strategy = OpenES() if strategy is None else strategy
    check_population(strategy.population, strategy.antithetic)
    _check(candidate, learner, tasks, seeds, fitness, shaping, strategy)
    start, tree = flatten(candidate)
    population = strategy.population

    def init(key: Key) -> EvolutionState:
        return EvolutionState(strategy.init(start), key, jnp.int32(0))

    def step(state: EvolutionState) -> tuple[EvolutionState, Generation]:
        key_ask, key_lives = jax.random.split(jax.random.fold_in(state.key, state.generation))
        candidates, asked = strategy.ask(state.strategy, key_ask)
        if common:
            keys = jnp.broadcast_to(jax.random.split(key_lives, seeds), (population, seeds))
        else:
            keys = jax.random.split(key_lives, (population, seeds))
        kind = "auc" if fitness == "wins" else fitness
        lives = [lifetimes(learner, task, tree, candidates, keys, kind, chunk) for task in tasks]
        scores = jnp.stack(lives)  # f32[tasks, P, seeds]
        per_task = jnp.mean(scores, axis=2)
        shaped = _wins(scores) if fitness == "wins" else jnp.mean(_shape(per_task, shaping), axis=0)
        told = strategy.tell(asked, candidates, shaped)
        best = candidates[jnp.argmax(jnp.mean(_shape(per_task, shaping), axis=0))]
        report = Generation(per_task, strategy.mean(state.strategy), strategy.sigma(state.strategy), best)
        return EvolutionState(told, state.key, state.generation + 1), report

    return Evolution(init, step, tree, lambda state: strategy.mean(state.strategy), start.size)


def lifetimes(
    learner: Callable[[PyTree], AlgorithmFactory],
    task: Task,
    tree: Callable[[Array], PyTree],
    candidates: Array,
    keys: Key,
    kind: str,
    chunk: int | None = None,
) -> Array:
    """Train with every candidate from every key, `chunk` of them side by side.

    Args:
      learner, task: as for `make_evolution`.
      tree: makes a candidate of a row.
      candidates: f32[P, n].
      keys: [P, S].
      kind: "auc" or "final".
      chunk: as for `make_evolution`.

    Returns:
      f32[P, S], how well each went; NaN where a training's loss or parameters stopped being finite.
    """

    def live(row: Array, key: Key) -> Array:
        key_env, key_train = jax.random.split(key)
        env = task.env if task.redraw is None else task.redraw(key_env, task.env)
        train = make_train(learner(tree(candidates[row])), env, task.config, task.total_timesteps)
        return score(*train(key_train), kind)

    rows = jnp.broadcast_to(jnp.arange(keys.shape[0])[:, None], keys.shape)
    return in_chunks(live, (rows.reshape(-1), keys.reshape(-1)), chunk).reshape(keys.shape)


def in_chunks(function: Callable[..., Array], members: tuple, chunk: int | None) -> Array:
    """Apply a function to each member, `chunk` of them at once, in one compiled loop.

    Args:
      function: of one member.
      members: arrays with leading axis [M].
      chunk: how many at once; None: all.

    Returns:
      [M, ...]. Where `chunk` does not divide M, the last ones are filled up with members that are thrown away.
    """
    count = jax.tree.leaves(members)[0].shape[0]
    num_chunks = -(-count // min(chunk or count, count))
    width = -(-count // num_chunks)
    chosen = np.arange(num_chunks * width) % count
    grouped = jax.tree.map(lambda x: x[chosen].reshape(num_chunks, width, *x.shape[1:]), members)

    results = jax.lax.map(lambda members: jax.vmap(function)(*members), grouped)
    return results.reshape(-1, *results.shape[2:])[:count]


def score(state: TrainState, metrics: Metrics, kind: str) -> Array:
    """Return how well a training went, f32[]: a mean over updates of the latest known return of training episodes.

    Args:
      state, metrics: from `make_train`; metrics are f32[updates] each.
      kind: "auc": over all updates, what came before the first episode's end counted as that one; "final": over the
        last tenth.

    Returns:
      NaN if no episode ended, or one of the algorithm's own metrics was not finite at the end.
    """
    returns = metrics["episode_return"]
    known = ~jnp.isnan(returns)
    latest = jax.lax.cummax(jnp.where(known, jnp.arange(returns.size), jnp.argmax(known)))
    held = returns[latest]
    result = jnp.mean(held if kind == "auc" else held[-max(1, returns.size // LAST) :])
    own = [values[-1] for name, values in metrics.items() if name not in state.vector.statistics.summary()]
    return jnp.where(jnp.all(jnp.isfinite(jnp.stack(own))), result, jnp.nan)


def flatten(candidate: PyTree) -> tuple[Array, Callable[[Array], PyTree]]:
    """Return (the float parameters as f32[n], a function that puts such a vector back into the tree)."""
    leaves, structure = jax.tree.flatten(candidate)
    moving = [i for i, leaf in enumerate(leaves) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating)]
    vector, unravel = ravel_pytree([jnp.asarray(leaves[i], jnp.float32) for i in moving])

    def tree(vector: Array) -> PyTree:
        changed = dict(zip(moving, unravel(vector), strict=True))
        return jax.tree.unflatten(structure, [changed.get(i, leaf) for i, leaf in enumerate(leaves)])

    return vector, tree


def _shape(fitness: Array, shaping: str) -> Array:
    return jax.vmap(lambda scores: SHAPING[shaping](nan_is_worst(scores)))(fitness)


def _wins(scores: Array) -> Array:
    """Return f32[P] of f32[tasks, P, seeds]: the trials won less those lost against the other of a pair, as a share."""
    known = jnp.where(jnp.isfinite(scores), scores, -jnp.inf)
    plus, minus = jnp.split(known, 2, axis=1)
    won = jnp.mean((plus > minus).astype(jnp.float32) - (plus < minus).astype(jnp.float32), axis=(0, 2))
    return jnp.concatenate([won, -won])


def _check(
    candidate: PyTree,
    learner: Callable[[PyTree], AlgorithmFactory],
    tasks: Sequence[Task],
    seeds: int,
    fitness: str,
    shaping: str,
    strategy: Any,
) -> None:
    """Refuse what cannot be evolved, before anything is compiled."""
    if fitness not in FITNESS:
        raise unknown("fitness", fitness, FITNESS)
    if shaping not in SHAPING:
        raise unknown("shaping", shaping, SHAPING)
    if fitness == "wins" and not strategy.antithetic:
        raise InputError("fitness 'wins' compares the two of a pair: it needs antithetic sampling")
    if seeds < 1:
        raise InputError(f"seeds is {seeds}; it must be at least 1")
    if not tasks:
        raise InputError("there is no task to evolve on: give at least one, such as CartPole-v1")
    kinds = {task.name: type(task.env.action_space).__name__ for task in tasks}
    if len(set(kinds.values())) > 1:
        told = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
        raise InputError(f"tasks must have actions of one kind: {told}")
    if not any(jnp.issubdtype(jnp.result_type(leaf), jnp.floating) for leaf in jax.tree.leaves(candidate)):
        raise InputError(f"{type(candidate).__name__} has no parameters to evolve: none of its leaves is a float")
    if isinstance(learner, Plug) and learner.argument == "objective":
        check_objective(candidate)
    for task in tasks:  # the shapes of a whole lifetime: an objective that is not per sample is told here
        jax.eval_shape(make_train(learner(candidate), task.env, task.config, task.total_timesteps), jax.random.key(0))
