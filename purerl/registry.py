"""Finds environments, algorithms and objectives by name, with lazy imports; `settings.extensions` finds extensions."""

import dataclasses
import importlib
import importlib.util
import inspect
import os
import re
import sys
import typing
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any

from purerl import trust
from purerl.catalog.algorithms import ALGORITHMS, WITH_FOLLOWERS
from purerl.catalog.environments import ENVIRONMENTS, FAMILIAR, SUITES, Suite
from purerl.catalog.extensions import EXTENSIONS
from purerl.catalog.objectives import OBJECTIVES, ObjectiveEntry
from purerl.errors import InputError, check_partial, install, kind_of, told, unknown

TAKEN = ("brax", "gymnax", "jumanji", "navix", "pgx")  # suites whose objects `purerl.from_SUITE` takes
KNOWN = "purerl.envs.adapters.known"  # has check_name(suite, package, name), and imports nothing


def unknown_environment(name: str) -> InputError:
    """Return the error for an unknown environment, with the new home of a familiar name or the nearest match."""
    plain = lambda text: re.sub(r"(NoFrameskip)?(-v\d+)?$", "", text).replace("-", "").replace("_", "").casefold()
    own = [other for other in ENVIRONMENTS if plain(other.partition("-")[0]) == plain(name)]
    familiar = [
        pattern.replace("*", other)
        for pattern, known in FAMILIAR.items()
        for other in known.split()
        if plain(name) in (plain(other), plain(pattern.partition("/")[2].replace("*", other)))
    ]
    if meant := own + sorted(familiar, key=lambda other: not installed(other.partition("/")[0])):
        return InputError(f"unknown environment '{name}': did you mean '{meant[0]}'?")
    module = name.removesuffix(".py").removeprefix("./").replace("/", ".")
    if module and os.path.isfile(f"{module.replace('.', '/')}.py"):  # which no name makes raise
        return InputError(f"unknown environment '{name}': write your own as module:Class, such as {module}:MyClass")
    return unknown("environment", name, [*ENVIRONMENTS, *(f"{s}/..." for s in SUITES)])


def load(path: str) -> Any:
    """Return the object at "module:name", from the catalog or, by `trust.load`, from a trusted module."""
    if path in _own():
        module, _, name = path.partition(":")
        return getattr(importlib.import_module(module), name)
    return trust.load(path)


def _own() -> frozenset[str]:
    """Return the "module:name" of everything in the catalog."""
    algorithms = [path for entry in WITH_FOLLOWERS.values() for path in (entry.factory, entry.config)]
    starts = [entry.start for entry in OBJECTIVES.values()]
    return frozenset([*algorithms, *starts, *ENVIRONMENTS.values(), *EXTENSIONS.values()])


def path_of(thing: object) -> str:
    """Return the "module:name" of a class or function."""
    return f"{getattr(thing, '__module__', '?')}:{getattr(thing, '__qualname__', type(thing).__name__)}"


def name_of(config: object) -> str:
    """Return the name of a config's algorithm; for a user's own config, the name of its class without "Config"."""
    return name_of_known(config) or type(config).__name__.removesuffix("Config").lower()


def name_of_known(config: object) -> str:
    """Return the name of a config's algorithm; "" if the catalog does not hold it."""
    names = {entry.config: name for name, entry in WITH_FOLLOWERS.items()}
    return names.get(path_of(type(config)), "")


def named(algorithm: Any) -> str:
    """Return the first of an algorithm's names; "" if the catalog does not hold it."""
    return next(iter(names_of(algorithm)), "")


def names_of(algorithm: Any) -> list[str]:
    """Return the catalog's names of an algorithm, even if arguments are bound to it; they differ in the config."""
    while isinstance(algorithm, partial):
        algorithm = algorithm.func
    path = path_of(inspect.unwrap(algorithm))
    return [name for name, entry in WITH_FOLLOWERS.items() if entry.factory == path]


