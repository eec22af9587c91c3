"""A user's own module as a torso: of flax linen, or of NNX by its `split` and `merge`."""

import inspect
import math
import sys
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.errors import InputError
from purerl.functional.action_masks import split_mask, without_mask
from purerl.spaces import Space
from purerl.types import Array, Key, PyTree

Module = Any
"""What algorithms take as `network`: observation [N, ...] -> features f32[N, n].

A module of flax linen, whose parameters each agent draws anew; a function (rngs) -> module of NNX, such as
`lambda rngs: MyNet(4, 64, rngs=rngs)`, likewise; or a module of NNX, with whose parameters every agent begins. The
observation is the environment's, as its space says, without "action_mask" and "global_state", with one leading axis.
"""


def is_module(network: Any) -> bool:
    """Return whether something is a module, of either kind, or a function (rngs) -> module of NNX."""
    return isinstance(network, nn.Module) or _is_nnx(network) or _takes_rngs(network)


def _is_nnx(network: Any) -> bool:
    nnx = sys.modules.get("flax.nnx")  # without it nobody has such a module
    return nnx is not None and isinstance(network, nnx.Module)


def _takes_rngs(network: Any) -> bool:
    if not callable(network) or isinstance(network, nn.Module | type):
        return False
    try:
        return "rngs" in inspect.signature(network).parameters
    except (TypeError, ValueError):
        return False


def own_torso(space: Space, network: Module) -> tuple[nn.Module, int]:
    """Return (the torso that a module is for an observation space, the number of its features n).

    Raises:
      InputError: if it is no module, does not take such observations, or returns something else.
    """
    if isinstance(network, type):
        raise InputError(f"network is the class {network.__name__}; give one made of it, or lambda rngs: ... for NNX")
    if not is_module(network):
        raise InputError(
            f"network is {network!r}; it must be a module of flax, observation [N, ...] -> features f32[N, n], or "
            "what the algorithm's documentation says"
        )
    seen = without_mask(space)
    torso = OwnTorso(space=seen, module=network) if isinstance(network, nn.Module) else NNXTorso(seen, network)
    try:
        key = jax.random.key(0)
        features, variables = jax.eval_shape(lambda: torso.init_with_output(key, seen.zeros()))
    except InputError:
        raise
    except Exception as error:  # whatever a user's module raises
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"network {_name(network)} does not take observations of {seen}: {first}") from None
    others = sorted(set(variables) - {"params"})
    if others:
        raise InputError(f"network {_name(network)} holds {others[0]}; a network of an agent holds parameters alone")
    return torso, features.shape[-1]


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

        def split(key: Key) -> tuple[Any, Any]:
            module = self.make(rngs=nnx.Rngs(key)) if _takes_rngs(self.make) else self.make
            if not isinstance(module, nnx.Module):
                raise InputError(f"network returned a {type(module).__name__}; it must return a module of NNX")
            graph, params, rest = nnx.split(module, nnx.Param, ...)
            held = [
                type(leaf).__name__ for leaf in jax.tree.leaves(rest, is_leaf=lambda x: isinstance(x, nnx.Variable))
            ]
            if held:
                raise InputError(f"network {_name(module)} holds {held[0]}; a network of an agent holds Param alone")
            return graph, params

        graph, shapes = _split_shapes(split)
        names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in _with_paths(shapes)]
        draw = lambda key: dict(zip(names, jax.tree.leaves(split(key)[1]), strict=True))
        values = self.param("nnx", draw)
        params = jax.tree.unflatten(jax.tree.structure(shapes), [values[name] for name in names])
        rows, leading = _as_rows(self.space, observation)
        return _features(nnx.merge(graph, params)(rows), leading, self.make)


def _split_shapes(split: Any) -> tuple[Any, Any]:
    found = []

    def params(key: Key) -> PyTree:
        graph, params = split(key)
        found.append(graph)
        return params

    shapes = jax.eval_shape(params, jax.random.key(0))
    return found[0], shapes


def _with_paths(tree: PyTree) -> Any:
    return jax.tree_util.tree_leaves_with_path(tree)


def _as_rows(space: Space, observation: PyTree) -> tuple[PyTree, tuple[int, ...]]:
    """Return (the observation with its leading axes as one, those axes)."""
    seen, _ = split_mask(observation)
    shapes = space.struct
    parts = jax.tree.structure(shapes).flatten_up_to(_known(seen, shapes))
    first, struct = parts[0], jax.tree.leaves(shapes)[0]
    leading = first.shape[: first.ndim - len(struct.shape)]
    flat = [x.reshape(math.prod(leading), *leaf.shape) for x, leaf in zip(parts, jax.tree.leaves(shapes), strict=True)]
    return jax.tree.unflatten(jax.tree.structure(shapes), flat), leading


def _known(observation: PyTree, shapes: PyTree) -> PyTree:
    """Return the parts of an observation that its space names."""
    if not isinstance(shapes, dict):
        return observation
    return {name: _known(observation[name], part) for name, part in shapes.items()}


def _features(result: Any, leading: tuple[int, ...], module: Any) -> Array:
    if not hasattr(result, "dtype") or result.ndim != 2 or not jnp.issubdtype(result.dtype, jnp.floating):
        given = f"{result.dtype}{list(result.shape)}" if hasattr(result, "dtype") else f"a {type(result).__name__}"
        raise InputError(f"network {_name(module)} returned {given}; it must return features, floats [N, n]")
    return result.reshape(*leading, result.shape[-1])


def _name(network: Any) -> str:
    named = isinstance(network, type) or not hasattr(type(network), "__qualname__") or inspect.isfunction(network)
    return str(getattr(network, "__name__", network)) if named else type(network).__name__
