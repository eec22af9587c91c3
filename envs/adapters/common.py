"""The shared part of all adapters: dtypes, bounds, keys, and checks of parameters."""

import contextlib
import io
import math
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike, DTypeLike

from purerl.errors import InputError, install, told, unknown
from purerl.spaces import Box, Dict, Space
from purerl.types import Array, Key, PyTree

T = TypeVar("T")
Options = tuple[tuple[str, Any], ...]


class Timed(NamedTuple):
    """A suite's own state and the steps taken, where the suite does not count them."""

    suite: PyTree
    time: Array  # i32[]


def standard_promotion() -> contextlib.AbstractContextManager:
    """Return the context for a suite's code: it may mix dtypes, and our code may not."""
    return jax.numpy_dtype_promotion("standard")


@contextlib.contextmanager
def building() -> Iterator[None]:
    """Import and build a suite's objects, with concrete arrays even inside a trace, and without their messages.

    MuJoCo, where it is imported, would write its warnings into MUJOCO_LOG.TXT in the user's folder.
    """
    mujoco = sys.modules.get("mujoco")
    with contextlib.ExitStack() as stack:
        if mujoco is not None:
            mujoco.set_mju_user_warning(lambda message: None)
            stack.callback(mujoco.set_mju_user_warning, None)
        # Outside any mesh: arrays that are kept must not belong to the devices of the first program that needs them.
        stack.enter_context(jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())))
        stack.enter_context(jax.ensure_compile_time_eval())
        stack.enter_context(standard_promotion())
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


def settle(tree: PyTree) -> PyTree:
    """Return the tree with fixed dtypes, so that reset and step agree; None stays None."""

    def firm(x: object) -> Array:
        if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return x
        return jnp.asarray(x, dtype=jnp.asarray(x).dtype)

    return jax.tree.map(firm, tree)


def scalar(value: object) -> Array:
    """Return f32[]."""
    return jnp.asarray(value).astype(jnp.float32).reshape(())


def flag(value: object) -> Array:
    """Return bool[]."""
    return jnp.asarray(value).astype(jnp.bool_).reshape(())


def raw_key(key: Key) -> Array:
    """Return uint32[n], an untyped key of JAX's default generator, for suites that store keys in their state."""
    words = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0))).shape
    return jax.random.bits(key, words, jnp.uint32)


def box(struct: jax.ShapeDtypeStruct, low: ArrayLike = -math.inf, high: ArrayLike = math.inf) -> Box:
    """Return the `Box` of a shape and dtype; bounds as large as the dtype's largest number count as infinite."""
    dtype = jnp.dtype(struct.dtype)
    if dtype == jnp.bool_:
        return Box(low=0, high=1, shape=struct.shape, dtype=dtype)
    return Box(low=_bound(low, dtype), high=_bound(high, dtype), shape=struct.shape, dtype=dtype)


def _bound(bound: object, dtype: DTypeLike) -> Array | np.ndarray:
    if jnp.issubdtype(dtype, jnp.integer):
        if isinstance(bound, Tracer):
            return bound.astype(dtype)
        info = jnp.iinfo(dtype)
        return _shared(np.clip(np.asarray(bound, np.float64), info.min, info.max).astype(dtype))
    if isinstance(bound, Tracer):
        return jnp.where(jnp.abs(bound) >= 1e38, jnp.copysign(jnp.inf, bound), bound)
    bound = np.asarray(bound, np.float32)
    return _shared(np.where(np.abs(bound) >= 1e38, np.copysign(np.float32(np.inf), bound), bound))


def _shared(bound: np.ndarray) -> np.ndarray:
    """Return one number if all are the same."""
    return bound.flat[0].item() if bound.size and (bound == bound.flat[0]).all() else bound


def space_of(struct: PyTree) -> Space:
    """Return the space of an array or of a nested dict of arrays, without bounds."""
    if isinstance(struct, Mapping):
        return Dict(spaces={name: space_of(part) for name, part in struct.items()})
    return box(struct)


def freeze(what: str, options: Mapping[str, object], objects: bool = False) -> Options:
    """Return constructor arguments as a sorted, hashable tuple, so that equal environments compile once.

    Args:
      what: the environment, for messages.
      options: the arguments by name.
      objects: also take the suite's own objects, such as a generator of levels, if they are hashable.

    Raises:
      InputError: if one is not made of numbers, texts and lists.
    """

    def frozen(name: str, value: object) -> Any:
        if isinstance(value, list | tuple):
            return tuple(frozen(name, entry) for entry in value)
        if isinstance(value, Mapping):
            return _Frozen((key, frozen(name, entry)) for key, entry in sorted(value.items()))
        if isinstance(value, np.generic):
            return value.item()
        if objects and not isinstance(value, jax.Array | np.ndarray) and isinstance(value, Hashable):
            return value
        if value is not None and not isinstance(value, bool | int | float | str):
            kind = type(value).__name__
            raise InputError(f"{what}: {name} is a {kind}; it shapes the program: give numbers, texts or lists of them")
        return value

    return tuple((name, frozen(name, options[name])) for name in sorted(options))


class Given:
    """A suite's object that a user made, instead of arguments. It equals no other: each compiles its own programs."""

    def __init__(self, env: Any):
        """Hold the object."""
        self.env = env

    def __repr__(self) -> str:
        """Return the object's class."""
        return f"<{type(self.env).__name__}>"


def check_kind(suite: str, env: object, kind: Callable[[], type], example: str) -> None:
    """Raise an `InputError` unless a suite is installed, and an object is one of its environments, made by `kind`."""
    try:
        cls = kind()
    except ModuleNotFoundError:
        raise InputError(f"from_{suite} needs {suite}: {install(suite)}") from None
    if not isinstance(env, cls):
        what = f"the class {env.__name__}" if isinstance(env, type) else told(env)
        raise InputError(f"from_{suite} takes an environment of {suite}, such as {example}; this is {what}")


class _Frozen(tuple):
    """A dict as a tuple of pairs."""


def thaw(options: Options) -> dict[str, Any]:
    """Return the frozen arguments in their original form, with tuples for lists."""

    def thawed(value: object) -> Any:
        return {k: thawed(v) for k, v in value} if isinstance(value, _Frozen) else value

    return {name: thawed(value) for name, value in options}


def check_name(suite: str, name: str, names: Iterable[str]) -> None:
    """Check a name against the existing ones.

    Raises:
      InputError: naming the nearest.
    """
    if name not in (allowed := list(names)):
        raise unknown(f"environment of {suite}", name, allowed)


def check_parameters(what: str, parameters: Iterable[str], allowed: Iterable[str]) -> None:
    """Check parameter names against the existing ones.

    Raises:
      InputError: naming the nearest.
    """
    allowed = sorted(allowed)
    for parameter in parameters:
        if parameter not in allowed:
            raise unknown(f"parameter of {what}", parameter, allowed)


def build(what: str, construct: Callable[[], T]) -> T:
    """Call a suite's constructor.

    Raises:
      InputError: with the suite's own words, where it does not take the arguments or lacks its data.
    """
    try:
        with building():
            return construct()
    except (TypeError, ValueError, AssertionError, AttributeError, LookupError, NotImplementedError, OSError) as error:
        words = str(error).strip().splitlines()
        raise InputError(f"{what} cannot be made: {words[0] if words else type(error).__name__}") from error
