"""Lifetimes: the score of a complete training run, for many candidates in one compiled loop."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from purerl.devices import sharding
from purerl.loop.metrics import TrainMetrics, finite
from purerl.loop.train import make_train
from purerl.types import AlgorithmFactory, Array, Environment, Key, PyTree
from purerl.xla import backend

LAST = 10  # "final" is the mean over the last 1 / LAST of the updates

Learner = Callable[[PyTree], AlgorithmFactory]  # candidate -> algorithm


class Task(NamedTuple):
    """An environment and a config to train candidates with, for one lifetime of an agent."""

    name: str
    env: Environment
    config: Any  # the algorithm's
    total_timesteps: int  # environment steps of a lifetime
    redraw: Callable[[Key, Any], Any] | None = None  # (key, env) -> env, for each lifetime; None: always the same


class Plug(NamedTuple):
    """The argument of an algorithm that a candidate replaces.

    `Plug(ppo, "objective")(candidate)` is `partial(ppo, objective=candidate)`.
    """

    algorithm: AlgorithmFactory
    argument: str  # "objective", "loss" or "optimizer" of ppo, "rule" of lpg

    def __call__(self, candidate: PyTree) -> AlgorithmFactory:
        """Return the algorithm that uses the candidate."""
        return partial(self.algorithm, **{self.argument: candidate})


def lifetimes(
    learner: Learner,
    task: Task,
    tree: Callable[[Array], PyTree],
    candidates: Array,
    keys: Key,
    kind: str,
    chunk: int | None = None,
    mesh: Mesh | None = None,
) -> Array:
    """Train with every candidate from every key, `chunk` of them in parallel.

    Args:
      learner: candidate -> algorithm, such as `Plug(ppo, "objective")`.
      task: what to train on.
      tree: makes a candidate of a row.
      candidates: f32[P, n].
      keys: [P, S].
      kind: "auc" or "final".
      chunk, mesh: as for `in_chunks`.

    Returns:
      f32[P, S], the score of each; NaN where the loss or the parameters of a run stopped being finite.
    """

    def live(vector: Array, key: Key) -> Array:
        key_env, key_train = jax.random.split(key)
        env = task.env if task.redraw is None else task.redraw(key_env, task.env)
        train = make_train(learner(tree(vector)), env, task.config, task.total_timesteps)
        return score(train(key_train)[1], kind)

    members = jnp.repeat(candidates, keys.shape[1], axis=0), keys.reshape(-1)
    return in_chunks(live, members, chunk, mesh).reshape(keys.shape)


def in_chunks(function: Callable[..., PyTree], members: tuple, chunk: int | None, mesh: Mesh | None = None) -> Any:
    """Apply a function to each member, in one compiled loop over chunks.

    Args:
      function: a function of one member.
      members: arrays with leading axis [M].
      chunk: how many side by side; None: all, but on a CPU one by one, which is as fast there, and gives each the same
        bits wherever it stands.
      mesh: its axis "seed" divides the chunks among devices.

    Returns:
      [M, ...]. Where chunks do not divide M, the last ones are filled up with members that are thrown away.
    """
    count = jax.tree.leaves(members)[0].shape[0]
    chunk = min(chunk or (1 if backend.runs_members_in_turn() else count), count)
    num_chunks = -(-count // chunk)
    num_chunks = num_chunks if mesh is None else sharding.pad(num_chunks, mesh, "seed")
    width = -(-count // num_chunks)
    chosen = np.arange(num_chunks * width) % count
    grouped = jax.tree.map(lambda x: x[chosen].reshape(num_chunks, width, *x.shape[1:]), members)

    def together(*members: object) -> PyTree:
        if width == 1:
            return jax.tree.map(lambda x: x[None], function(*jax.tree.map(lambda x: x[0], members)))
        return jax.vmap(function)(*members)

    if mesh is None:
        results = jax.lax.map(lambda members: together(*members), grouped)
    else:
        results = sharding.sharded_vmap(together, mesh, "seed", in_turn=True)(*grouped)
    return jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])[:count], results)


def score(metrics: TrainMetrics, kind: str) -> Array:
    """Return the score of a training run, f32[]: the mean over updates of the latest known training return.

    Args:
      metrics: from `make_train`, f32[updates] each.
      kind: "auc": over all updates, what came before the first episode's end counted as that one; "final": over the
        last tenth.

    Returns:
      NaN if no episode ended, or one of the algorithm's own metrics was not finite at the end.
    """
    returns = metrics.episodes["episode_return"]
    known = ~jnp.isnan(returns)
    latest = jax.lax.cummax(jnp.where(known, jnp.arange(returns.size), jnp.argmax(known)))
    held = returns[latest]
    result = jnp.mean(held if kind == "auc" else held[-max(1, returns.size // LAST) :])
    last = {name: values[-1] for name, values in metrics.algorithm.items()}
    return jnp.where(finite(last), result, jnp.nan)
