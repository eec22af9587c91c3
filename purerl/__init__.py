"""Reinforcement learning end to end in JAX.

Environments, acting and learning compile into one program, which is vmapped over seeds and hyperparameters and sharded
over devices. Every public name is loaded when it is first used, so `import purerl` stays light and starts no backend.
"""

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and any(f"{w}.".startswith("purerl.") for w in sys.orig_argv):
    del sys.path[0]  # python -m puts the current folder first: a file there must not stand for a module

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from purerl.catalog.version import VERSION as __version__

if TYPE_CHECKING:
    from purerl import pool, stats, testing, wrappers
    from purerl.devices import distributed
    from purerl.envs.adapters.brax import from_brax
    from purerl.envs.adapters.gymnax import from_gymnax
    from purerl.envs.adapters.jumanji import from_jumanji
    from purerl.envs.adapters.navix import from_navix
    from purerl.envs.adapters.pgx import from_pgx
    from purerl.errors import InputError
    from purerl.evolution.evolve import evolve
    from purerl.extensions.host.replay_failure import play_again
    from purerl.fields import number, pytree, static
    from purerl.loop.extension import Extension
    from purerl.loop.vector import vectorize
    from purerl.registry import make
    from purerl.reporting.render import play
    from purerl.run.entry import resume, train
    from purerl.run.trained_run import TrainedRun, load_run
    from purerl.settings.ranges import Choices, IntUniform, LogUniform, Uniform
    from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Stacked
    from purerl.sweeps.sweep import sweep
    from purerl.training import evaluate, make_train, make_trainer
    from purerl.types import Algorithm, Config, Environment, EnvironmentSpec, Rollout, TimeStep
    from purerl.xla import backend

_HOMES = {
    "purerl": ("pool", "stats", "testing", "wrappers"),
    "purerl.devices": ("distributed",),
    "purerl.envs.adapters.brax": ("from_brax",),
    "purerl.envs.adapters.gymnax": ("from_gymnax",),
    "purerl.envs.adapters.jumanji": ("from_jumanji",),
    "purerl.envs.adapters.navix": ("from_navix",),
    "purerl.envs.adapters.pgx": ("from_pgx",),
    "purerl.errors": ("InputError",),
    "purerl.evolution.evolve": ("evolve",),
    "purerl.fields": ("number", "pytree", "static"),
    "purerl.extensions.host.replay_failure": ("play_again",),
    "purerl.loop.extension": ("Extension",),
    "purerl.loop.vector": ("vectorize",),
    "purerl.registry": ("make",),
    "purerl.reporting.render": ("play",),
    "purerl.run.entry": ("resume", "train"),
    "purerl.run.trained_run": ("TrainedRun", "load_run"),
    "purerl.spaces": ("Box", "Dict", "Discrete", "MultiDiscrete", "Stacked"),
    "purerl.settings.ranges": ("Choices", "IntUniform", "LogUniform", "Uniform"),
    "purerl.sweeps.sweep": ("sweep",),
    "purerl.training": ("evaluate", "make_train", "make_trainer"),
    "purerl.types": ("Algorithm", "Config", "Environment", "EnvironmentSpec", "Rollout", "TimeStep"),
    "purerl.xla": ("backend",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Algorithm",
    "Box",
    "Choices",
    "Config",
    "Dict",
    "Discrete",
    "Environment",
    "EnvironmentSpec",
    "Extension",
    "InputError",
    "IntUniform",
    "LogUniform",
    "MultiDiscrete",
    "Rollout",
    "Stacked",
    "TimeStep",
    "TrainedRun",
    "Uniform",
    "__version__",
    "backend",
    "distributed",
    "evaluate",
    "evolve",
    "from_brax",
    "from_gymnax",
    "from_jumanji",
    "from_navix",
    "from_pgx",
    "load_run",
    "make",
    "make_train",
    "make_trainer",
    "number",
    "play",
    "play_again",
    "pool",
    "pytree",
    "resume",
    "static",
    "stats",
    "sweep",
    "testing",
    "train",
    "vectorize",
    "wrappers",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'purerl' has no attribute '{name}'{_hint(name)}")
    home = _HOME_OF[name]
    if home in ("purerl", "purerl.devices", "purerl.xla"):
        value = importlib.import_module(f"{home}.{name}")
    else:
        value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def _hint(name: str) -> str:
    """Return a hint for a missing name: where it is defined, or the nearest public name."""
    import difflib

    from purerl.catalog.algorithms import ALGORITHMS
    from purerl.catalog.environments import ENVIRONMENTS

    folded = name.casefold().removesuffix("config")
    if folded in ALGORITHMS:
        module, _, factory = ALGORITHMS[folded].factory.partition(":")
        wanted = ALGORITHMS[folded].config.partition(":")[2] if folded != name else factory
        return f": write from {module} import {wanted}"
    home = next((path for path in ENVIRONMENTS.values() if path.partition(":")[2] == name), None)
    if home is not None:
        return f": write from {home.partition(':')[0]} import {name}, or purerl.make"
    if importlib.util.find_spec(f"purerl.{name}") is not None:
        return f": write import purerl.{name}"
    near = difflib.get_close_matches(name, __all__, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def __dir__() -> list[str]:
    return sorted(__all__)
