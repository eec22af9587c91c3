"""Checks of an environment's spaces: unsupported ones, and special cases that users should know."""

import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError
from purerl.functional.unit_box import reaching
from purerl.host_environment import HostSource
from purerl.networks.images import image_shape, is_full_bytes, is_moved
from purerl.spaces import Box, Dict, Space, Stacked
from purerl.spaces.masks import check_masks
from purerl.testing.report import Check
from purerl.types import Environment

FEW = 32  # bytes that never exceed this are hardly pixels


def check_spaces(env: Environment | HostSource, name: str) -> list[Check]:
    """Check that the spaces of an environment agree with one another.

    Raises:
      InputError: for a mask of legal actions of another size than the actions, or bounds in the wrong order.
    """
    checks = []
    check_masks(env.observation_space, env.action_space, f"{name}: ")
    for path, part in _parts(env.observation_space, "observation"):
        _check_order(part, f"{name}: {path}")
        checks += [Check(path, note) for note in _notes_of_observation(part)]
    for path, part in _parts(env.action_space, "action"):
        _check_order(part, f"{name}: {path}")
        checks += [Check(path, note) for note in _notes_of_action(part)]
    return checks


def _parts(space: Space, path: str) -> list[tuple[str, Space]]:
    if isinstance(space, Stacked):
        return _parts(space.space, path)
    if isinstance(space, Dict):
        return [part for name in sorted(space.spaces) for part in _parts(space.spaces[name], f"{path}['{name}']")]
    return [(path, space)]


def _check_order(space: Space, what: str) -> None:
    if isinstance(space, Box) and jnp.dtype(space.dtype) != jnp.bool_:
        low, high = (np.asarray(bound) for bound in (space.low, space.high))
        if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
            raise InputError(f"{what} has bounds {low.tolist()} .. {high.tolist()}; low must not be larger")


def _notes_of_observation(space: Space) -> list[str]:
    if not isinstance(space, Box):
        return []
    notes = []
    if 0 in space.shape:
        notes.append("empty: it is left out")
    elif is_moved(space):
        notes.append(f"images with channels or frames first: networks see {list(image_shape(space) or ())}")
    if jnp.dtype(space.dtype) == jnp.uint8 and not is_full_bytes(space):
        notes.append(f"bytes up to {np.max(np.asarray(space.high))}: networks see them divided by that, not by 255")
    return notes


def notes_of_bytes(most: dict[str, tuple[Space, int]]) -> list[Check]:
    """Return notes about bytes that stay far below their bound of 255 in play, such as codes of objects.

    Args:
      most: by the path of a part of the observation, its space and the largest value in play.
    """
    few = {path: int(x) for path, (space, x) in most.items() if _is_full(space) and x <= FEW}
    note = "bytes reached only {} in random play, and networks see them divided by 255: give the space its own bound"
    return [Check(f"observation{path}", note.format(x)) for path, x in few.items()]


def _is_full(space: Space) -> bool:
    space = space.space if isinstance(space, Stacked) else space
    return isinstance(space, Box) and jnp.dtype(space.dtype) == jnp.uint8 and is_full_bytes(space)


def _notes_of_action(space: Space) -> list[str]:
    if not isinstance(space, Box) or len(space.shape) != 1:
        return []
    low, high = (np.broadcast_to(np.asarray(bound), space.shape) for bound in (space.low, space.high))
    notes, same = [], np.flatnonzero(low == high)
    if same.size:
        notes.append(f"equal bounds at {same.tolist()}: they are never acted on")
    known = Box(low=low, high=high, shape=space.shape, dtype=space.dtype)
    if reaching(known) != known.clip:
        notes.append("0 is not well inside the bounds: draws of -1 .. 1 span them; --squash-actions goes through tanh")
    return notes
