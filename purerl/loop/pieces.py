"""Type checks of a run's parts: a one-line error for each wrong one, before anything is traced."""

import dataclasses
import inspect
from typing import Any

import jax
from jax.core import Tracer

from purerl import registry
from purerl.errors import InputError, check_arguments, check_partial, kind_of, told, with_article
from purerl.fields import validate
from purerl.prng import is_key
from purerl.spaces import Space
from purerl.spaces.masks import check_masks
from purerl.types import Algorithm, Config, Key


def check_pieces(algorithm: object, env: object, config: Config) -> None:
    """Check that an algorithm, an environment and a config have the types that `make_trainer` accepts.

    Raises:
      InputError: naming the first wrong one, and what would be right.
    """
    if jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise InputError("JAX computes in 64 bits here, and purerl in 32: leave out JAX_ENABLE_X64 (jax_enable_x64)")
    check_algorithm_kind(algorithm)
    registry.check_environment(env)
    check_spaces(env)
    check_config(algorithm, config)


def check_spaces(env: Any) -> None:
    """Raise an `InputError` unless an environment's spaces are ours, and its masks fit its actions."""
    for what in ("observation_space", "action_space"):
        space = getattr(env, what)
        if not isinstance(space, Space):
            kind = f"the class {space.__name__}" if isinstance(space, type) else told(space)
            of = f" of {type(space).__module__.partition('.')[0]}" if hasattr(space, "sample") else ""
            raise InputError(f"{what} of {type(env).__name__} is {kind}{of}; it must be a space such as purerl.Box")
    check_masks(env.observation_space, env.action_space)


def check_algorithm_kind(algorithm: object) -> None:
    """Raise an `InputError` unless an object can be an algorithm's factory, (spec, config) -> Algorithm."""
    check_partial(algorithm, "algorithm")
    given = None
    if isinstance(algorithm, str):
        given = f"the text '{algorithm}'; write: from purerl.algos.{algorithm} import {algorithm}"
        given = given if algorithm.isidentifier() else f"the text '{algorithm}'"
    elif isinstance(algorithm, Algorithm):
        given = "an Algorithm, which is made for one environment; give the function that makes it"
    elif isinstance(algorithm, type):
        given = f"the class {algorithm.__name__}; give the function beside it, such as ppo of PPOConfig"
    elif inspect.ismodule(algorithm):
        given = f"the module {algorithm.__name__}; give the function in it"
    elif not callable(algorithm):
        given = told(algorithm)
    if given is not None:
        raise InputError(f"algorithm is {given}; it must be a function (spec, config) -> Algorithm, such as ppo")
    check_arguments(algorithm, "algorithm", "spec, config")


def check_config(algorithm: object, config: Config) -> None:
    """Raise an `InputError` unless a config has the algorithm's class, with concrete values within their bounds."""
    wanted = config_class_of(algorithm)
    such = f"{with_article(wanted.__name__)}, such as {wanted.__name__}()" if wanted else "the algorithm's config"
    if isinstance(config, type):
        raise InputError(f"config is the class {config.__name__}; give an instance: {config.__name__}()")
    if not dataclasses.is_dataclass(config) or not hasattr(config, "steps_per_update"):
        raise InputError(f"config is {told(config)}; it must be {such}")
    if wanted is not None and not isinstance(config, wanted):
        name = getattr(getattr(algorithm, "func", algorithm), "__name__", "the algorithm")
        raise InputError(f"config is {kind_of(config)}; {name} needs {such}")
    validate(config, type(config).__name__)


def config_class_of(algorithm: object) -> type | None:
    """Return the class of configs that an algorithm's annotation names; None without an annotation."""
    try:
        return registry.config_class(algorithm, "")
    except InputError:
        return None


def check_key(key: Key, batched: str) -> None:
    """Raise an `InputError` unless `key` is one key; for a batch of keys, `batched` explains what to do."""
    if not is_key(key) and not (getattr(key, "dtype", None) == "uint32" and getattr(key, "ndim", 0) >= 1):
        raise InputError(f"key is {told(key)}; it must be a key of JAX, such as jax.random.key(0)")
    axes = key.ndim if is_key(key) else key.ndim - 1
    if axes:
        raise InputError(f"key has shape {key.shape}; it must be a single one: {batched}")


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return a number such as 1e4 as an integer, after checking that it is at least `least`.

    Raises:
      InputError: if it is none, naming it.
    """
    number = isinstance(value, int | float) or (hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0)
    if isinstance(value, bool | Tracer) or not number or value != value or value != value // 1:
        raise InputError(f"{name} is {told(value)}; it must be a whole number")
    if value < least:
        raise InputError(f"{name} is {value}; it must be at least {least}")
    return int(value)
