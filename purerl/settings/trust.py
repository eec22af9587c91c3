"""Trust: what files may name. Folders are data; a module of the user's is imported if the user names it as well.

A file may name what is registered and what installed suites have. A "module:name" in it is refused before anything is
imported, unless the module was named by the user: in the command itself, by `--trust MODULE`, or by `trust=True` in
Python.
"""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path

from purerl.errors import InputError
from purerl.registry import module_of

ALL = "*"  # every module
_trusted: ContextVar[frozenset[str]] = ContextVar("trusted", default=frozenset())


def name_modules(modules: Iterable[str]) -> None:
    """Let these modules be imported where a file names them, and look for them in the current folder last."""
    named = frozenset(modules)
    _trusted.set(_trusted.get() | named)
    if named and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))


@contextlib.contextmanager
def trusting(everything: bool) -> Iterator[None]:
    """Let every module be imported that a file names, if `everything` is true."""
    token = _trusted.set(_trusted.get() | ({ALL} if everything else frozenset()))
    try:
        yield
    finally:
        _trusted.reset(token)


def checked(name: str, source: object) -> str:
    """Return a name that a file gives, if the module that it needs is trusted; nothing is imported here.

    Args:
      name: of an algorithm, an environment or an objective.
      source: the file.

    Raises:
      InputError: saying what would be imported, and how to allow it.
    """
    module, trusted = module_of(name), _trusted.get()
    if module and module not in trusted and ALL not in trusted:
        raise InputError(
            f"{source} names {name}, which is code in the module {module}: add --trust {module} to import it "
            f"(trust=True in Python), if you trust it"
        )
    return name


def flags(*names: str) -> str:
    """Return what a command has to add where its folder gives these names, such as " --trust my_module"; or ""."""
    return "".join(f" --trust {module}" for module in dict.fromkeys(map(module_of, names)) if module)
