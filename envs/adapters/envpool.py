"""EnvPool's environments, as `envpool/NAME`: Atari, MuJoCo, classic control and more, stepped by C++ threads.

Source: Weng et al. (2022), arXiv:2206.10558. EnvPool 1.2 on Linux: pip install 'purerl[envpool]'.
"""

import contextlib
import dataclasses
import importlib
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from purerl.envs.adapters import host_common
from purerl.errors import InputError, unknown
from purerl.host_environment import HostEnvironment, HostSource, HostStep
from purerl.spaces import Space
from purerl.types import Key, PyTree
from purerl.xla import backend


def make(name: str, **parameters: Any) -> HostSource:
    """Return a source of EnvPool's environment `name`.

    Args:
      name: EnvPool's id.
      **parameters: for Atari, fields of `AtariSettings`; otherwise whatever EnvPool's `make` accepts.

    Raises:
      InputError: for an unknown id or parameter.
    """
    if name not in names():
        raise unknown("environment of envpool", name, names())
    return EnvPoolSource(name, parameters)


def names() -> list[str]:
    """Return EnvPool's ids."""
    return _envpool().list_all_envs()


class EnvPoolSource(HostSource):
    """An environment of EnvPool."""

    def __init__(self, name: str, parameters: dict[str, object]):
        """Read the environment's description from EnvPool."""
        self.id, self._name = f"envpool/{name}", name
        is_atari = "episodic_life" in self._spec({}).config._fields
        self._atari = host_common.atari_settings(parameters, self.id) if is_atari else None
        self.parameters = dataclasses.asdict(self._atari) if self._atari else dict(parameters)
        spec = self._spec(self._options())
        with _quiet():
            action_space, observation_space = spec.gymnasium_action_space, spec.gymnasium_observation_space
        self._observed, self._acted = observation_space, action_space
        self._action_space = host_common.from_gymnasium(action_space, self.id)
        self._observation_space = (
            host_common.atari_space(self._atari)
            if self._atari
            else host_common.from_gymnasium(observation_space, self.id)
        )

    @property
    def observation_space(self) -> Space:
        """EnvPool's observation space; for Atari u8[screen_size, screen_size, frames]."""
        return self._observation_space

    @property
    def action_space(self) -> Space:
        """EnvPool's action space."""
        return self._action_space

    def prepare(self, observation: PyTree) -> PyTree:
        """Move Atari's frames to the last axis; give other observations the space's dtype."""
        if self._atari:
            return host_common.frames_last(observation)
        return host_common.received(self._observed, observation)

    def sent(self, action: PyTree) -> PyTree:
        """Convert actions to EnvPool's dtype, inside its own bounds."""
        return host_common.sent(self._acted, action)

    def open(self, num_envs: int, seed: int, parallel: bool, evaluation: bool = False) -> HostEnvironment:
        """Make a pool, with one thread if not parallel."""
        with _quiet():
            pool = _envpool().make_gymnasium(
                self._name,
                num_envs=num_envs,
                seed=seed,
                num_threads=0 if parallel else 1,
                **self._options(),
            )
            assert pool.observation_space is not None  # kept from now on: asking for it warns
        if self._atari is None:
            return _EnvPoolBatch(pool, lambda: np.zeros(num_envs, np.bool_), self.sent)
        return _Atari(pool, num_envs, host_common.AtariRules.of(self._atari, evaluation))

    def _options(self) -> dict[str, object]:
        settings = self._atari
        if settings is None:
            return self.parameters
        return {
            "repeat_action_probability": settings.repeat_action_probability,
            "full_action_space": settings.full_action_space,
            "noop_max": max(settings.noop_max, 1),
            "use_fire_reset": settings.use_fire_reset,
            "frame_skip": settings.frame_skip,
            "stack_num": settings.stack_num,
            "img_height": settings.screen_size,
            "img_width": settings.screen_size,
            "max_episode_steps": -(-settings.max_frames // settings.frame_skip),
            "reward_clip": False,  # ours, so that the score is known
        }

    def _spec(self, options: Mapping[str, object]) -> Any:
        try:
            with _quiet():
                return _envpool().make_spec(self._name, **options)
        except (TypeError, ValueError, AssertionError) as error:
            raise InputError(f"{self.id}: EnvPool rejects these parameters: {error or 'out of range'}") from None
        except (ImportError, RuntimeError) as error:  # such as for a library of the system that is missing
            raise InputError(f"{self.id} cannot be made: {error}") from None


class _EnvPoolBatch(host_common.Followed):
    def reset(self, key: Key | None) -> PyTree:
        self._followed = self._begin()
        return self._vector.reset()[0]

    def _xla(self) -> tuple[Any, Any] | None:
        """Return (handle, step); None for 64-bit numbers, which EnvPool would write into JAX's 32, and off the CPU."""
        spec = self._vector.spec
        specs = [*spec.state_array_spec.values(), *spec.action_array_spec.values()]
        wide = any(np.dtype(part.dtype).itemsize == 8 for part in specs)
        if wide or not backend.shares_host():
            return None
        handle, _, _, step = self._vector.xla()
        return handle, step


class _Atari(_EnvPoolBatch):
    def __init__(self, pool: Any, num_envs: int, rules: host_common.AtariRules):
        super().__init__(pool, lambda: host_common.Games.begin(num_envs))
        self._rules = rules

    def reset(self, key: Key | None) -> PyTree:
        return host_common.filled(super().reset(key), self._followed.age)

    def _follow(self, xp: ModuleType, followed: PyTree, values: tuple[PyTree, ...]) -> tuple[PyTree, HostStep]:
        return self._rules.step(xp, followed, *_told(values))


def _told(values: tuple[PyTree, ...]) -> tuple[PyTree, tuple[PyTree, PyTree, PyTree, PyTree]]:
    observation, reward, _, truncated, info = values
    game_over = info["terminated"].astype(np.bool_)  # correct even on the step of the limit
    return observation, (reward, game_over, truncated, info["lives"])


def _envpool() -> ModuleType:
    return importlib.import_module("envpool")


@contextlib.contextmanager
def _quiet():
    """Suppress Gymnasium's warnings about the precision of EnvPool's bounds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
