"""Ranges and lists of values of the fields of a config and an environment, for sweeps and for random parameters.

A range contains numbers, which are traced: every value runs in one compiled program. A list may also contain shapes,
each of which needs a separate program.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from purerl.errors import InputError, hints, told, unknown
from purerl.fields import is_static, validate
from purerl.loop.extension import Setup, owner_of
from purerl.settings.values import coerce, from_text, to_text

FORMS = "LOW:HIGH, LOW:HIGH:log, or a list such as 4,8,16"


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`, both included."""

    low: float
    high: float
    log: bool = False  # spread evenly over orders of magnitude
    whole: bool = False  # integers only

    def __post_init__(self) -> None:
        """Raise an `InputError` for ends that do not form a range."""
        low, high = self.low, self.high
        if not (_is_number(low) and _is_number(high)):
            raise InputError(f"a range from {low!r} to {high!r} is invalid: its ends must be numbers")
        if not low < high or not (math.isfinite(low) and math.isfinite(high)):
            raise InputError(f"the range {low!r}:{high!r} is empty; it must be LOW:HIGH with LOW below HIGH")
        if self.log and low <= 0:
            raise InputError(f"the range {low!r}:{high!r}:log must be above 0")
        if self.whole and (low != int(low) or high != int(high)):
            raise InputError(f"the range {low!r}:{high!r} is for an integer setting; its ends must be integers")

    @property
    def edges(self) -> tuple[float, float]:
        """The ends on the scale on which sampling is uniform."""
        half = 0.5 if self.whole else 0.0  # so that the ends are as likely as the others
        low, high = self.low - half, self.high + half
        return (math.log(low), math.log(high)) if self.log else (low, high)

    def at(self, position: Any, numpy: Any = np) -> Any:
        """Return the values at positions f[...] in 0 .. 1: floats of the same dtype, even for integers.

        Args:
          position: an array, or a number.
          numpy: the module that computes them, `jax.numpy` where positions are JAX's.
        """
        low, high = self.edges
        values = low + numpy.asarray(position) * (high - low)
        values = numpy.exp(values) if self.log else values
        return numpy.clip(numpy.rint(values) if self.whole else values, self.low, self.high)

    def position(self, value: np.ndarray) -> np.ndarray:
        """Return the positions of values between `low` and `high`: f64[...] in 0 .. 1."""
        scale = np.log if self.log else np.asarray
        low, high = scale(self.low), scale(self.high)
        return (scale(np.asarray(value, np.float64)) - low) / (high - low)

    def grid(self, num: int) -> list[Any]:
        """Return `num` values from `low` to `high`, evenly spaced; fewer if integers would repeat."""
        plain = dataclasses.replace(self, whole=False).at(np.linspace(0, 1, num))
        return [self.value(x) for x in (np.unique(np.rint(plain)) if self.whole else plain)]

    def value(self, x: Any) -> float | int:
        """Return a number of this range as a Python number."""
        return int(x) if self.whole else float(str(np.float32(x)))  # the shortest number that is the same float32

    def __str__(self) -> str:
        return f"{self.value(self.low)!r}:{self.value(self.high)!r}{':log' if self.log else ''}"


@dataclasses.dataclass(frozen=True)
class Choices:
    """A choice among several values.

    Example:
      >>> import purerl
      >>> purerl.Choices((32, 64, 128)).values
      (32, 64, 128)
    """

    values: tuple[Any, ...]
    text: str = dataclasses.field(default="", compare=False, repr=False)  # as it was written

    def __post_init__(self) -> None:
        """Raise an `InputError` unless the values are a list that is not empty."""
        if not isinstance(self.values, list | tuple) or not self.values:
            raise InputError(f"Choices: values is {told(self.values)}; it must be a list of values")
        object.__setattr__(self, "values", tuple(self.values))

    def at(self, position: np.ndarray) -> list[Any]:
        """Return the values at f64[n] positions in 0 .. 1."""
        last = len(self.values) - 1
        return [self.values[min(int(x * len(self.values)), last)] for x in np.asarray(position)]

    def __str__(self) -> str:
        lists, texts = any(isinstance(value, tuple) for value in self.values), map(to_text, self.values)
        return "/".join(texts) + "/" * (len(self.values) == 1) if lists else ",".join(texts)


Dimension = Range | Choices


def Uniform(low: float, high: float) -> Range:
    """Return the numbers from `low` to `high`.

    Returns:
      The range, for `sweep(over=...)`.

    Example:
      >>> import purerl
      >>> purerl.Uniform(8, 12).low
      8
    """
    return Range(low, high)


def LogUniform(low: float, high: float) -> Range:
    """Return the numbers from `low` to `high`, with every order of magnitude equally likely.

    Returns:
      The range, for `sweep(over=...)`.

    Example:
      >>> import purerl
      >>> purerl.LogUniform(1e-4, 1e-2).low
      0.0001
    """
    return Range(low, high, log=True)


