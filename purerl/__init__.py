"""Reinforcement learning end to end in JAX.

Environments, acting and learning compile into one program, which is vmapped over seeds and hyperparameters and sharded
over devices. The names below are loaded when they are first used, so that `import purerl` stays light and starts no
backend.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from purerl.errors import InputError
    from purerl.evaluate import evaluate
    from purerl.evolution.evolve import evolve
    from purerl.registry import make
    from purerl.sweeps.search import Choices, IntUniform, LogUniform, Uniform
    from purerl.sweeps.sweep import sweep
    from purerl.train import make_train, make_trainer
    from purerl.trained import load_run
    from purerl.vector import vectorize

_HOMES = {
    "Choices": "purerl.sweeps.search",
    "InputError": "purerl.errors",
    "IntUniform": "purerl.sweeps.search",
    "LogUniform": "purerl.sweeps.search",
    "Uniform": "purerl.sweeps.search",
    "evaluate": "purerl.evaluate",
    "evolve": "purerl.evolution.evolve",
    "load_run": "purerl.trained",
    "make": "purerl.registry",
    "make_train": "purerl.train",
    "make_trainer": "purerl.train",
    "sweep": "purerl.sweeps.sweep",
    "vectorize": "purerl.vector",
}
_MODULES = ("backend", "distributed", "pool", "stats", "testing")

__all__ = [
    "Choices",
    "InputError",
    "IntUniform",
    "LogUniform",
    "Uniform",
    "__version__",
    "evaluate",
    "evolve",
    "load_run",
    "make",
    "make_train",
    "make_trainer",
    "sweep",
    "vectorize",
]


class _Package(ModuleType):
    """The package: where a module has the name of what it is for, such as `evaluate`, the name is the function's."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in _HOMES:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"purerl.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'purerl' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
