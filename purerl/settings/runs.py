"""The complete settings of a run: merged from the algorithm's defaults, configs/, a file and flags.

One flat TOML table holds everything: what to run (`algorithm`, `environment`, `seed`, `seeds`, ...) and the
algorithm's fields; the environment's parameters are `env.NAME`. The same names work in `configs/`, in
`--config FILE`, in a run's `config.toml` and as flags; later ones win.
"""

import dataclasses
import importlib.resources
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from purerl import registry, trust
from purerl.catalog.algorithms import ALGORITHMS
from purerl.catalog.environments import ENVIRONMENTS
from purerl.errors import InputError, hints, unknown
from purerl.fields import table_fields, validate
from purerl.host_environment import HostSource
from purerl.loop.extension import Extension
from purerl.settings import env_parameters, extensions, objects, toml
from purerl.settings.options import RunOptions, checked
from purerl.settings.starting import agent_settings
from purerl.settings.values import coerce
from purerl.trust import reading
from purerl.types import AlgorithmFactory, Config, Environment

ABOUT_FILES = ("algorithm", "environment", "env", "format", "version", "from_python", "search", "over")
RETIRED = {"rebuild_observations": False}  # settings of older files that are gone, and the values they may have
HANDED = ("algorithm", "environment", "config")  # what may be Python objects


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The complete settings of a run, enough to start it again."""

    algorithm: str
    environment: str
    options: RunOptions
    config: Any  # the algorithm's own subclass of `Config`
    parameters: dict[str, Any]  # the environment's parameters that were given
    extensions: tuple[Extension, ...] = ()  # all that there are, the outermost first
    extension_options: dict[str, Any] = dataclasses.field(default_factory=dict)  # by name, of those that were mentioned
    given: tuple[str, ...] = ()  # names of the settings that the user gave
    factory: AlgorithmFactory | None = None  # the algorithm, if it is an object; None: the one that is named
    env: Environment | HostSource | None = None  # the same for the environment
    from_python: tuple[str, ...] = ()  # what no file can hold, of: algorithm, environment, config
    begun: bool = False  # whether a checkpoint holds its agents, and no run to start from is needed
    folder: Path | None = None  # the job's folder or the agent's file that they were read from
    source: Path | None = None  # the file of settings that the user named

    def options_of(self, row: Extension) -> Any:
        """Return the options of an extension."""
        return self.extension_options.get(row.name, row.options())

    def kept_files(self) -> dict[str, bytes]:
        """Return {name: content} of the files that the job's folder keeps for its extensions."""
        given = ((row, self.options_of(row)) for row in self.extensions)
        return {name: file for row, of in given if row.is_on(of) for name, file in row.keeps(of, self).items()}

    def make_algorithm(self) -> AlgorithmFactory:
        """Return the algorithm."""
        return self.factory or registry.algorithm(self.algorithm)[0]


def defaults_path(algorithm: str, environment: str) -> Path:
    """Return the path of the settings for an algorithm on an environment: configs/ALGORITHM/ENVIRONMENT.toml."""
    root = Path(str(importlib.resources.files("purerl.configs")))
    return root / algorithm / f"{environment.replace('/', '-').replace(':', '-')}.toml"


def names() -> list[tuple[str, str]]:
    """Return (algorithm, file stem) of every file in configs/."""
    root = Path(str(importlib.resources.files("purerl.configs")))
    return sorted((path.parent.name, path.stem) for path in root.glob("*/*.toml"))


