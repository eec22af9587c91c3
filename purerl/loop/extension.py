"""The contract of extensions: features around the loop, such as a curriculum, opponents or another loop.

The loop, runs and sweeps use only this contract, and do not depend on any particular extension. The built-in ones are
rows of `purerl.catalog.extensions`; your own is the same kind of object in your module.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from purerl.errors import InputError, check_arguments, told
from purerl.fields import is_static
from purerl.loop.train import make_trainer
from purerl.loop.trainer import MakeTrainer, Trainer
from purerl.types import AlgorithmFactory, Config, Environment


class Wrap(Protocol):
    """The change that an extension makes to a trainer or its parts."""

    def __call__(self, make: MakeTrainer, options: Any, /) -> MakeTrainer:
        """Return a function that makes trainers, wrapped around another one.

        Args:
          make: makes the wrapped trainer: the loop's, or one that other extensions already wrap.
          options: the extension's settings; their numbers may be traced.

        Returns:
          (algorithm, env, config) -> `Trainer`. It returns `make`'s if the extension has nothing to do.
        """
        ...


def _never(env: Environment, config: Config) -> str:
    return ""


def _as_given(options: object, run: object, env: Environment) -> Any:
    return options


def _nothing(options: object, run: object) -> dict[str, bytes]:
    return {}


class Extension(NamedTuple):
    """A feature around the training loop.

    Its options become flags and a table in config.toml, and sweeps can vary them.

    Example:
      >>> import purerl
      >>> @purerl.pytree
      ... class Options:
      ...     noise: float = purerl.number(default=0.0, doc="standard deviation of the noise")
      >>> unchanged = purerl.Extension(name="noise", options=Options, wrap=lambda make, options: make)
      >>> unchanged.name
      'noise'
    """

    name: str  # one word, which `excludes` and errors use
    options: type  # a dataclass made by `purerl.pytree`; a run uses the extension if its first field is not the default
    wrap: Wrap
    excludes: tuple[str, ...] = ()  # names of extensions that a run cannot use with this one
    needed: Callable[[Any, Any], str] = _never
    # (env, config) -> why a run uses it whatever the options are, such as "X runs on the host"; "": the options say it
    prepare: Callable[[Any, Any, Any], Any] = _as_given
    # (options, run: `purerl.settings.runs.Settings`, env) -> what `wrap` is given: loads, once, what the options name
    keeps: Callable[[Any, Any], Mapping[str, bytes]] = _nothing
    # (options, run) -> {name: content} of files that the job's folder keeps: `prepare` finds them in `run.folder`, or
    # next to `run.source`, so that a job resumes although a file that the options name has moved or changed
    starts: bool = False  # whether `prepare` also loads the agents that the run's option `start` names
    finish: Callable[[Any], list[str]] | None = None  # (a completed `purerl.run.run.Run`) -> lines to print
    checks: Callable[[AlgorithmFactory, Any, Any, str], list[Any]] | None = None
    # (algorithm, config, environment, name) -> what `purerl.testing.check_algorithm` found to hold with it

    @property
    def switch(self) -> str | None:
        """The name of the first option, which turns the extension on."""
        return next((field.name for field in dataclasses.fields(self.options)), None)

    def is_on(self, options: object) -> bool:
        """Return whether the options turn the extension on."""
        if self.switch is None:
            return False
        default = next(iter(dataclasses.fields(self.options))).default
        value = getattr(options, self.switch)
        return hasattr(value, "dtype") or value != default  # an array may be traced


class Setup(NamedTuple):
    """Everything that a trainer is made of besides the algorithm: a pytree, whose numbers may be traced."""

    config: Any
    env: Any
    options: Mapping[str, Any]  # options of the extensions in use, as they are prepared


MakeFromSetup = Callable[[Setup], Trainer]


def maker(algorithm: AlgorithmFactory, extensions: Sequence[Extension] = ()) -> MakeFromSetup:
    """Return the function that makes an algorithm's trainer from a `Setup` with the options of these extensions."""

    def make(setup: Setup) -> Trainer:
        wraps = [bound(row, setup.options[row.name]) for row in extensions]
        return make_trainer(algorithm, setup.env, setup.config, wraps)

    return make


