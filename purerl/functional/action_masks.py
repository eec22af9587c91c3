"""Parts of an observation that only some networks see: masks of legal actions, and a critic's global state."""

from collections.abc import Mapping

import jax.numpy as jnp

from purerl.spaces import Dict, Space
from purerl.types import Array, PyTree


def without_mask(space: Space) -> Space:
    """Return the space that a network sees: the observation space without the mask of legal actions."""
    if not isinstance(space, Dict) or "action_mask" not in space.spaces:
        return space
    return Dict(spaces={name: part for name, part in space.spaces.items() if name != "action_mask"})


def split_mask(observation: PyTree) -> tuple[PyTree, Array | None]:
    """Return (the observation that a network sees, the mask of legal actions bool[..., n] or None)."""
    if not isinstance(observation, Mapping) or "action_mask" not in observation:
        return observation, None
    rest = {name: part for name, part in observation.items() if name != "action_mask"}
    return rest, flags(observation["action_mask"])


def flags(mask: Array) -> Array:
    """Return a mask of any dtype as bool[..., n]: nonzero means legal."""
    return mask if mask.dtype == bool else mask != 0


def action_mask(observation: PyTree) -> Array | None:
    """Return the mask of legal actions, bool[..., n]; None where all are legal."""
    return split_mask(observation)[1]


def without_global_state(tree: PyTree) -> PyTree:
    """Return an observation, or its space, without the global state that only a centralized critic sees."""
    if isinstance(tree, Dict):
        parts = without_global_state(tree.spaces)
        return tree if parts is tree.spaces else Dict(spaces=parts)
    if not isinstance(tree, Mapping) or "global_state" not in tree:
        return tree
    return {name: part for name, part in tree.items() if name != "global_state"}


def mask_illegal(scores: Array, mask: Array | None) -> Array:
    """Give illegal actions a score so low that they are never chosen; it stays finite, and so do gradients."""
    return scores if mask is None else jnp.where(mask, scores, -1e9)
