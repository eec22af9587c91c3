"""Protection before any import: files in the current folder must not replace parts of a program.

You may read a run that somebody else made from inside its folder. A trace in an empty folder shows that two of the
programs that purerl uses look there: Python, for modules, if a relative path is on `sys.path`, and Matplotlib, for a
settings file, in which some versions evaluate expressions.
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
    """Install the protection.

    Args:
      own: whether the process is the command's own; then no module is found by a relative path.
    """
    if own:
        sys.path[:] = [path for path in sys.path if os.path.isabs(path)]
    if not any(isinstance(finder, _Matplotlib) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Matplotlib())


class _Matplotlib:
    """An import hook that hides a settings file in the current folder while Matplotlib is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of Matplotlib, as `importlib.abc.MetaPathFinder` requires; None for other modules."""
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
    """Make `os.path.exists` deny that a file of this name is in the current folder."""
    exists = os.path.exists
    os.path.exists = lambda path: path != name and exists(path)
    try:
        yield
    finally:
        os.path.exists = exists
