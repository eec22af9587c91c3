"""One-line errors for bad input."""

import dataclasses
import difflib
import functools
import inspect
import os
import traceback
import types
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


class InputError(ValueError):
    """A one-line error for bad input, with the wrong value and the allowed ones.

    The command line prints the line and exits with code 2; from Python it is an ordinary `ValueError`. Text that it
    quotes from a file cannot control a terminal.

    Example:
      >>> import purerl
      >>> try:
      ...     purerl.make("CartPole-v2")
      ... except purerl.InputError as error:
      ...     print("CartPole-v1" in str(error))
      True
    """

    def __str__(self) -> str:
        return printable(super().__str__())


def printable(text: object) -> str:
    """Return a text with its control characters escaped, such as \x1b; line ends stay.

    What comes from files and environments passes here before it is printed.
    """
    return "".join(c if c.isprintable() or c in "\n\t" else _written_out(c) for c in str(text))


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def unknown(kind: str, name: str, allowed: Iterable[str], limit: int = 12) -> InputError:
    """Return the error for a name that does not exist.

    Args:
      kind: what the name should have named, such as "environment".
      name: what was given.
      allowed: the names that exist.
      limit: at most so many of them are listed.

    Returns:
      An `InputError` that names the nearest match, if there is one, and the names allowed.
    """
    names = sorted(allowed)
    near = nearest(name, names)
    hint = f"did you mean '{near}'? " if near else ""
    listed = ", ".join(names[:limit]) + (f", ... ({len(names)} in all)" if len(names) > limit else "")
    return InputError(f"unknown {kind} '{name}': {hint}allowed: {listed}")


def install(extra: str) -> str:
    """Return, for messages, the command that installs the packages of an extra."""
    return f"pip install 'purerl[{extra}]' (in a clone: uv sync --inexact --extra {extra})"


def check_arguments(function: object, what: str, arguments: str) -> None:
    """Raise an `InputError` unless an object can be called with these positional arguments.

    Args:
      function: what was given.
      what: what it is given as, such as "objective".
      arguments: their names, such as "log_ratio, advantage, context".
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not callable(function):
        raise InputError(f"{what} is {told(function)}; it must be a function ({arguments})")
    if isinstance(function, type):
        raise InputError(f"{what} is the class {name}; give an instance, such as {name}(), or a function")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return
    try:
        signature.bind(*arguments.split(", "))
    except TypeError:
        taken = ", ".join(signature.parameters)
        raise InputError(f"{what} {name} takes ({taken}); it must be a function ({arguments})") from None


def check_partial(function: object, what: str) -> None:
    """Raise an `InputError` for an argument of a `functools.partial` that its function does not have."""
    given: dict[str, Any] = {}
    while isinstance(function, functools.partial):
        if what == "algorithm" and function.args:
            raise InputError(f"the partial of an algorithm has {told(function.args[0])} by position; pass it by name")
        given, function = function.keywords | given, function.func
    if not given or not callable(function):
        return
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    allowed = [parameter.name for parameter in parameters]
    for name in given:
        if name not in allowed:
            raise unknown(f"argument of {what} {getattr(function, '__name__', '')}".rstrip(), name, allowed)


CALLERS = ("/jax/", "/purerl/registry.py", "/purerl/testing/trees.py")  # files that call the user's code


def line_of(error: BaseException) -> str:
    """Return " (file:line)" of the last frame outside `CALLERS`; "" if there is none."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and not any(caller in frame.filename for caller in CALLERS)
    ]
    return f" ({frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno})" if frames else ""


def hints(cls: type) -> dict[str, Any]:
    """Return the type of each field of a dataclass."""
    resolved = typing.get_type_hints(cls)
    return {field.name: resolved[field.name] for field in dataclasses.fields(cls)}


def describe(hint: object) -> str:
    """Describe a field's type in words, for messages and help pages."""
    if isinstance(hint, types.UnionType):
        return " or ".join(describe(part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return f"list of {describe(typing.get_args(hint)[0])}s"
    if typing.get_origin(hint) is Callable:
        return "function"
    names = {bool: "true or false", int: "integer", float: "number", str: "text", type(None): "none"}
    return names.get(hint, "value")


def with_article(noun: str) -> str:
    """Return a noun or the name of a class with its article, such as "an int"."""
    spelled = noun[:2].isupper() and noun[0] in "FHLMNRSX"  # such as LPG
    return f"{'an' if spelled or noun[0] in 'AEIOaeio' or noun == 'ndarray' else 'a'} {noun}"


def kind_of(value: object) -> str:
    """Return the name of a value's class with its article."""
    return with_article(type(value).__name__)


def told(value: Any) -> str:
    """Describe a wrong value for a message: the value itself if it is short, else its kind."""
    plain = value is None or isinstance(value, bool | int | float | str)
    return repr(value) if plain or (isinstance(value, dict | list | tuple) and not value) else kind_of(value)


def path_given(value: object, what: str) -> Path:
    """Return a path that a Python caller gave.

    Raises:
      InputError: if it is neither a text nor a path.
    """
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{what} is {told(value)}; it must be a path")
    return Path(value)


ELSEWHERE = {  # what a setting is called in other frameworks: -> ours
    "lr": "learning_rate",
    "gamma": "discount",
    "gae": "gae_lambda",
    "buffer_size": "replay_capacity",
    "memory_size": "replay_capacity",
    "n_envs": "num_envs",
    "envs": "num_envs",
    "n_steps": "rollout_length",
    "num_steps": "rollout_length",
    "n_epochs": "num_epochs",
    "epochs": "num_epochs",
    "update_epochs": "num_epochs",
    "minibatches": "num_minibatches",
    "batch_size": "num_minibatches",  # in algorithms without a batch_size
    "steps": "total_timesteps",
    "timesteps": "total_timesteps",
    "max_steps": "total_timesteps",
    "clip": "clip_epsilon",
    "clip_coef": "clip_epsilon",
    "clip_range": "clip_epsilon",
    "ent_coef": "entropy_coefficient",
    "entropy": "entropy_coefficient",
    "vf_coef": "value_coefficient",
    "anneal_lr": "learning_rate_schedule",
    "anneal_learning_rate": "learning_rate_schedule",
    "lr_schedule": "learning_rate_schedule",
    "polyak": "tau",
    "target_network_frequency": "target_update_interval",
    "target_update_freq": "target_update_interval",
    "units": "hidden_sizes",
    "layers": "hidden_sizes",
    "hidden_size": "hidden_sizes",
    "num_seeds": "seeds",
    "n_seeds": "seeds",
    "output": "out",
    "output_dir": "out",
    "logdir": "out",
    "device": "devices",
}


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant, by other frameworks' terms or by spelling; None if there is none."""
    own = {_plain(candidate): candidate for candidate in names}
    elsewhere = {word: own[ours] for word, ours in ELSEWHERE.items() if ours in own}
    known = elsewhere | own
    if _plain(name) in elsewhere:
        return elsewhere[_plain(name)]
    near = difflib.get_close_matches(_plain(name), known, n=1, cutoff=0.6)
    return known[near[0]] if near else None


def _plain(name: str) -> str:
    return name.casefold().lstrip("-").replace("-", "_")
