"""Python objects instead of names: which of them a file can name, and which Python must pass again.

An algorithm or an environment may be given by name or as an object. A name suffices for what is registered and for what
can be imported as "module:name"; an object beyond that, such as a `functools.partial`, is written by the name that is
nearest, and the file notes that it came from Python.
"""

import dataclasses
from functools import partial
from typing import Any

from purerl import registry
from purerl.catalog.algorithms import WITH_FOLLOWERS
from purerl.catalog.environments import ENVIRONMENTS
from purerl.errors import InputError, with_article
from purerl.settings import toml
from purerl.types import PyTree


def algorithm_of(given: object, config: object = None) -> tuple[str, Any, type, bool]:
    """Return (name, factory, config class, whether the name suffices) of an algorithm.

    Args:
      given: its name or "module:function", or (spec, config) -> Algorithm.
      config: its config, where one is given: its class counts.
    """
    if isinstance(given, str):
        factory, cls = registry.algorithm(given)
        _fits(given, config, cls)
        return given, factory, cls, True
    function = given
    while isinstance(function, partial):
        function = function.func
    path = registry.path_of(function)
    if config is not None and _unannotated(given, path):
        return path, given, type(config), False
    wanted = registry.config_class(given, path)
    _fits(path, config, wanted)
    cls = wanted if config is None else type(config)
    of_factory = registry.names_of(given)
    of_config = [name for name in of_factory if WITH_FOLLOWERS[name].config == registry.path_of(cls)]
    if of_factory:
        return (of_config or of_factory)[0], given, cls, given is function and bool(of_config)
    return path, given, cls, _importable(given, path) and cls is wanted


def _unannotated(given: object, path: str) -> bool:
    try:
        registry.config_class(given, path)
    except InputError:
        return callable(given) and not isinstance(given, type)
    return False


def _fits(name: str, config: object, cls: type) -> None:
    if config is not None and not isinstance(config, cls):
        what = f"the class {config.__name__}" if isinstance(config, type) else type(config).__name__
        raise InputError(
            f"the config of {name} is {what}; it must be {with_article(cls.__name__)}, such as {cls.__name__}()"
        )


def environment_of(given: object) -> tuple[str, Any, bool]:
    """Return (id, the object, None for an id, whether the id and its fields suffice) of an environment."""
    if isinstance(given, str):
        return given, None, True
    registry.check_environment(given)
    path = registry.path_of(type(given))
    name = {where: name for name, where in ENVIRONMENTS.items()}.get(path)
    known = name is not None or (_importable(type(given), path) and not path.startswith("purerl."))
    return name or path, given, known and is_writable(given)


def is_writable(tree: PyTree) -> bool:
    """Return whether a file can hold all fields of a dataclass; fields with default values are exempt."""
    if not dataclasses.is_dataclass(tree):
        return False
    values = ((getattr(tree, field.name), field.default) for field in dataclasses.fields(tree))
    return all(toml.writable(value) or value is default for value, default in values)


def _importable(thing: object, path: str) -> bool:
    """Return whether another process finds the same object by its name."""
    return not path.startswith("__main__:") and registry.imported(path) is thing
