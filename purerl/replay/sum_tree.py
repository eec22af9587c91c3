"""Sum tree: numbers that can be sampled in proportion to their size.

Source: Schaul et al. (2016), arXiv:1511.05952, appendix B.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.types import Array, Key

WIDTH = 8  # children of a node; measured on a CPU: the narrow tree is the fastest, though it has seven levels
NOWHERE = np.int32(2**31 - 1)  # an index that is written to no leaf


class SumTree(NamedTuple):
    """Non-negative numbers and the sums of every WIDTH of them, of every WIDTH sums, ...

    Setting or sampling N leaves costs O(N log size), in arrays of N x WIDTH, and can be vmapped.
    """

    levels: tuple[Array, ...]  # f32[n_k], from the root's children to the leaves; each n_k is a multiple of WIDTH

    @staticmethod
    def create(size: int) -> "SumTree":
        """Return `size` zeros."""
        sizes = [_padded(size)]
        while sizes[-1] > WIDTH:
            sizes.append(_padded(sizes[-1] // WIDTH))
        return SumTree(tuple(jnp.zeros(n) for n in reversed(sizes)))

    def total(self) -> Array:
        """Return f32[]: the sum of all leaves."""
        return jnp.sum(self.levels[0])

    def at(self, index: Array) -> Array:
        """Return the leaves f32[N] at i32[N]."""
        return jnp.take(self.levels[-1], index, mode="clip")

    def weight(self, index: Array, exponent: Array | float) -> Array:
        """Return importance weights f32[N] of leaves i32[N]: (value / their least)^-exponent, 0 of a value of 0."""
        value = self.at(index)
        return jnp.where(value > 0.0, (value / jnp.maximum(jnp.min(value), 1e-30)) ** -exponent, 0.0)

    def set(self, index: Array, value: Array) -> "SumTree":
        """Set the leaves at i32[N] to f32[N]; an index that occurs twice gets one of its values.

        Sums are computed from their parts, so that rounding does not accumulate.
        """
        levels = [self.levels[-1].at[index].set(value, mode="drop")]
        for above in reversed(self.levels[:-1]):
            index = jnp.where(index == NOWHERE, NOWHERE, index // WIDTH)
            sums = jnp.sum(self._children(levels[0], index), axis=-1)
            levels.insert(0, above.at[index].set(sums, mode="drop"))
        return SumTree(tuple(levels))

    def draw(self, key: Key, num: int) -> Array:
        """Sample i32[num] leaves, each with probability value / total; a leaf of value 0 only if all are 0.

        Every level has its own random number: one for all levels has too few bits.
        """
        uniform = jax.random.uniform(key, (len(self.levels), num))
        index = jnp.zeros(num, jnp.int32)
        for level, u in zip(self.levels, uniform, strict=True):
            sums = jnp.cumsum(self._children(level, index), axis=-1)
            most = sums[:, -1]
            # Below the total, also after rounding, so that the count stops at a child above 0.
            target = jnp.minimum(u * most, jnp.nextafter(most, jnp.float32(0)))
            child = jnp.sum((sums <= target[:, None]).astype(jnp.int32), axis=-1)
            index = index * WIDTH + jnp.minimum(child, WIDTH - 1)
        return index

    def _children(self, level: Array, parent: Array) -> Array:
        return jnp.take(level.reshape(-1, WIDTH), parent, axis=0, mode="clip")


def _padded(size: int) -> int:
    return -(-size // WIDTH) * WIDTH
