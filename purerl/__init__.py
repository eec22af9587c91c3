"""Reinforcement learning end to end in JAX.

Environments, acting and learning compile into one program, which is vmapped over seeds and hyperparameters and sharded
over devices. The names below are loaded when they are first used, so that `import purerl` stays light and starts no
backend.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from purerl.errors import InputError
    from purerl.evaluate import evaluate
    from purerl.registry import make
    from purerl.train import make_train, make_trainer
    from purerl.trained import load_run
    from purerl.vector import vectorize

_HOMES = {
    "InputError": "purerl.errors",
    "evaluate": "purerl.evaluate",
    "load_run": "purerl.trained",
    "make": "purerl.registry",
    "make_train": "purerl.train",
    "make_trainer": "purerl.train",
    "vectorize": "purerl.vector",
}

__all__ = ["InputError", "__version__", "evaluate", "load_run", "make", "make_train", "make_trainer", "vectorize"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'purerl' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value  # the function, also where a module has the same name
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
