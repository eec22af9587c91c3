"""A user's module as a torso: flax linen, NNX, a pair (init, apply) as in haiku, or a pytree as in equinox."""

import inspect
import math
import re
import sys
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.errors import InvalidRngError
from jax.tree_util import KeyPath

from purerl.errors import InputError, kind_of, told
from purerl.functional.action_masks import split_mask, without_mask
from purerl.spaces import Space
from purerl.types import Array, Key, PyTree

Module = Any
"""What algorithms take as `network`: observation [N, ...] -> features f32[N, n].

A module of flax linen, whose parameters each agent draws anew; a function (rngs) -> module of NNX, such as
`lambda rngs: MyNet(4, 64, rngs=rngs)`, likewise; or a module of NNX, with whose parameters every agent begins.

A pair (init, apply), or an object with these two, such as `haiku.transform` makes: init(key, observation) -> params,
and apply(params, observation) or apply(params, key, observation) -> features.

A module that is a pytree and can be called on one observation, without a leading axis, such as those of equinox: its
float arrays are the parameters with which every agent begins. Of a function (key) -> module each agent draws its own.

The observation is the environment's, as its space says, without "action_mask" and "global_state", with one leading
axis.
"""


def is_module(network: object) -> bool:
    """Return whether an object is a module of one of these kinds, or a function that makes one."""
    if isinstance(network, nn.Module) or _is_nnx(network) or _takes(network, "rngs"):
        return True
    return _pair(network) is not None or _is_pytree(network) or _takes(network, "key")


def _is_nnx(network: object) -> bool:
    nnx = sys.modules.get("flax.nnx")  # without it nobody has such a module
    return nnx is not None and isinstance(network, nnx.Module)


def _takes(network: object, argument: str) -> bool:
    """Return whether an object is a function whose first argument has this name."""
    if not callable(network) or isinstance(network, nn.Module | type):
        return False
    try:
        return next(iter(inspect.signature(network).parameters), None) == argument
    except (TypeError, ValueError):
        return False


def _pair(network: object) -> tuple[Callable[..., PyTree], Callable[..., PyTree]] | None:
    """Return (init, apply) of a pair, or of an object with both; None for anything else."""
    if isinstance(network, tuple) and not hasattr(network, "_fields"):
        init, apply = network if len(network) == 2 else (None, None)
    else:
        init, apply = getattr(network, "init", None), getattr(network, "apply", None)
    return (init, apply) if callable(init) and callable(apply) and not isinstance(network, type) else None


def _is_pytree(network: object) -> bool:
    """Return whether an object can be called and is a pytree that holds arrays."""
    return callable(network) and any(map(_is_parameter, jax.tree.leaves(network)))


def _is_parameter(leaf: PyTree) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)


def own_torso(space: Space, network: Module) -> tuple[nn.Module, int]:
    """Return (the torso that a module forms for an observation space, the number n of its features).

    Raises:
      InputError: if it is not a module, does not take such observations, or does not return features.
    """
    if isinstance(network, type):
        raise InputError(f"network is the class {network.__name__}; give an instance, or lambda rngs: ... for NNX")
    if not is_module(network):
        raise InputError(
            f"network is {network!r}; it must be a module of flax or equinox or a pair (init, apply), observation "
            "[N, ...] -> features f32[N, n], or what the algorithm's documentation says"
        )
    seen = without_mask(space)
    torso = _torso_of(seen, network)
    try:
        key = jax.random.key(0)
        features, variables = jax.eval_shape(lambda: torso.init_with_output(key, seen.zeros()))
    except InputError:
        raise
    except Exception as error:  # whatever a user's module raises
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"network {_name(network)} does not accept observations of {seen}: {first}") from None
    others = sorted(set(variables) - {"params"})
    if others:
        raise InputError(f"network {_name(network)} holds {others[0]}; a network may only hold parameters")
    try:
        jax.eval_shape(lambda variables: torso.apply(variables, seen.zeros()), variables)
    except InvalidRngError as error:
        kind = re.search(r'PRNG for "(\w+)"', str(error))
        raise InputError(
            f"network {_name(network)} uses random numbers{f' for {kind[1]}' if kind else ''}; a network must be a "
            "function of its parameters and the observation: disable dropout and noise (deterministic=True)"
        ) from None
    return torso, features.shape[-1]


def _torso_of(space: Space, network: Module) -> nn.Module:
    if isinstance(network, nn.Module):
        return OwnTorso(space=space, module=network)
    if _is_nnx(network) or _takes(network, "rngs"):
        return NNXTorso(space, network)
    pair = _pair(network)
    return PairTorso(space, *pair) if pair is not None else PytreeTorso(space, network)


class OwnTorso(nn.Module):
    """A module of flax linen; leading axes become one."""

    space: Space
    module: nn.Module

    @nn.compact
    def __call__(self, observation: PyTree) -> Array:
        """Map an observation with any leading axes to features f32[..., n]."""
        rows, leading = _as_rows(self.space, observation)
        return _features(self.module(rows), leading, self.module)


