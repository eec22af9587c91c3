"""Warm start: a new agent that starts with the parameters of a trained one."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec

import jax
import jax.numpy as jnp
from jax.tree_util import KeyPath

from purerl.errors import InputError
from purerl.types import Algorithm, AlgorithmFactory, Array, PyTree

P = ParamSpec("P")


class TrainedPolicy(NamedTuple):
    """A policy of an earlier run."""

    factory: AlgorithmFactory
    config: Any
    agent: PyTree


KNOWN = (".params", ".target_params", ".observation_statistics", ".return_scale.statistics", ".value_statistics")
# fields of an agent that it takes along to another run


def begin_with(fresh: PyTree, given: PyTree, name: str, frozen: bool = False) -> PyTree:
    """Return an agent that starts with the parameters and statistics of another one.

    If it continues to learn, its optimizer, its counters and its replay start over; a frozen one keeps its counters.

    Args:
      fresh: the agent from its algorithm's `init`.
      given: the agent that was trained.
      name: the name of the new agent, for messages.
      frozen: whether it only acts.

    Raises:
      InputError: if they do not fit.
    """
    of = jax.tree_util.keystr
    there = {of(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(given)}
    if not any(path.startswith(KNOWN[0]) for path in map(field_of, there)):
        raise InputError(f"{name} cannot start from the given agent, which has no field params")

    own = {of(path) for path, _ in jax.tree_util.tree_leaves_with_path(fresh)}
    missing = [field_of(path) for path in there if path not in own]
    lost = sorted({path.split(".")[1].split("[")[0] for path in missing if path.startswith(KNOWN)})
    if lost:
        raise InputError(
            f"{name} cannot keep these parts of the given agent: {', '.join(lost)}; use the same algorithm "
            "and the same normalization settings"
        )

    def choose(path: KeyPath, leaf: Array) -> Array:
        known = there.get(of(path))
        fits = known is not None and known.shape == leaf.shape and known.dtype == leaf.dtype
        keeps = field_of(of(path)).startswith(KNOWN)
        if not fits and keeps:
            raise InputError(f"{name} does not fit the given agent: {of(path)}")
        return jnp.asarray(known) if fits and (frozen or keeps) else leaf

    return jax.tree_util.tree_map_with_path(choose, fresh)


def field_of(path: str) -> str:
    """Return the path of a leaf of an agent as a record's field: `.params[0]`, also for "['params'][0]"."""
    return "." + path[2:].replace("']", "", 1) if path.startswith("['") else path


def started(algorithm: Callable[P, Algorithm], agent: PyTree, name: str) -> Callable[P, Algorithm]:
    """Return an algorithm whose agents start with the parameters and statistics of a trained one.

    Args:
      algorithm: (spec, config) -> Algorithm.
      agent: that was trained.
      name: the name of the new agent, for messages.
    """

    @functools.wraps(algorithm)
    def begin(*args: P.args, **more: P.kwargs) -> Algorithm:
        bound = algorithm(*args, **more)
        return bound._replace(init=lambda key: begin_with(bound.init(key), agent, name))

    return begin
