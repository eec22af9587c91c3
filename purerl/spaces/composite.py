"""Composite spaces: named parts, and the spaces of several agents."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from purerl.errors import InputError, kind_of, told
from purerl.fields import PyTree, number, pytree, static
from purerl.spaces.space import Space, count, fits, set_field


@pytree
class Dict(Space):
    """Named spaces, which may be nested; an element is a dict.

    Example:
      >>> import purerl
      >>> space = purerl.Dict({"position": purerl.Box(low=0.0, high=1.0, shape=(2,)), "lap": purerl.Discrete(3)})
      >>> sorted(space.spaces)
      ['lap', 'position']
    """

    spaces: Mapping[str, Any] = number(kw_only=False)

    def __post_init__(self) -> None:
        """Raise an `InputError` unless all parts are spaces."""
        if isinstance(self.spaces, Space | list | tuple | str | type):
            raise InputError(f"Dict: spaces is {told(self.spaces)}; it must be a dict of spaces by name")
        for name, part in self.spaces.items() if isinstance(self.spaces, Mapping) else ():
            if not isinstance(name, str):
                raise InputError(f"Dict: the name {name!r} is {kind_of(name)}; names are texts")
            _check_part(part, f"Dict: '{name}'")

    def sample(self, key: jax.Array) -> dict[str, PyTree]:
        """Sample every space, each with its own key."""
        keys = jax.random.split(key, len(self.spaces))
        return {name: self.spaces[name].sample(k) for name, k in zip(sorted(self.spaces), keys, strict=True)}

    def contains(self, value: object) -> jax.Array:
        """Return bool[]: whether the names are the same and every part is inside."""
        if not isinstance(value, Mapping) or set(value) != set(self.spaces):
            return jnp.array(False)
        return jnp.all(jnp.stack([space.contains(value[name]) for name, space in self.spaces.items()]))

    @property
    def struct(self) -> dict[str, PyTree]:
        """A dict of the parts' structures."""
        return {name: space.struct for name, space in self.spaces.items()}


@pytree
class Stacked(Space):
    """The same space for `n` agents, stacked along a leading axis.

    Example:
      >>> import jax
      >>> import purerl
      >>> purerl.Stacked(purerl.Discrete(5), 3).sample(jax.random.key(0)).shape
      (3,)
    """

    space: Any = number(kw_only=False)
    n: int = static(at_least=1, kw_only=False)

    def __post_init__(self) -> None:
        """Raise an `InputError` unless the space and the number of agents have the right types."""
        _check_part(self.space, "Stacked: space")
        set_field(self, "n", count(self.n, "Stacked: n"))

    def sample(self, key: jax.Array) -> PyTree:
        """Sample for every agent, each with its own key."""
        return jax.vmap(self.space.sample)(jax.random.split(key, self.n))

    def contains(self, value: object) -> jax.Array:
        """Return bool[]: whether every agent's part is inside."""
        leaves, structure = jax.tree.flatten(self.struct)
        if jax.tree.structure(value) != structure:
            return jnp.array(False)
        inside = all(fits(x, leaf) for x, leaf in zip(jax.tree.leaves(value), leaves, strict=True))
        return jnp.all(jax.vmap(self.space.contains)(value)) if inside else jnp.array(False)

    @property
    def struct(self) -> PyTree:
        """The space's structure with a leading axis."""
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((self.n, *leaf.shape), leaf.dtype), self.space.struct)


def _check_part(part: object, what: str) -> None:
    """Raise an `InputError` for an object that is not a space; JAX may put others here, such as axes of a vmap."""
    foreign = type(part).__module__.partition(".")[0] in ("gymnasium", "gym", "gymnax", "dm_env", "brax", "jumanji")
    if foreign or isinstance(part, str | list | tuple | Mapping | type):
        raise InputError(f"{what} is {told(part)}; it must be one of purerl.spaces")
