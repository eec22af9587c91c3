"""Settings of a run: TOML files and command-line text to a typed config, and back.

One flat TOML table holds everything: what to run (`algorithm`, `environment`, `seed`, `seeds`, ...) beside the
algorithm's own fields; the environment's parameters are `env.NAME`. TOML has no null, so "none" stands for it. The
same names serve in `configs/`, in `--config FILE`, in a run's `config.toml` and as flags; later ones win.
"""

import dataclasses
import importlib.resources
import json
import math
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from purerl import __version__, registry
from purerl.errors import InputError, unknown
from purerl.registry import ENVIRONMENTS

FORMAT = 1  # of a run's folder
T = TypeVar("T")


def option(default: Any, doc: str, at_least: float | None = 0) -> Any:
    """Declare a field of `RunOptions`."""
    return dataclasses.field(default=default, metadata={"doc": doc, "at_least": at_least})


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run has beside its algorithm's config."""

    seed: int = option(0, "the first seed; seed + i is that of agent i")
    seeds: int = option(1, "agents trained side by side in one program", at_least=1)
    log_interval: int = option(0, "updates between two rows of metrics.csv; 0: about 150 rows in a run")
    evaluations: int = option(10, "evaluations during the run")
    eval_episodes: int = option(128, "episodes per seed of the final evaluation", at_least=1)
    checkpoint_interval: float = option(60.0, "seconds between two checkpoints")
    keep_checkpoints: int = option(3, "checkpoints kept, the newest ones", at_least=1)
    self_play: int = option(0, "earlier selves to play against, in a symmetric game of two groups; 0: none")
    rebuild_observations: bool = option(
        False, "keep states in rollouts and rebuild observations to learn from: less memory, more work", None
    )
    tensorboard: bool = option(False, "also write TensorBoard events")
    sampler: str = option("auto", "the loop: auto, or on the host: serial, batched, alternating, async, inside", None)
    actors: int = option(2, "threads that collect, with sampler async", at_least=1)
    deterministic: bool = option(False, "with sampler async: act with the policy of exactly one update before")
    step_time_limit: float = option(60.0, "seconds that a step of a host environment may take")
    devices: int | str = option("auto", "devices the run takes; auto: one per seed, as far as there are any", None)
    mesh: tuple[str, ...] = option((), "how they are used, such as seed=4,data=2; empty: seeds first", None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """A complete run: enough to start it again."""

    algorithm: str
    environment: str
    options: RunOptions
    config: Any  # the algorithm's config
    parameters: dict[str, Any]  # the environment's parameters that were given
    groups: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)  # of groups of agents: see `policies`


def hints(cls: type) -> dict[str, Any]:
    """Return the type of each field of a dataclass."""
    resolved = typing.get_type_hints(cls)
    return {field.name: resolved[field.name] for field in dataclasses.fields(cls)}


