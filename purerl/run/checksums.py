"""Checksums of arrays, part by part: each process computes the checksums of its own parts."""

import json
import zlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from purerl.devices import distributed

Part = tuple[list[int], list[int], int]  # an array's part: its starts and stops along the axes, and its checksum


def of_arrays(arrays: Mapping[str, object]) -> dict[str, list[Part]]:
    """Return {name: checksums of the array's parts}; all processes together cover each array."""
    own = {name: parts_of(array) for name, array in arrays.items()}
    if jax.process_count() == 1:
        return own
    each = [json.loads(text) for text in distributed.texts(json.dumps(own))]
    return {name: [part for found in each for part in found[name]] for name in own}


def parts_of(array: Any) -> list[Part]:
    """Return the checksums of this process's parts of an array, without copies."""
    shape = array.shape
    if not isinstance(array, jax.Array):
        return [([0] * len(shape), list(shape), _crc(array))] if distributed.is_first() else []
    shards = [shard for shard in array.addressable_shards if shard.replica_id == 0]
    spans = [[axis.indices(size) for axis, size in zip(shard.index, shape, strict=True)] for shard in shards]
    ends = [([span[0] for span in of], [span[1] for span in of]) for of in spans]
    return [(*pair, _crc(np.asarray(shard.data))) for pair, shard in zip(ends, shards, strict=True)]


def agrees(checksums: Any, arrays: dict[str, np.ndarray]) -> bool:
    """Return whether checksums from a file match arrays and cover them."""
    try:
        return checksums.keys() == arrays.keys() and all(_covers(checksums[name], x) for name, x in arrays.items())
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return False


def _covers(parts: list[Part], array: np.ndarray) -> bool:
    seen = 0
    for start, stop, checksum in parts:
        part = array[tuple(slice(a, b) for a, b in zip(start, stop, strict=True))]
        seen += part.size
        if seen > array.size or checksum != _crc(part):
            return False
    return seen == array.size and len(parts) > 0


def _crc(array: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)


def of_notes(notes: Mapping[str, object]) -> int:
    """Return the checksum of a checkpoint's content other than arrays."""
    return zlib.crc32(json.dumps(notes, sort_keys=True).encode())
