"""The Arcade Learning Environment's vector of Atari games, as `ale/NAME`: ale-py steps them in C++ threads.

Source: Bellemare et al. (2013), arXiv:1207.4708. ale-py is GPL-2.0 and only used where it is installed:
pip install 'purerl[atari]'.
"""

import dataclasses
import importlib
from types import ModuleType
from typing import Any

from purerl.envs.adapters import host_common
from purerl.errors import InputError, unknown
from purerl.host_environment import HostEnvironment, HostSource, HostStep
from purerl.spaces import Discrete, Space
from purerl.types import Key, PyTree
from purerl.xla import backend

VERSION = "-v5"


def make(name: str, **parameters: Any) -> HostSource:
    """Return a source of a game.

    Args:
      name: such as "Pong-v5".
      **parameters: the fields of `AtariSettings`.

    Raises:
      InputError: if there is no such game or parameter.
    """
    games = _games()
    if name not in games:
        raise unknown("game of ale-py (or its ROM is missing)", name, names())
    if not _for_one(games[name]):
        raise InputError(f"ale/{name} is for several players, which ale-py's vector of games does not support")
    return ALESource(name, games[name], parameters)


def names() -> list[str]:
    """Return the one-player games whose ROMs are installed."""
    return [name for name, rom in _games().items() if _for_one(rom)]


def _games() -> dict[str, str]:
    """Return the ROMs by the games' names."""
    roms = importlib.import_module("ale_py.roms").get_all_rom_ids()
    return {"".join(part.capitalize() for part in rom.split("_")) + VERSION: rom for rom in roms}


def _for_one(rom: str) -> bool:
    """Return whether a ROM is a game for one player; loading another one would end the process in C++."""
    path = importlib.import_module("ale_py.roms").get_rom_path(rom)
    return importlib.import_module("ale_py").ALEInterface.isSupportedROM(path) is not None


class ALESource(HostSource):
    """An Atari game."""

    def __init__(self, name: str, rom: str, parameters: dict[str, object]):
        """Query the game's actions."""
        self.id, self._rom = f"ale/{name}", rom
        self._settings = host_common.atari_settings(parameters, self.id)
        self.parameters = dataclasses.asdict(self._settings)
        env = self._make(1, 1)
        self._actions = int(env.single_action_space.n)
        env.close()

    @property
    def observation_space(self) -> Space:
        """u8[screen_size, screen_size, frames]."""
        return host_common.atari_space(self._settings)

    @property
    def action_space(self) -> Space:
        """The joystick's positions: all 18, or those that the game uses."""
        return Discrete(n=self._actions)

    def prepare(self, observation: PyTree) -> PyTree:
        """Move the frames to the last axis."""
        return host_common.frames_last(observation)

    def open(self, num_envs: int, seed: int, parallel: bool, evaluation: bool = False) -> HostEnvironment:
        """Make a vector of games, with one thread if not parallel."""
        env = self._make(num_envs, 0 if parallel else 1)
        return _ALEBatch(env, seed, host_common.AtariRules.of(self._settings, evaluation))

    def _make(self, num_envs: int, num_threads: int) -> Any:
        settings = self._settings
        try:
            return importlib.import_module("ale_py.vector_env").AtariVectorEnv(
                self._rom,
                num_envs,
                num_threads=num_threads,
                repeat_action_probability=settings.repeat_action_probability,
                full_action_space=settings.full_action_space,
                noop_max=settings.noop_max,
                use_fire_reset=settings.use_fire_reset,
                frameskip=settings.frame_skip,
                stack_num=settings.stack_num,
                img_height=settings.screen_size,
                img_width=settings.screen_size,
                max_num_frames_per_episode=settings.max_frames,
                reward_clipping=False,  # ours, so that the score is known
            )
        except Exception as error:  # the C++ side raises many kinds
            raise InputError(f"{self.id}: ale-py cannot make this game: {error}") from None


class _ALEBatch(host_common.Followed):
    def __init__(self, env: Any, seed: int, rules: host_common.AtariRules):
        super().__init__(env, lambda: host_common.Games.begin(env.num_envs))
        self._rules = rules
        self._seed: int | None = seed

    def reset(self, key: Key | None) -> PyTree:
        observation, _ = self._vector.reset(seed=self._seed)
        self._seed = None  # a second reset continues the same random numbers
        self._followed = self._begin()
        return host_common.filled(observation, self._followed.age)

    def _follow(self, xp: ModuleType, followed: PyTree, values: tuple[PyTree, ...]) -> tuple[PyTree, HostStep]:
        return self._rules.step(xp, followed, *_told(values))

    def _xla(self) -> tuple[Any, Any] | None:
        if not backend.shares_host():
            return None
        handle, _, step = self._vector.xla()
        return handle, step


def _told(values: tuple[PyTree, ...]) -> tuple[PyTree, tuple[PyTree, PyTree, PyTree, PyTree]]:
    observation, reward, game_over, truncated, info = values
    return observation, (reward, game_over, truncated, info["lives"])
