"""Spaces of integers: one choice, or several at once."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError
from purerl.fields import pytree, static
from purerl.spaces.space import Space, as_array, check_key, count, fits, set_field


@pytree
class Discrete(Space):
    """The integers 0 .. n-1, int32[].

    Example:
      >>> import jax
      >>> import purerl
      >>> action = purerl.Discrete(4).sample(jax.random.key(0))
      >>> action.dtype, 0 <= int(action) < 4
      (dtype('int32'), True)
    """

    n: int = static(at_least=1, kw_only=False)

    def __post_init__(self) -> None:
        """Raise an `InputError` unless n is an integer of at least 1."""
        set_field(self, "n", count(self.n, "Discrete: n"))

    def __str__(self) -> str:
        """Return Discrete(n)."""
        return f"Discrete({self.n})"

    def sample(self, key: jax.Array) -> jax.Array:
        """Sample int32[] uniformly from 0 .. n-1."""
        return _below(key, np.int32(self.n))

    def contains(self, value: Any) -> jax.Array:
        """Return bool[]."""
        return jnp.all((value >= 0) & (value < self.n)) if fits(value, self.struct) else jnp.array(False)

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """int32[]."""
        return jax.ShapeDtypeStruct((), jnp.int32)


@pytree
class MultiDiscrete(Space):
    """Several integers at once, int32[len(nvec)]: the i-th is one of 0 .. nvec[i]-1.

    Example:
      >>> import jax
      >>> import purerl
      >>> purerl.MultiDiscrete((3, 2)).sample(jax.random.key(0)).shape
      (2,)
    """

    nvec: tuple[int, ...] = static(at_least=1, kw_only=False)

    def __post_init__(self) -> None:
        """Raise an `InputError` unless each number of choices is an integer of at least 1."""
        if as_array(self.nvec, "MultiDiscrete: nvec").ndim != 1 or not len(self.nvec):
            raise InputError(f"MultiDiscrete: nvec is {self.nvec!r}; it must be a list of numbers of choices")
        set_field(self, "nvec", tuple(count(n, f"MultiDiscrete: nvec[{i}]") for i, n in enumerate(self.nvec)))

    def __str__(self) -> str:
        """Return MultiDiscrete(n, m, ...)."""
        return f"MultiDiscrete({', '.join(map(str, self.nvec))})"

    def sample(self, key: jax.Array) -> jax.Array:
        """Sample int32[len(nvec)] uniformly."""
        return _below(key, np.asarray(self.nvec, np.int32))

    def contains(self, value: Any) -> jax.Array:
        """Return bool[]."""
        if not fits(value, self.struct):
            return jnp.array(False)
        return jnp.all((value >= 0) & (value < np.asarray(self.nvec, np.int32)))

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """int32[len(nvec)]."""
        return jax.ShapeDtypeStruct((len(self.nvec),), jnp.int32)


def _below(key: jax.Array, n: np.ndarray | np.int32) -> jax.Array:
    """Sample int32 of the shape of `n`, each uniformly from 0 .. n-1.

    One word times n, of which the high word counts, in two halves of 16 bits: every value has its share within 2^-32.
    `randint`, which larger n want, draws twice and divides, which no vector unit does.
    """
    check_key(key)
    if np.max(n) > 1 << 16:
        return jax.random.randint(key, np.shape(n), 0, n, jnp.int32)
    word, count = jax.random.bits(key, np.shape(n), jnp.uint32), n.astype(np.uint32)
    low = ((word & jnp.uint32(0xFFFF)) * count) >> jnp.uint32(16)
    return (((word >> jnp.uint32(16)) * count + low) >> jnp.uint32(16)).astype(jnp.int32)