def settings(
    algorithm: AlgorithmFactory | str | None,
    environment: Environment | HostSource | str | None,
    flags: Mapping[str, object],
    parameters: Mapping[str, Any] | None = None,
    config_file: Path | None = None,
    config: Config | None = None,
) -> Settings:
    """Merge the settings of a run: the algorithm's defaults < configs/ < `config_file` < flags.

    Args:
      algorithm, environment: their names, or the objects themselves; None: from the file.
      flags: values by field name, of `RunOptions`, the algorithm's config or an extension's options.
      parameters: {name: value} of the environment.
      config_file: a TOML file such as a run's config.toml.
      config: the config of the algorithm, instead of the defaults and configs/.
    """
    config_file = toml.file_of(config_file) if config_file else None
    table, source = toml.read(config_file) if config_file else {}, str(config_file)
    chosen = _chosen("algorithm", algorithm, table, source)
    task = _chosen("environment", environment, table, source)
    known_extensions = _extensions(flags, table, source)
    algorithm, factory, config_class, named = objects.algorithm_of(chosen, config)
    environment, env, known = objects.environment_of(task)
    for name, given in (("algorithm", algorithm), ("environment", environment)):
        if table.get(name, given) != given:
            raise InputError(f"{source} is for the {name} {table[name]}, not {given}")
    if env is None:
        env_parameters.check_known(environment)
    tuned = defaults_path(algorithm, environment)
    start = flags.get("start", None if "format" in table else table.get("start"))  # a run's own file is complete
    layers = []  # (settings, where they stand, the environment's parameters); later ones win
    if tuned.is_file() and config is None:
        layers.append(_of_file(toml.read(tuned), tuned.name, env))
    if start not in (None, "none") and config is None:
        layers.append(_of_run(reading.path_of(start), algorithm, config_class, known_extensions))
    if config_file:
        layers.append(_of_file(table, source, env))
    layers.append((flags, "", parameters or {}))
    option_values, config_values, env_values = {}, {}, {}
    of_extensions = extensions.OptionValues(known_extensions)
    for values, where, env_table in layers:
        _sort_in(values, where, config_class, options=option_values, config=config_values, of_extensions=of_extensions)
        if env is None:
            env_values |= env_parameters.of_name(environment, env_table, where)
        else:
            env_values |= env_parameters.of_object(env, env_table)
    if env is not None and env_values:
        env, env_values = dataclasses.replace(env, **env_values), {}
    config = config_class(**config_values) if config is None else dataclasses.replace(config, **config_values)
    validate(config, algorithm)
    enough = {"algorithm": named, "environment": known, "config": objects.is_writable(config)}
    return Settings(
        algorithm=algorithm,
        environment=environment,
        options=checked(RunOptions(**option_values)),
        config=config,
        parameters=env_values,
        extensions=known_extensions,
        extension_options=of_extensions.made(),
        given=tuple(flags),
        factory=None if isinstance(chosen, str) else factory,
        env=env,
        from_python=tuple(name for name, is_enough in enough.items() if not is_enough),
        source=config_file,
    )


def _chosen(what: str, given: object, table: Mapping[str, object], source: str) -> object:
    """Return the algorithm or environment that is given, or that a file names and the user trusts."""
    if given is not None:
        return given
    if table.get(what) is None:
        raise InputError(f"no {what} given: write ALGORITHM ENVIRONMENT, such as: purerl train ppo CartPole-v1")
    return trust.checked(str(table[what]), source)


def _extensions(flags: Mapping[str, object], table: Mapping[str, object], source: str) -> tuple[Extension, ...]:
    """Return the extensions that a run may use; names in the file, including its tables, must be trusted."""
    own = coerce(flags.get("extension", ()), tuple[str, ...], "extension")
    written = coerce(table.get("extension", ()), tuple[str, ...], f"{source}: extension")
    found = extensions.rows(dict.fromkeys([*own, *(trust.checked(name, source) for name in written)]))
    _trusted_tables(table, found, source)
    return found


def _trusted_tables(
    table: Mapping[str, object], known: Sequence[Extension], source: object
) -> dict[str, Mapping[str, Mapping[str, Any]]]:
    """Return a file's tables of settings by name; the algorithms that they name must be trusted."""
    found = {name: toml.tables(table, name, source) for name in extensions.tables_of(known)}
    for inner in (values for tables in found.values() for values in tables.values()):
        trust.checked(str(inner.get("algorithm", "")), source)
    return found


def _of_file(table: Mapping[str, object], source: str, env: Environment | None) -> tuple[Mapping[str, Any], str, Any]:
    """Return the layer of a file; an environment that is an object keeps its own parameters."""
    return table, f"{source}: ", table.get("env", {}) if env is None else {}


def _of_run(
    folder: Path, algorithm: str, config_class: type, known_extensions: Sequence[Extension]
) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """Return the layer of the run to start from, if its algorithm is the same: the settings that shape its agent.

    Learning rates, lengths and all else that does not shape the agent are the new run's.
    """
    table, source = toml.read_folder(folder, toml.RUN, handed=HANDED), toml.file_of(folder)
    values: dict[str, Any] = {}
    if table.get("algorithm") == algorithm:
        values = {name: value for name, value in table.items() if name in agent_settings(config_class)}
        for name, inner in _trusted_tables(table, known_extensions, source).items():
            values[name] = {key: {n: x for n, x in given.items() if n != "start"} for key, given in inner.items()}
    return values, f"{source}: ", {}


