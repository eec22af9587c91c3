"""What a command does before it imports anything: files of the current folder must not stand for parts of a program.

Who reads a run that somebody else made may stand in its folder. Of the packages that purerl uses, traced in an empty
folder, two look there: Python, for modules, where a relative path is on `sys.path`, and Matplotlib, for a file of
settings, in which some versions evaluate expressions.
"""

import contextlib
import importlib.machinery
import os
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

RC = "matplotlibrc"


def up(own: bool) -> None:
    """Put up the shield.

    Args:
      own: whether the process is the command's own; then no module is found by a relative path.
    """
    if own:
        sys.path[:] = [path for path in sys.path if os.path.isabs(path)]
    if not any(isinstance(finder, _Matplotlib) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Matplotlib())


class _Matplotlib:
    """Lets Matplotlib be imported as where no file of its settings is in the current folder."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where Matplotlib is, as `importlib.abc.MetaPathFinder`; None for other modules."""
        if fullname != "matplotlib":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        with _without(RC):
            super().exec_module(module)


@contextlib.contextmanager
def _without(name: str) -> Iterator[None]:
    """Let no file of a name exist in the current folder, as far as Python asks."""
    exists = os.path.exists
    os.path.exists = lambda path: path != name and exists(path)
    try:
        yield
    finally:
        os.path.exists = exists
