"""A package `envpool` whose pools are ours, so that scripts written for EnvPool run on them as they stand."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

from purerl import pool
from purerl.envs.grid.frozen_lake import MAP_8X8
from purerl.pool import infos
from purerl.pool.base import Pool
from purerl.pool.config import PoolSpec
from purerl.pool.dm_pool import DMPool
from purerl.pool.gymnasium_pool import GymnasiumPool
from tests.helpers import arcade

ARCADE, ROOM = f"{arcade.__name__}:Arcade", f"{arcade.__name__}:Room"
NUM_ACTIONS = {"Pong-v5": 6, "Breakout-v5": 4, "Defender-v5": 18, "SpaceInvaders-v5": 6}
SWAPPED = {  # EnvPool's id: ours, and its parameters
    **{name: (ARCADE, {"num_actions": n}) for name, n in NUM_ACTIONS.items()},
    "Catch-v0": ("Catch", {}),
    "FrozenLake8x8-v1": ("FrozenLake-v1", {"lake": MAP_8X8, "time_limit": 200}),
    "phys2d/CartPole-v0": ("CartPole-v0", {}),
    "phys2d/CartPole-v1": ("CartPole-v1", {}),
    "phys2d/Pendulum-v0": ("Pendulum-v0", {}),
}


def _of(function):
    def call(task_id, *args, **config):
        ours, parameters = SWAPPED.get(task_id, (task_id, {}))
        return function(ours, *args, parameters=parameters, **config)

    return call


def _make(task_id, env_type, **config):
    """EnvPool's `make` has no default for `env_type`; ours has."""
    return _of(pool.make)(task_id, env_type, **config)


class AtariEnvSpec(PoolSpec):
    """A game's spec from a config, checked as that of any pool."""

    def __init__(self, config):
        spec = pool.make_spec(ARCADE, **{name: value for name, value in config.items() if name != "task"})
        super().__init__(spec.task_id, spec.env, spec.settings)

    @staticmethod
    def gen_config(**config):
        return config


class MiniGridEnvSpec(PoolSpec):
    """A room's spec from a config."""

    def __init__(self, config):
        spec = pool.make_spec(ROOM, **{k: v for k, v in config.items() if k not in ("env_name", "size")})
        super().__init__(spec.task_id, spec.env, spec.settings)

    @staticmethod
    def gen_config(**config):
        return config


DOORS = {
    "make": _make,
    **{name: _of(getattr(pool, name)) for name in ("make_dm", "make_gym", "make_gymnasium", "make_spec")},
    "list_all_envs": pool.list_all_envs,
}
PROTOCOL = {"EnvPool": Pool, "EnvSpec": PoolSpec, "DMEnvPool": DMPool, "GymnasiumEnvPool": GymnasiumPool}
MODULES = {
    "envpool": {**DOORS, **PROTOCOL, "__version__": "0"},
    "envpool.registration": DOORS,
    "envpool.python": {},
    "envpool.python.protocol": PROTOCOL,
    "envpool.atari": {"AtariEnvSpec": AtariEnvSpec},
    "envpool.atari.registration": {},
    "envpool.atari.atari_envpool": {"_AtariEnvPool": None, "_AtariEnvSpec": None},  # the C++ classes, used by one test
    "envpool.classic_control": {},
    "envpool.classic_control.registration": {},
    "envpool.minigrid": {"MiniGridEnvSpec": MiniGridEnvSpec, "MiniGridGymnasiumEnvPool": GymnasiumPool},
    "envpool.toy_text": {},
    "envpool.toy_text.registration": {},
}


def install(monkeypatch) -> None:
    """Let `import envpool` find our pools, until the test ends."""
    monkeypatch.setitem(infos.OF_STATES, "Arcade", arcade.shown)
    modules = {name: ModuleType(name) for name in MODULES}
    for name, module in modules.items():
        module.__dict__.update(MODULES[name])
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
        monkeypatch.setitem(sys.modules, name, module)
    try:
        importlib.import_module("cv2")
    except ImportError:  # two files import it for functions that are not run
        monkeypatch.setitem(sys.modules, "cv2", ModuleType("cv2"))


def load(path: Path) -> ModuleType:
    """Return a file as a module."""
    spec = importlib.util.spec_from_file_location(f"of_a_checkout_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