def describe(hint: Any) -> str:
    """Return the words for a field's type: what a message or a help page says is allowed."""
    if isinstance(hint, types.UnionType):
        return " or ".join(describe(part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return f"list of {describe(typing.get_args(hint)[0])}s"
    names = {bool: "true or false", int: "integer", float: "number", str: "text", type(None): "none"}
    return names.get(hint, "value")


def from_text(text: str) -> Any:
    """Return the value that a flag's text stands for: a number, true, false, none, a list by commas, or the text."""
    folded = text.strip().casefold()
    if folded in ("true", "false"):
        return folded == "true"
    if folded in ("none", "null"):
        return None
    if "," in text:
        return tuple(from_text(part) for part in text.strip("()[] ").split(",") if part.strip())
    for number in (int, float):
        try:
            return number(folded)
        except ValueError:
            continue
    return text


def coerce(value: Any, hint: Any, what: str) -> Any:
    """Return `value` as the type `hint`.

    Integers pass as floats, whole floats such as 1e6 as integers, one value as a list of one; "none" is None where
    None is allowed.

    Raises:
      InputError: if it is of another type.
    """
    if hint is Any:
        return value
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None or (value == "none" and type(None) in parts):
        if type(None) in parts:
            return None
        raise InputError(f"{what} is none; it must be: {describe(hint)}")
    for part in parts:
        if typing.get_origin(part) is tuple:
            entries = value if isinstance(value, tuple | list) else (value,)
            return tuple(coerce(entry, typing.get_args(part)[0], what) for entry in entries)
        if part is str and not isinstance(value, tuple | list):
            return str(value)
        if part is bool and isinstance(value, bool):
            return value
        if part is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if part is int and isinstance(value, int | float) and not isinstance(value, bool) and _whole(value):
            return int(value)
    raise InputError(f"{what} is {value!r}; it must be: {describe(hint)}")


def _whole(value: int | float) -> bool:
    return isinstance(value, int) or (math.isfinite(value) and value == int(value))


def read_toml(path: Path) -> dict[str, Any]:
    """Return the table of a TOML file.

    Raises:
      InputError: if it cannot be read or is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from None


def defaults_path(algorithm: str, environment: str) -> Path:
    """Return where the settings for an algorithm on an environment are kept: configs/ALGORITHM/ENVIRONMENT.toml."""
    root = Path(str(importlib.resources.files("purerl.configs")))
    return root / algorithm / f"{environment.replace('/', '-').replace(':', '-')}.toml"


def names() -> list[tuple[str, str]]:
    """Return (algorithm, file stem) of everything in configs/."""
    root = Path(str(importlib.resources.files("purerl.configs")))
    return sorted((path.parent.name, path.stem) for path in root.glob("*/*.toml"))


def settings(
    algorithm: str | None,
    environment: str | None,
    flags: Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
    config_file: Path | None = None,
    groups: Mapping[str, Mapping[str, Any]] | None = None,
) -> Settings:
    """Put a run together: the algorithm's defaults < configs/ < `config_file` < flags.

    Args:
      algorithm, environment: their names; None: as the file says.
      flags: values by field name, of `RunOptions` or of the algorithm's config.
      parameters: the environment's, by name.
      config_file: a TOML file such as a run's own config.toml.
      groups: settings of groups of agents, by group and name.

    Raises:
      InputError: for names and values that cannot be.
    """
    table = read_toml(config_file) if config_file else {}
    source = str(config_file)
    check_format(table, source)
    for name, given in (("algorithm", algorithm), ("environment", environment)):
        written = table.get(name)
        if given is None and written is None:
            raise InputError(
                f"no {name} given: purerl train ALGORITHM ENVIRONMENT, such as: purerl train ppo CartPole-v1"
            )
        if given is not None and written is not None and given != written:
            raise InputError(f"{source} is for the {name} {written}, not {given}")
    algorithm, environment = algorithm or str(table["algorithm"]), environment or str(table["environment"])
    _, config_class = registry.algorithm(algorithm)
    _known_environment(environment)
    layers = [({**flags, "groups": groups or {}}, "", parameters or {})]
    if config_file:
        layers.insert(0, (table, f"{source}: ", table.get("env", {})))
    tuned = defaults_path(algorithm, environment)
    if tuned.is_file():
        built_in = read_toml(tuned)
        layers.insert(0, (built_in, f"{tuned.name}: ", built_in.get("env", {})))
    option_values, config_values, env_values, group_values = {}, {}, {}, {}
    for values, where, env_table in layers:
        _sort_in(values, where, config_class, option_values, config_values)
        env_values |= _parameters(environment, env_table, where)
        for group, own in values.get("groups", {}).items():
            group_values[group] = group_values.get(group, {}) | dict(own)
    options = checked(RunOptions(**option_values))
    return Settings(
        algorithm=algorithm,
        environment=environment,
        options=options,
        config=config_class(**config_values),
        parameters=env_values,
        groups=group_values,
    )


def check_format(table: Mapping[str, Any], source: str) -> None:
    """Refuse a file that another format of run folders wrote.

    Raises:
      InputError: saying which version wrote it.
    """
    written = table.get("format", FORMAT)
    if written != FORMAT:
        by = table.get("version", "another version")
        raise InputError(f"{source} has format {written}, written by purerl {by}; purerl {__version__} reads {FORMAT}")


def _known_environment(environment: str) -> None:
    if "/" not in environment and ":" not in environment and environment not in ENVIRONMENTS:
        raise unknown("environment", environment, [*ENVIRONMENTS, *(f"{suite}/..." for suite in registry.SUITES)])


def _sort_in(
    values: Mapping[str, Any], where: str, config_class: type, options: dict[str, Any], config: dict[str, Any]
) -> None:
    """Put a layer's values, typed, into `options` or `config`, whichever has the name."""
    option_hints, config_hints = hints(RunOptions), hints(config_class)
    for name, value in values.items():
        if name in option_hints:
            options[name] = coerce(value, option_hints[name], f"{where}{name}")
        elif name in config_hints:
            config[name] = coerce(value, config_hints[name], f"{where}{name}")
        elif name not in ("algorithm", "environment", "env", "groups", "format", "version", "search", "over"):
            raise unknown(f"setting in {where.rstrip(': ')}", name, [*option_hints, *config_hints, "env"])


def option_value(name: str, value: Any) -> Any:
    """Return the value of a field of `RunOptions`, typed.

    Raises:
      InputError: if it is of another type.
    """
    return coerce(value, hints(RunOptions)[name], name)


def _parameters(environment: str, table: Any, where: str) -> dict[str, Any]:
    """Return an environment's parameters, typed as its fields say where it has any."""
    if not isinstance(table, Mapping):
        raise InputError(f"{where}env is {table!r}; it must be a table of the environment's parameters")
    if not table:
        return {}
    cls = environment_class(environment)
    known = hints(cls) if cls is not None and dataclasses.is_dataclass(cls) else None
    typed = {}
    for name, value in table.items():
        if known is not None and name not in known:
            raise unknown(f"parameter of {environment}", name, known)
        typed[name] = coerce(value, known[name] if known else Any, f"{where}env.{name}")
    return typed


def environment_class(environment: str) -> type | None:
    """Return the class of an environment of ours or the user's; None for one of a suite."""
    if "/" in environment and not registry.is_own(environment):
        return None
    found = registry.load(ENVIRONMENTS.get(environment, environment))
    return found if isinstance(found, type) else None


def checked(options: T) -> T:
    """Hold a dataclass of `option`s to their least values.

    Raises:
      InputError: for a number below.
    """
    for field in dataclasses.fields(options):  # type: ignore[arg-type]
        value, least = getattr(options, field.name), field.metadata["at_least"]
        if least is not None and not value >= least:
            raise InputError(f"{field.name} is {value}; it must be at least {least}")
    return options


def dump(run: Settings, env: Any) -> str:
    """Return a run's complete config.toml.

    Args:
      run: the settings.
      env: the environment they make: its parameters are written as they are, defaults included.
    """
    lines = [
        "# purerl train --config THIS_FILE runs it again",
        f"format = {FORMAT}",
        f"version = {_toml(__version__)}",
        f"algorithm = {_toml(run.algorithm)}",
        f"environment = {_toml(run.environment)}",
        *fields(run.options),
        "",
        f"# {type(run.config).__name__}",
        *fields(run.config),
    ]
    native = environment_class(run.environment) is not None and dataclasses.is_dataclass(env)
    entries = [entry for entry in fields(env) if entry] if native else []
    entries = entries or [f"{name} = {_toml(value)}" for name, value in run.parameters.items()]
    if entries:
        lines += ["", "[env]", *entries]
    for group, own in sorted(run.groups.items()):
        lines += ["", f"[groups.{group}]", *fields(own)]
    return "\n".join(lines) + "\n"


def fields(values: Any) -> list[str]:
    """Return a line of TOML for each field of a dataclass, or entry of a mapping, that can be written as one."""
    if isinstance(values, Mapping):
        pairs = list(values.items())
    else:
        pairs = [(field.name, getattr(values, field.name)) for field in dataclasses.fields(values)]
    return [f"{name} = {_toml(value)}" for name, value in pairs if _writable(value)]


def _writable(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(_writable(entry) for entry in value)
    return value is None or isinstance(value, bool | int | float | str)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return '"none"'
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(entry) for entry in value) + "]"
    return repr(value)