class NNXTorso(nn.Module):
    """A module of NNX, or a function (rngs) -> one; leading axes become one."""

    space: Space
    make: Any

    @nn.compact
    def __call__(self, observation: PyTree) -> Array:
        """Map an observation with any leading axes to features f32[..., n]."""
        from flax import nnx

        def split(key: Key) -> tuple[PyTree, PyTree]:
            module = self.make(rngs=nnx.Rngs(key)) if _takes(self.make, "rngs") else self.make
            if not isinstance(module, nnx.Module):
                raise InputError(f"network returned {kind_of(module)}; it must return a module of NNX")
            graph, params, rest = nnx.split(module, nnx.Param, ...)
            held = [
                type(leaf).__name__ for leaf in jax.tree.leaves(rest, is_leaf=lambda x: isinstance(x, nnx.Variable))
            ]
            if held:
                raise InputError(f"network {_name(module)} holds {held[0]}; a network may only hold Param")
            return graph, params

        graph, shapes = _split_shapes(split)
        names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in _with_paths(shapes)]
        draw = lambda key: dict(zip(names, jax.tree.leaves(split(key)[1]), strict=True))
        values = self.param("nnx", draw)
        params = jax.tree.unflatten(jax.tree.structure(shapes), [values[name] for name in names])
        rows, leading = _as_rows(self.space, observation)
        return _features(nnx.merge(graph, params)(rows), leading, self.make)


class PairTorso(nn.Module):
    """A pair (init, apply); leading axes become one."""

    space: Space
    start: Any  # (key, observation) -> params
    run: Any  # (params, observation) or (params, key, observation) -> features

    @nn.compact
    def __call__(self, observation: PyTree) -> Array:
        """Map an observation with any leading axes to features f32[..., n]."""
        rows, leading = _as_rows(self.space, observation)
        params = self.param("pair", lambda key: _floats(self.start(key, rows), self.start))
        keyed = len(inspect.signature(self.run).parameters) > 2  # a haiku function, which gets None as its key
        return _features(self.run(params, *([None] if keyed else []), rows), leading, self.run)


class PytreeTorso(nn.Module):
    """A pytree that can be called on one observation, or a function (key) -> one; leading axes become one."""

    space: Space
    make: Any

    @nn.compact
    def __call__(self, observation: PyTree) -> Array:
        """Map an observation with any leading axes to features f32[..., n]."""
        rest: list[Any] = []  # the leaves that are not parameters, and the structure

        def split(key: Key) -> dict[str, Array]:
            module = self.make(key=key) if _takes(self.make, "key") and not _is_pytree(self.make) else self.make
            if not _is_pytree(module):
                raise InputError(f"network returned {kind_of(module)}; it must return a module that is a pytree")
            leaves, structure = jax.tree.flatten(module)
            rest[:] = [None if _is_parameter(leaf) else leaf for leaf in leaves], structure
            return {f"{i:04d}": jnp.asarray(leaf) for i, leaf in enumerate(leaves) if _is_parameter(leaf)}

        jax.eval_shape(split, jax.random.key(0))
        others, structure = rest
        values = self.param("pytree", split)
        module = jax.tree.unflatten(structure, [values.get(f"{i:04d}", leaf) for i, leaf in enumerate(others)])
        rows, leading = _as_rows(self.space, observation)
        return _features(jax.vmap(module)(rows), leading, self.make)


def _split_shapes(split: PyTree) -> tuple[PyTree, PyTree]:
    found = []

    def params(key: Key) -> PyTree:
        graph, params = split(key)
        found.append(graph)
        return params

    shapes = jax.eval_shape(params, jax.random.key(0))
    return found[0], shapes


def _with_paths(tree: PyTree) -> list[tuple[KeyPath, PyTree]]:
    return jax.tree_util.tree_leaves_with_path(tree)


def _as_rows(space: Space, observation: PyTree) -> tuple[PyTree, tuple[int, ...]]:
    """Return (the observation with its leading axes flattened, those axes)."""
    seen, _ = split_mask(observation)
    shapes = space.struct
    parts = jax.tree.structure(shapes).flatten_up_to(_known(seen, shapes))
    first, struct = parts[0], jax.tree.leaves(shapes)[0]
    leading = first.shape[: first.ndim - len(struct.shape)]
    flat = [x.reshape(math.prod(leading), *leaf.shape) for x, leaf in zip(parts, jax.tree.leaves(shapes), strict=True)]
    return jax.tree.unflatten(jax.tree.structure(shapes), flat), leading


def _known(observation: PyTree, shapes: PyTree) -> PyTree:
    """Return the parts of an observation that the space names."""
    if not isinstance(shapes, dict):
        return observation
    return {name: _known(observation[name], part) for name, part in shapes.items()}


def _floats(params: PyTree, init: object) -> PyTree:
    """Return parameters, which must be arrays of floats."""
    wrong = next((leaf for leaf in jax.tree.leaves(params) if not _is_parameter(leaf)), None)
    if wrong is not None:
        given = str(wrong.dtype) if hasattr(wrong, "dtype") else told(wrong)
        raise InputError(f"network {_name(init)} has the parameter {given}; parameters are arrays of floats")
    return params


def _features(result: PyTree, leading: tuple[int, ...], module: object) -> Array:
    if not hasattr(result, "dtype") or result.ndim != 2 or not jnp.issubdtype(result.dtype, jnp.floating):
        given = f"{result.dtype}{list(result.shape)}" if hasattr(result, "dtype") else kind_of(result)
        raise InputError(f"network {_name(module)} returned {given}; it must return features, floats [N, n]")
    if result.shape[0] != (rows := math.prod(leading)):
        raise InputError(
            f"network {_name(module)} returned {list(result.shape)} for {rows} observations; it must return {rows} rows"
        )
    return result.reshape(*leading, result.shape[-1])


def _name(network: object) -> str:
    named = isinstance(network, type) or not hasattr(type(network), "__qualname__") or inspect.isfunction(network)
    return str(getattr(network, "__name__", network)) if named else type(network).__name__