def bound(row: Extension, options: object) -> Callable[[MakeTrainer], MakeTrainer]:
    """Return the wrap of an extension with these options."""

    def wrapped(make: MakeTrainer) -> MakeTrainer:
        found = row.wrap(make, options)
        check_arguments(found, f"what wrap of the extension {row.name} returned", "algorithm, env, config")
        return found

    return wrapped


def check_extension(row: object, what: str) -> None:
    """Raise an `InputError` unless `row` is an extension whose parts have the right types; `what` names it."""
    if not isinstance(row, Extension):
        given = f"the class {row.__name__}" if isinstance(row, type) else told(row)
        raise InputError(f"{what} is {given}; it must be a purerl.Extension")
    if not isinstance(row.options, type) or not dataclasses.is_dataclass(row.options):
        raise InputError(
            f"the options of extension {row.name} are {told(row.options)}; it must be a class, a dataclass"
        )
    check_arguments(row.wrap, f"wrap of the extension {row.name}", "make, options")
    if isinstance(row.excludes, str):
        raise InputError(f"excludes of extension {row.name} is a text; it must be a tuple: ({row.excludes!r},)")


def in_use(
    extensions: Sequence[Extension], options: Mapping[str, object], env: Environment, config: Config
) -> tuple[Extension, ...]:
    """Return the extensions that a run uses, in order, the outermost first.

    Args:
      extensions: all there are.
      options: by the extension's name; missing ones are the defaults.
      env: the run's environment.
      config: the algorithm's.

    Raises:
      InputError: if two of them exclude each other.
    """
    found = tuple(
        row for row in extensions if (row.name in options and row.is_on(options[row.name])) or row.needed(env, config)
    )
    for first, second in itertools.combinations(found, 2):
        if second.name in first.excludes or first.name in second.excludes:
            raise InputError(
                f"{first.name} cannot be combined with {second.name}: {_why(first, options, env, config)}, and "
                f"{_why(second, options, env, config)}"
            )
    return found


def _why(row: Extension, options: Mapping[str, object], env: Environment, config: Config) -> str:
    """Return the reason that a run uses an extension, for messages."""
    if row.name in options and row.is_on(options[row.name]):
        value = getattr(options[row.name], str(row.switch))
        is_list = isinstance(value, tuple) and all(isinstance(entry, str) for entry in value)
        return f"{row.switch} is {','.join(value) if is_list else value}"
    return row.needed(env, config)


def with_values(setup: Setup, values: Mapping[str, object]) -> Setup:
    """Return a setup with some fields replaced.

    Args:
      setup: the setup of a run.
      values: by field; `env.NAME` is the environment's, other names are the config's or an extension's.
    """
    for name, value in values.items():
        setup = _with_value(setup, name, value)
    return setup


def _with_value(setup: Setup, name: str, value: object) -> Setup:
    if name.startswith("env."):
        return setup._replace(env=dataclasses.replace(setup.env, **{name.removeprefix("env."): value}))
    if name in field_names(setup.config):
        return setup._replace(config=dataclasses.replace(setup.config, **{name: value}))
    owner = next(of for of, options in setup.options.items() if name in field_names(options))
    changed = dataclasses.replace(setup.options[owner], **{name: value})
    return setup._replace(options={**setup.options, owner: changed})


def owner_of(setup: Setup, name: str) -> tuple[Any, str]:
    """Return (the dataclass that has a field, the field's own name); (the config, name) if none has it."""
    if name.startswith("env."):
        return setup.env, name.removeprefix("env.")
    owners = (setup.config, *setup.options.values())
    return next((owner for owner in owners if name in field_names(owner)), setup.config), name


def field_names(owner: object) -> list[str]:
    """Return the names of a dataclass's fields; [] for another object."""
    return [field.name for field in dataclasses.fields(owner)] if dataclasses.is_dataclass(owner) else []


def may_change(setup: Setup, name: str) -> bool:
    """Return whether a field is a number, which can change without a new program."""
    owner, field_name = owner_of(setup, name)
    fields = {field.name: field for field in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else {}
    return field_name in fields and not is_static(fields[field_name])