def make(env_id: str, *others: Any, **parameters: Any) -> Any:
    """Return an environment by id. An id such as "module:Class" imports its module.

    Args:
      env_id: a native id such as "CartPole-v1", an adapter's "suite/NAME", or a class of your own as "module:Class".
      **parameters: fields of the environment, such as gravity=12.0; they may be traced.

    Returns:
      The environment, a pytree whose leaves are its numbers.

    Raises:
      InputError: for an unknown id or parameter (naming the nearest), a suite that is not installed, or a
        "module:name" that is not a class of environments.

    Example:
      >>> import purerl
      >>> float(purerl.make("CartPole-v1", gravity=12.0).gravity)
      12.0
    """
    if others:
        raise InputError(
            f"make takes parameters by name, such as make('{env_id}', gravity=12.0); {told(others[0])} has none"
        )
    if not isinstance(env_id, str):
        what = f"the class {env_id.__name__}" if isinstance(env_id, type) else kind_of(env_id)
        raise InputError(f"make takes the id of an environment, such as make('CartPole-v1'); this is {what}")
    trust.typed(env_id, *parameters.values())
    return environment(env_id, parameters)


def environment(env_id: str, parameters: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Return an environment by id; see `make`. A module that the id names must be trusted."""
    check_id(env_id)
    trust.checked(env_id)
    suite, slash, name = env_id.partition("/")
    if slash and (suite in SUITES or not is_own(env_id)):
        for value in parameters.values():
            trust.checked(
                value if trust.names_module(value) else "", f"a parameter of {env_id}"
            )  # suites may import it
        return _adapter(suite).make(name, **parameters)
    cls = environment_class(env_id)
    allowed = getattr(cls, "__dataclass_fields__", {})
    for parameter in parameters:
        if parameter not in allowed:
            raise unknown(f"parameter of {env_id}", parameter, allowed)
    made = cls(**parameters)
    if allowed:
        from purerl.fields import validate

        validate(made, env_id)
    return made


def check_id(env_id: str) -> None:
    """Reject an id that is recognizably wrong, without imports; an id that passes can still be wrong.

    Raises:
      InputError: for an unknown suite, one that is not installed, or an unknown name, naming the nearest.
    """
    if env_id.endswith(".py"):
        raise unknown_environment(env_id)
    suite, slash, name = env_id.partition("/")
    if slash and (suite in SUITES or not is_own(env_id)):
        importlib.import_module(KNOWN).check_name(suite, _entry(suite).package, name)
    elif env_id not in ENVIRONMENTS and ":" not in env_id:
        raise unknown_environment(env_id)


def environment_class(env_id: str) -> type:
    """Return the class of a native id or of "module:Class"; nothing except a class of environments is ever called.

    Raises:
      InputError: if there is none, or it is not an environment class.
    """
    from purerl.host_environment import HostSource
    from purerl.types import Environment

    if env_id not in ENVIRONMENTS and ":" not in env_id:
        raise unknown_environment(env_id)
    found = load(ENVIRONMENTS.get(env_id, env_id))
    if not (isinstance(found, type) and issubclass(found, Environment | HostSource)):
        raise InputError(f"{env_id} is not an environment: it must be a subclass of purerl.Environment")
    return found


def is_own(env_id: str) -> bool:
    """Return whether an id is a user's class, "module:Class", and not the name of a suite's environment."""
    return ":" in env_id and env_id.partition("/")[0] not in SUITES


def check_environment(env: object) -> None:
    """Raise an `InputError` unless an object is an environment, in JAX or on the host."""
    from purerl.host_environment import HostSource
    from purerl.types import Environment

    if isinstance(env, Environment | HostSource):
        return
    if isinstance(env, type):
        raise InputError(f"environment is the class {env.__name__}; give an instance, such as {env.__name__}()")
    if isinstance(env, str):
        raise InputError(f"environment is the text '{env}'; make it first: purerl.make('{env}')")
    packages = [cls.__module__.partition(".")[0] for cls in type(env).__mro__]
    suites = {name: suite for suite, entry in SUITES.items() for name in (suite, entry.package)} | {"gym": "gymnasium"}
    package = next((package for package in packages if package in suites), None)
    if package is not None:
        suite = suites[package]
        door = f"purerl.from_{suite}(env)" if suite in TAKEN else f"purerl.make('{suite}/NAME')"
        raise InputError(f"environment is {kind_of(env)} of {package}; make it by its adapter: {door}")
    methods = all(callable(getattr(type(env), name, None)) for name in ("reset", "step"))
    if not methods or not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        raise InputError(f"environment is {told(env)}; it must be from purerl.make, or a purerl.Environment of yours")


def names(suite: str | None = None) -> list[str]:
    """Return the ids of the native environments, or of a suite's.

    A suite has to be imported to be asked, which may take seconds and start JAX's backend.

    Raises:
      InputError: for an unknown suite, naming the nearest, or one that is not installed.
    """
    return list(ENVIRONMENTS) if suite is None else [f"{suite}/{name}" for name in _adapter(suite).names()]


def _adapter(suite: str) -> ModuleType:
    return importlib.import_module(_entry(suite).module)


def _entry(suite: str) -> Suite:
    if suite not in SUITES:
        raise unknown("suite", suite, SUITES)
    entry = SUITES[suite]
    if not installed(suite):
        raise InputError(f"{suite} is not installed: {install(entry.extra or suite)}")
    return entry


def installed(suite: str) -> bool:
    """Return whether a suite's package can be imported."""
    return importlib.util.find_spec(SUITES[suite].package) is not None


def algorithm(name: str) -> tuple[Any, Any]:
    """Return (factory, config class) of an algorithm by name; no code of a "module:function" is called.

    Args:
      name: a name in the table, or your own (spec, config) -> Algorithm as "module:function".

    Raises:
      InputError: for an unknown name, naming the nearest, or something that is not an algorithm.
    """
    if name not in WITH_FOLLOWERS and ":" in name:
        factory = load(name)
        return factory, config_class(factory, name)
    if name not in WITH_FOLLOWERS:
        raise unknown("algorithm", name, ALGORITHMS)
    entry = WITH_FOLLOWERS[name]
    return load(entry.factory), load(entry.config)


def config_class(factory: object, name: str) -> type:
    """Return the class of an algorithm's config, which the annotation of its second parameter names.

    Args:
      factory: (spec, config) -> Algorithm, or a `functools.partial` of one.
      name: for messages.

    Raises:
      InputError: if it is not such a function, or has no annotation.
    """
    from purerl.types import Config

    check_partial(factory, "algorithm")
    function = factory
    while isinstance(function, partial):
        function = function.func
    wanted = "it must be a function (spec, config: MyConfig) -> Algorithm, whose MyConfig is a subclass of Config"
    if isinstance(factory, type) or not callable(factory):
        raise InputError(f"{name} is not an algorithm: {wanted}")
    try:
        parameters = list(inspect.signature(factory).parameters.values())
        annotations = typing.get_type_hints(function)
    except (TypeError, ValueError, NameError) as error:
        raise InputError(f"{name} is not a readable algorithm ({error}): {wanted}") from None
    found = annotations.get(parameters[1].name) if len(parameters) > 1 else None
    if not (isinstance(found, type) and issubclass(found, Config) and dataclasses.is_dataclass(found)):
        raise InputError(f"{name} has no annotation of its config: {wanted}")
    return found


def imported(path: str) -> Any:
    """Return the object at "module:name", or None; its module must already have been imported."""
    module, _, name = path.partition(":")
    return getattr(sys.modules.get(module), name, None)


def objective(name: str) -> ObjectiveEntry:
    """Return an objective to evolve by name; your own, (key) -> objective of PPO, is "module:function".

    Raises:
      InputError: for an unknown name, naming the nearest.
    """
    if ":" in name:
        return ObjectiveEntry(start=name, algorithm="ppo", argument="objective", summary="", source="")
    if name not in OBJECTIVES:
        raise unknown("objective", name, OBJECTIVES)
    return OBJECTIVES[name]
