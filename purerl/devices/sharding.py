"""Devices as one mesh, with axes `trial`, `seed` and `data`.

Trials and seeds are spread over devices without communication. `data` splits the environments of one run. The program
keeps its meaning, as if there were one device, and XLA adds the communication: gradients are averages over all
environments, statistics are shared and parameters are the same everywhere.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from purerl.errors import InputError, unknown
from purerl.types import Array, PyTree
from purerl.xla import backend

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")

AXES = ("trial", "seed", "data")


def make_mesh(devices: int | None = None, axes: Mapping[str, int] | None = None) -> Mesh:
    """Return a mesh over the first `devices` devices.

    Args:
      devices: how many; None: as many as `axes` needs, or all.
      axes: the sizes of `trial`, `seed` and `data`, 1 where not given; None: all devices on `seed`.

    Raises:
      InputError: for an axis of another name, or a mesh that the devices do not fill.
    """
    for name, size in (axes or {}).items():
        if name not in AXES:
            raise unknown("mesh axis", name, AXES)
        if size < 1:
            raise InputError(f"mesh axis {name} is {size}; it must be at least 1")
    available = jax.devices()
    count = devices or (math.prod(axes.values()) if axes else len(available))
    if count > len(available):
        raise InputError(f"{count} devices are requested; there are {len(available)} ({available[0].platform})")
    sizes = dict.fromkeys(AXES, 1) | dict(axes or {"seed": count})
    if math.prod(sizes.values()) != count:
        shape = " x ".join(f"{name}={size}" for name, size in sizes.items() if size > 1) or "1"
        raise InputError(f"the mesh {shape} does not fill {count} devices")
    return jax.make_mesh(
        tuple(sizes.values()), AXES, axis_types=(AxisType.Auto,) * len(AXES), devices=_first(available, count)
    )


def _first(devices: Sequence[Any], count: int) -> list[Any]:
    """Return the first `count` devices, the same number from each process if possible."""
    processes = sorted({device.process_index for device in devices})
    each = count // len(processes)
    own = [[device for device in devices if device.process_index == i] for i in processes]
    if count % len(processes) or each > min(map(len, own)):
        return list(devices[:count])
    return [device for part in own for device in part[:each]]


def pad(count: int, mesh: Mesh, axis: str) -> int:
    """Return `count` rounded up to a multiple of a mesh axis; callers drop the members beyond `count`."""
    return -(-count // mesh.shape[axis]) * mesh.shape[axis]


def resize(tree: PyTree, axes: PyTree, count: int) -> PyTree:
    """Return a tree with `count` members: the first ones, and the last one repeated.

    Args:
      tree: arrays on the host, or their shapes.
      axes: a prefix of it with leaves 0 (one per member) or None (shared).
      count: how many.
    """

    def cut(x: Any) -> Any:
        if isinstance(x, jax.ShapeDtypeStruct):  # as many as a file says: no array of that length is made
            return jax.ShapeDtypeStruct((count, *x.shape[1:]), x.dtype, weak_type=x.weak_type)
        return x[np.minimum(np.arange(count), x.shape[0] - 1)]

    fit = lambda axis, part: part if axis is None else jax.tree.map(cut, part)
    return jax.tree.map(fit, axes, tree, is_leaf=_is_none)


def sharding(mesh: Mesh, *axis_names: str | None) -> NamedSharding:
    """Return the sharding of arrays whose leading axes are on these mesh axes; without names, replicated."""
    return NamedSharding(mesh, PartitionSpec(*axis_names))


def place(tree: PyTree, mesh: Mesh, *axis_names: str | None) -> PyTree:
    """Place a tree on the devices, with the leading axes of its leaves on these mesh axes.

    Args:
      tree: arrays, the same on every process; the sizes of their leading axes are multiples of the mesh axes'.
      mesh: from `make_mesh`.
      axis_names: one per leading axis; None: not split. Without names every device gets a copy.
    """
    return jax.tree.map(lambda leaf: _place(leaf, sharding(mesh, *axis_names)), tree)


def _place(leaf: PyTree, where: NamedSharding) -> Array:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        words = _place(jax.random.key_data(leaf), where)
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
    leaf = np.asarray(leaf)
    return jax.make_array_from_callback(leaf.shape, where, lambda index: leaf[index])


def split_data(tree: PyTree) -> PyTree:
    """Split every leaf's leading axis over the mesh axis `data`, inside `sharded_vmap`; elsewhere do nothing.

    An axis that cannot be split evenly stays whole.
    """
    fits = lambda leaf: leaf.ndim and leaf.shape[0] % _data_devices() == 0
    return jax.tree.map(lambda leaf: _constrain(leaf, PartitionSpec("data") if fits(leaf) else PartitionSpec()), tree)


def whole(tree: PyTree) -> PyTree:
    """Replicate each leaf on the mesh axis `data`, inside `sharded_vmap`; elsewhere do nothing."""
    return jax.tree.map(lambda leaf: _constrain(leaf, PartitionSpec()), tree)


def _data_devices() -> int:
    return jax.sharding.get_abstract_mesh().shape.get("data", 1)


def _constrain(leaf: Array, spec: PartitionSpec) -> Array:
    return leaf if _data_devices() == 1 else jax.lax.with_sharding_constraint(leaf, spec)


def sharded_vmap(
    function: Callable[P, R],
    mesh: Mesh,
    axis: str = "seed",
    in_axes: PyTree = 0,
    out_axes: PyTree = 0,
    *,
    in_place: bool = False,
    in_turn: bool | None = None,
) -> Callable[P, R]:
    """Return `jax.vmap(function, in_axes, out_axes)` with its members spread over a mesh axis, without communication.

    On a CPU a device runs its members in turn: that is as fast as side by side, keeps one member's numbers in the
    cache, and makes a member's bits independent of the number of members, on two devices or more. (XLA compiles a
    program for a single device differently, which may change the last bits.)

    Args:
      function: a function of any number of arguments.
      mesh: from `make_mesh`; the number of members is a multiple of `axis` (`pad`).
      axis: "seed" or "trial".
      in_axes, out_axes: prefixes of the arguments and results with leaves 0 (one per member) or None (shared).
      in_place: the function returns (its first argument updated, more). Members that run in turn then overwrite a
        donated first argument, so that memory holds all members once.
      in_turn: whether a device runs its members in turn; None: on a CPU.
    """
    if in_turn is None:
        in_turn = backend.runs_members_in_turn(mesh.devices.flat[0])

    def specs(axes: PyTree) -> PyTree:
        split = lambda axis_index: PartitionSpec() if axis_index is None else PartitionSpec(axis)
        return jax.tree.map(split, axes, is_leaf=_is_none)

    def mapped(*args: P.args, **none: P.kwargs) -> R:
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        run = (_in_turn_in_place if in_place else _in_turn) if in_turn else _side_by_side
        local = partial(run, function, axes, out_axes)
        # Left to XLA, even an axis of one device would change how it compiles, and with that the last bits.
        manual = {name for name in AXES if name == axis or mesh.shape[name] == 1}
        placed = {"in_specs": specs(axes), "out_specs": specs(out_axes), "axis_names": manual}
        inside = lambda *args: local(*jax.tree.map(_without_empty, args))
        return jax.shard_map(inside, mesh=mesh, check_vma=False, **placed)(*args)

    return mapped


def _without_empty(leaf: Array) -> Array:
    """Return a copy of a leaf without elements: passed to `shard_map` as it is, it crashes jaxlib 0.11.2."""
    return leaf if leaf.size else jnp.zeros(leaf.shape, leaf.dtype)


def _is_none(axis: object) -> bool:
    return axis is None


def _per_member(axes: PyTree, tree: PyTree) -> PyTree:
    """Return for each leaf of a tree whether it has one value per member, from the prefix `axes`."""
    return jax.tree.broadcast(jax.tree.map(lambda axis: axis is not None, axes, is_leaf=_is_none), tree)


def _count(per_member: PyTree, args: PyTree) -> int:
    pairs = zip(jax.tree.leaves(per_member), jax.tree.leaves(args), strict=True)
    return next(leaf.shape[0] for split, leaf in pairs if split)


def _member(per_member: PyTree, tree: R, i: Array) -> R:
    pick = lambda split, x: jax.lax.dynamic_index_in_dim(x, i, 0, False) if split else x
    return jax.tree.map(pick, per_member, tree)


def _side_by_side(function: Callable[[*Ts], PyTree], in_axes: tuple, out_axes: PyTree, *args: *Ts) -> PyTree:
    with backend.side_by_side(_count(_per_member(in_axes, args), args)):
        return jax.vmap(function, in_axes, out_axes)(*args)


def _in_turn(function: Callable[[*Ts], PyTree], in_axes: tuple, out_axes: PyTree, *args: *Ts) -> PyTree:
    """Compute `jax.vmap(function, in_axes, out_axes)(*args)` by a loop over the members."""
    split = _per_member(in_axes, args)
    results = jax.lax.map(lambda i: function(*_member(split, args, i)), jnp.arange(_count(split, args)))
    return jax.tree.map(lambda split, x: x if split else x[0], _per_member(out_axes, results), results)


def _in_turn_in_place(
    function: Callable[..., tuple[PyTree, PyTree]], in_axes: tuple, out_axes: tuple, *args: PyTree
) -> PyTree:
    """Compute `_in_turn`; each member of the first result overwrites that of the first argument."""
    split = _per_member(in_axes, args)

    def one(first: PyTree, i: Array) -> tuple[PyTree, tuple[PyTree, PyTree]]:
        new, more = function(*_member(split, (first, *args[1:]), i))
        put = lambda split, old, x: jax.lax.dynamic_update_index_in_dim(old, x, i, 0) if split else old
        shared = jax.tree.map(lambda split, x: jnp.bool_(0) if split else x, split[0], new)
        return jax.tree.map(put, split[0], first, new), (shared, more)

    first, (shared, more) = jax.lax.scan(one, args[0], jnp.arange(_count(split, args)))
    first = jax.tree.map(lambda split, x, y: x if split else y[0], split[0], first, shared)
    return first, jax.tree.map(lambda split, x: x if split else x[0], _per_member(out_axes[1], more), more)
