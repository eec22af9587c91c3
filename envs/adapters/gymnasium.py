"""Any registered Gymnasium environment, as `gymnasium/NAME`, by Gymnasium's own vector environments.

Serially they are stepped one after the other, otherwise in a process each.
"""

import functools
import os
import signal
import warnings
from typing import Any

import gymnasium
import jax
import numpy as np

from purerl.envs.adapters import host_common
from purerl.errors import InputError, unknown
from purerl.host_environment import HostEnvironment, HostSource, HostStep
from purerl.spaces import Space


def make(name: str, **parameters: Any) -> HostSource:
    """Return a source of Gymnasium's environment `name`; `parameters` are those of `gymnasium.make`.

    Raises:
      InputError: for an unknown id or parameter.
    """
    if name not in gymnasium.registry and ":" not in name:
        raise unknown("environment of gymnasium", name, names())
    return GymnasiumSource(name, parameters)


def names() -> list[str]:
    """Return the registered ids."""
    return sorted(gymnasium.registry)


class GymnasiumSource(HostSource):
    """A registered environment."""

    def __init__(self, name: str, parameters: dict[str, Any]):
        """Make one to see its spaces."""
        self.id, self._name, self.parameters = f"gymnasium/{name}", name, dict(parameters)
        try:
            env = gymnasium.make(name, **parameters)
        except Exception as error:  # whatever a third party's constructor raises
            raise InputError(f"{self.id} cannot be made: {type(error).__name__}: {error}") from None
        self._observation_space = host_common.from_gymnasium(env.observation_space, self.id)
        self._action_space = host_common.from_gymnasium(env.action_space, self.id)
        env.close()

    @property
    def observation_space(self) -> Space:
        """That of the environment, with 32-bit numbers."""
        return self._observation_space

    @property
    def action_space(self) -> Space:
        """That of the environment."""
        return self._action_space

    def prepare(self, observation: Any) -> Any:
        """Give observations the space's dtype."""
        return jax.tree.map(lambda x, s: x.astype(s.dtype), observation, self._observation_space.struct)

    def open(self, num_envs: int, seed: int, parallel: bool, evaluation: bool = False) -> HostEnvironment:
        """Make a vector of them."""
        makers = [functools.partial(_numbered, self._name, self.parameters, i, os.getpid()) for i in range(num_envs)]
        if parallel and num_envs > 1:
            # What a process raises is told in a line by who waits for it. Forking where JAX's threads run may hang.
            warnings.filterwarnings("ignore", r"(?s).*(Worker-\d|Raising the last exception)", UserWarning)
            vector: Any = gymnasium.vector.AsyncVectorEnv(makers, context="forkserver")
        else:
            vector = gymnasium.vector.SyncVectorEnv(makers)
        return _Batch(vector, num_envs, seed)


class _Numbered(gymnasium.Wrapper):
    """Notes in an exception which environment raised it."""

    def __init__(self, env: Any, env_id: int):
        super().__init__(env)
        self.env_id = env_id

    def step(self, action: Any) -> Any:
        try:
            return self.env.step(action)
        except Exception as error:
            error.env_id = self.env_id  # type: ignore[attr-defined]
            raise


def _numbered(name: str, parameters: dict[str, Any], env_id: int, opened_by: int) -> Any:
    if os.getpid() != opened_by:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches all; the run decides what it means
    return _Numbered(gymnasium.make(name, **parameters), env_id)


class _Batch(host_common.Followed):
    def __init__(self, vector: Any, num_envs: int, seed: int):
        super().__init__(vector, lambda: np.zeros(num_envs, np.bool_))
        self._seed: int | None = seed

    def reset(self, key: Any) -> Any:
        observation, _ = self._vector.reset(seed=self._seed)
        self._seed = None  # a second reset goes on with the same random numbers
        self._followed = self._begin()
        return observation

    def step(self, action: np.ndarray, keys: Any, t: int) -> HostStep:
        try:
            return super().step(action, keys, t)
        except Exception as error:  # that of a process comes wrapped in another of its kind
            inner = error.args[0] if error.args else None
            raise (inner if isinstance(inner, Exception) else error) from None

    def close(self) -> None:
        processes = isinstance(self._vector, gymnasium.vector.AsyncVectorEnv)
        self._vector.close(**{"terminate": True} if processes else {})

    def abandon(self) -> None:
        if isinstance(self._vector, gymnasium.vector.AsyncVectorEnv):
            self._vector.closed = True  # or it would wait for the step when it is collected
            for process in self._vector.processes:
                process.kill()