def IntUniform(low: int, high: int) -> Range:
    """Return the integers from `low` to `high`, both included.

    Returns:
      The range, for `sweep(over=...)`.

    Example:
      >>> import purerl
      >>> purerl.IntUniform(2, 9).high
      9
    """
    return Range(low, high, whole=True)


def parse(text: str, flag: str = "--over", forms: str = FORMS) -> tuple[str, Dimension]:
    """Return (name, dimension) of `learning_rate=1e-4:1e-2:log`, `num_envs=4,16` or `hidden_sizes=64,64/256`.

    Raises:
      InputError: if it has another form; it names the flag that the text was given by, and the forms allowed there.
    """
    name, equals, what = text.partition("=")
    name, what = name.strip().replace("-", "_"), what.strip()
    if not (equals and name and what):
        raise InputError(f"{flag} {text}: it must be NAME={forms}")
    if ":" not in what:
        lists = tuple(from_text(part.strip()) for part in what.split("/") if part.strip())
        values = lists if "/" in what else from_text(what)
        return name, Choices(values if isinstance(values, tuple) else (values,), what)
    ends = what.split(":")
    log = ends[2:] == ["log"]
    low, high = (from_text(end) for end in ends[:2])
    wrong = (len(ends) > 2 and not log) or not (_is_number(low) and _is_number(high))
    if wrong:
        raise InputError(f"{flag} {text}: it must be NAME={forms}")
    try:
        return name, Range(low=low, high=high, log=log)
    except InputError as error:
        raise InputError(f"{flag} {name}: {error}") from None


def bind(over: Mapping[str, object], setup: Setup) -> dict[str, Dimension]:
    """Check a search's dimensions against the fields of a config, an environment and the extensions in use.

    Args:
      over: {name: a `Range` or a list of values}; `env.NAME` is a field of the environment.
      setup: the setup of the runs; its other fields are the same in every trial.

    Returns:
      {name: dimension}, with values of the fields' types.

    Raises:
      InputError: for an unknown name, an empty range, a value of a wrong type or out of bounds, a range of a shape.
    """
    if over and not isinstance(over, Mapping):
        raise InputError(
            f"over is {told(over)}; it must be a dict, such as {{'learning_rate': LogUniform(1e-4, 1e-2)}}"
        )
    if not over:
        raise InputError("there is nothing to search over: give at least one, such as learning_rate=1e-4:1e-2:log")
    return {name: _bind(name, wanted, setup) for name, wanted in over.items()}


def _bind(name: str, wanted: object, setup: Setup) -> Dimension:
    owner, field_name = owner_of(setup, name)
    fields = _fields(owner)
    if field_name not in fields:
        known = [other for part in (setup.config, *setup.options.values()) for other in _fields(part)]
        known.remove("total_timesteps")
        raise unknown("field to search over", name, [*known, *(f"env.{other}" for other in _fields(setup.env))])
    if name == "total_timesteps":
        raise InputError("total_timesteps cannot be searched: it is the length of every trial")
    hint = hints(type(owner))[field_name]
    if isinstance(wanted, Range):
        dimension = _bind_range(name, wanted, hint, is_static(fields[field_name]))
        ends = (dimension.value(dimension.low), dimension.value(dimension.high))
    else:
        dimension = _bind_list(name, wanted, hint)
        ends = dimension.values
    for value in ends:
        validate(dataclasses.replace(owner, **{field_name: value}), "over")
    return dimension


def _fields(owner: object) -> dict[str, dataclasses.Field]:
    return {field.name: field for field in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else {}


def _bind_range(name: str, wanted: Range, hint: object, static: bool) -> Range:
    if static:
        raise InputError(
            f"{name} is a shape, and each of its values compiles a program: list its values, such as {name}=4,16"
        )
    low, high = wanted.low, wanted.high
    allowed = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if not set(allowed) & {int, float, Any}:
        raise InputError(f"{name} does not accept the range from {low!r} to {high!r}: list its values")
    whole = wanted.whole or (int in allowed and float not in allowed)
    if whole and (low != int(low) or high != int(high)):
        raise InputError(f"{name} is an integer; its range {low!r}:{high!r} must be of integers")
    return dataclasses.replace(wanted, whole=whole)


def _bind_list(name: str, wanted: object, hint: object) -> Choices:
    values = wanted.values if isinstance(wanted, Choices) else wanted
    if isinstance(wanted, Choices) and "/" in wanted.text and _is_text(hint):  # a list of paths, not of lists
        values = [part.strip() for part in wanted.text.split(",")]
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InputError(f"{name} is {wanted!r}; it must be a range such as Uniform(0, 1), or a list of values")
    typed = tuple(coerce(value, hint, name) for value in values)
    if not typed or len(set(typed)) < len(typed):
        raise InputError(f"{name}: the list {to_text(typed)!r} is empty or names a value twice")
    return Choices(typed)


def _is_text(hint: object) -> bool:
    """Return whether a field holds one text."""
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return str in parts and not any(typing.get_origin(part) is tuple for part in parts)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
