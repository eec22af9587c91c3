"""Agents as files: writes one agent of a run, and reads it back as a run of one seed that can play."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jax.tree_util import KeyPath

from purerl.errors import InputError
from purerl.prng import is_key
from purerl.run.program import Progress
from purerl.run.warm_start import KNOWN, field_of
from purerl.settings import agent_file
from purerl.settings.runs import dump
from purerl.types import PyTree
from purerl.xla import trees

_TARGET, _ONLINE = "target_params/", "params/"  # the networks of an agent that learns from a replay
_FIELDS = tuple(field.removeprefix(".") for field in KNOWN)


@runtime_checkable
class HoldsCopies(Protocol):
    """An agent with fields that its file leaves out, because another field replaces them when an agent only acts."""

    @property
    def copies(self) -> Mapping[str, str]:
        """{field that a file leaves out: the field that replaces it}."""
        ...


def content(run: Any, agent: PyTree, seed: int, target: bool = True, **texts: str) -> bytes:
    """Return the bytes of an agent's file.

    Args:
      run: a `TrainedRun`.
      agent: the agent of one seed.
      seed: that one.
      target: whether the target network is in it; one of the same shape as the network itself can be left out.
      **texts: also to be in its metadata.
    """
    of = run.settings
    alone = dataclasses.replace(of, options=dataclasses.replace(of.options, seed=seed, seeds=1, start=None))
    about = {"settings": dump(alone, run.plan.env), "update": str(int(run.state.num_updates)), **texts}
    found = numbers(agent)
    return agent_file.pack(found if target else {name: found[name] for name in found.keys() - _copies(found)}, about)


def numbers(agent: PyTree) -> dict[str, np.ndarray]:
    """Return {name: array} of an agent's parameters and statistics, such as params/actor/kernel; without any, all."""
    leaves = _leaves(agent)
    known = {name: x for name, (is_known, x) in leaves.items() if is_known}
    return {name: np.asarray(x) for name, x in (known or {name: x for name, (_, x) in leaves.items()}).items()}


def read(path: Path, shapes: Progress) -> Progress:
    """Return an agent's file as a run of one seed; everything that only training needs is zero.

    A target network that is not in the file is the network itself, and so is each copy (`HoldsCopies`).

    Args:
      path: the path of the file.
      shapes: the shapes of the run that its settings describe.

    Raises:
      InputError: if the file is damaged, or its numbers do not belong to such an agent.
    """
    there, about = agent_file.shapes(path), agent_file.about(path)
    wanted = _leaves(shapes.state.agent)
    needed = {name for name, (is_known, _) in wanted.items() if is_known} or set(wanted)
    copies = _copies({name: wanted[name][1] for name in needed})
    if odd := min((name for name in there.keys() ^ needed if name not in copies), default=""):
        raise InputError(f"{path} does not fit its settings: {odd} is {'not ' if odd in needed else ''}in it")
    for name, shape in there.items():
        if (1, *shape) != wanted[name][1].shape:
            raise InputError(f"{path} does not fit its settings: {name} is {list(shape)}")
    found = agent_file.arrays(path)  # which are as large as the run's own
    for name, array in found.items():
        if array.dtype != wanted[name][1].dtype:
            raise InputError(f"{path} does not fit its settings: {name} is {array.dtype}{list(array.shape)}")
    update = about.get("update", "0")
    if not update.isdecimal() or len(update) > 9:
        raise InputError(f"{path} is not the file of an agent: its update is {update!r}")
    progress = jax.tree.map(trees.zeros, shapes)
    left_out = _left_out(shapes.state.agent)

    def fill(leaf: PyTree, x: PyTree) -> PyTree:
        name = _name(leaf)
        field, _, rest = name.partition("/")
        if name not in found and field in left_out:
            name = f"{left_out[field]}/{rest}"
        name = name if name in found else copies.get(name)
        return x if name is None else np.broadcast_to(found[name], x.shape)

    agent = jax.tree_util.tree_map_with_path(fill, progress.state.agent)
    return progress._replace(state=progress.state._replace(agent=agent, num_updates=np.int32(update)))


def _copies(leaves: Mapping[str, object]) -> dict[str, str]:
    """Return {leaf of a target network: the same leaf of the online network}, where both have one shape."""
    pairs = {name: name.replace(_TARGET, _ONLINE, 1) for name in leaves if f"/{_TARGET}" in f"/{name}"}
    alike = lambda x, y: x.shape == y.shape and x.dtype == y.dtype
    return {name: own for name, own in pairs.items() if own in leaves and alike(leaves[name], leaves[own])}


def _leaves(agent: PyTree) -> dict[str, tuple[bool, PyTree]]:
    """Return (whether acting or further training needs it, the leaf) by name, without random keys and copies."""
    holds_copies: Any = agent if isinstance(agent, HoldsCopies) else None
    alone = agent if holds_copies is None else holds_copies._replace(**dict.fromkeys(holds_copies.copies, ()))
    pairs = [(path, x) for path, x in jax.tree_util.tree_leaves_with_path(alone) if not is_key(x)]
    is_known = lambda path: any(f".{part}" in field_of(jax.tree_util.keystr(path)) for part in _FIELDS)
    return {_name(path): (is_known(path), x) for path, x in pairs}


def _left_out(agent: PyTree) -> Mapping[str, str]:
    return agent.copies if isinstance(agent, HoldsCopies) else {}


def _name(path: KeyPath) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