def with_environment(
    run: Settings, environment: object = None, parameters: Mapping[str, object] | None = None
) -> Settings:
    """Return a run's settings with another environment or, if it is None, with other parameters of its own."""
    given, parameters = (run.env or run.environment) if environment is None else environment, parameters or {}
    name, env, _ = objects.environment_of(given)
    if env is not None:
        env = dataclasses.replace(env, **env_parameters.of_object(env, parameters))
        return dataclasses.replace(run, environment=name, env=env)
    env_parameters.check_known(name)
    values = (run.parameters if environment is None else {}) | env_parameters.of_name(name, parameters)
    return dataclasses.replace(run, environment=name, env=None, parameters=values)


def _sort_in(
    values: Mapping[str, object],
    where: str,
    config_class: type,
    options: dict[str, object],
    config: dict[str, object],
    of_extensions: extensions.OptionValues,
) -> None:
    """Sort a layer's typed values into `options`, `config` or the extensions', whichever has the name."""
    option_hints, config_hints = hints(RunOptions), hints(config_class)
    for name, value in values.items():
        if name in RETIRED and value == RETIRED[name]:
            continue
        if name in option_hints:
            options[name] = coerce(value, option_hints[name], f"{where}{name}")
        elif name in config_hints:
            config[name] = coerce(value, config_hints[name], f"{where}{name}")
        elif not of_extensions.take(name, value, where) and name not in ABOUT_FILES:
            of, others = where.rstrip(": "), [other for row in of_extensions.rows for other in hints(row.options)]
            known = [*option_hints, *config_hints, *others, "env"]
            raise unknown(f"setting in {of}" if of else "setting", name, known)


def absent(run: Settings) -> dict[str, object]:
    """Return the values of settings that a file of this or an earlier version may omit."""
    defaults = {f.name: f.default for row in run.extensions for f in dataclasses.fields(row.options)}
    return {**RETIRED, "extension": (), **defaults}


def defaults(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run without flags and files, by full name, as in its config.toml.

    Args:
      table: the content of a run's config.toml; it names the algorithm and the environment.

    Returns:
      The defaults that are known without importing what a file names: {} for an algorithm of the user.
    """
    algorithm, environment = str(table.get("algorithm", "")), str(table.get("environment", ""))
    if algorithm not in ALGORITHMS:
        return {}
    env_class = env_parameters.environment_class(environment) if environment in ENVIRONMENTS else None
    parts = {"": dataclasses.asdict(RunOptions()), "# config": registry.algorithm(algorithm)[1]()}
    parts |= {"[env]": env_class()} if env_class else {}
    return toml.flat_table(reading.toml(toml.text("defaults", parts), "the defaults"))


def dump(run: Settings, env: Environment | HostSource) -> str:
    """Return a run's complete config.toml, with all environment parameters, including the defaults."""
    return toml.text("Run it again with: purerl train --config THIS_FILE", sections(run, env))


def _without_tables(options: object) -> dict[str, object]:
    return {name: value for name, value in vars(options).items() if name not in table_fields(type(options))}


def sections(run: Settings, env: Environment | HostSource) -> dict[str, Any]:
    """Return the sections of a run for `toml.text`; arguments as for `dump`."""
    native = run.env is not None or env_parameters.environment_class(run.environment) is not None
    parameters = env if native and dataclasses.is_dataclass(env) and toml.entries(env) else run.parameters
    head = {"algorithm": run.algorithm, "environment": run.environment}
    head |= {"from_python": run.from_python} if run.from_python else {}
    used = [(row, run.extension_options[row.name]) for row in run.extensions if row.name in run.extension_options]
    tables = {
        f"[{name}.{key}]": dict(inner)
        for row, options in used
        for name in table_fields(row.options)
        for key, inner in sorted(getattr(options, name))
    }
    return {
        "": head | dataclasses.asdict(run.options),
        f"# {type(run.config).__name__}": run.config,
        **{f"# {type(options).__name__}": _without_tables(options) for _, options in used},
        "[env]": parameters,
        **tables,
    }
