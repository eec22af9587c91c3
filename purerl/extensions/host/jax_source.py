"""A JAX environment as a host environment: the host loop then gives bit-identical results to the compiled loop."""

from typing import Any

import jax
import numpy as np
from jax.stages import Wrapped

from purerl.host_environment import HostEnvironment, HostSource, HostStep
from purerl.loop.vector import VectorEnvironment, VectorState, vectorize
from purerl.prng import convert
from purerl.spaces import Space
from purerl.types import Array, Config, Environment, Key, PyTree, TimeStep
from purerl.xla import backend


class JaxSource(HostSource):
    """A JAX environment as a source of host environments."""

    def __init__(self, name: str, env: Environment, config: Config):
        """Use `env` under a name; the config chooses how environments reset."""
        self.id, self.env, self._config = name, env, config
        self.parameters: dict[str, Any] = {}
        self._vectors: dict[int, tuple[VectorEnvironment, Wrapped, Wrapped]] = {}

    @property
    def stage(self) -> Environment:
        """The environment itself, for rendering."""
        return self.env

    @property
    def observation_space(self) -> Space:
        """The environment's observation space."""
        return self.env.observation_space

    @property
    def action_space(self) -> Space:
        """The environment's action space."""
        return self.env.action_space

    def open(self, num_envs: int, seed: int, parallel: bool, evaluation: bool = False) -> HostEnvironment:
        """Make environments; they use the run's keys and ignore the seed."""
        return _JaxEnvironment(*self._programs(num_envs)[1:])

    def snapshot_struct(self, num_envs: int) -> PyTree:
        """Return the shapes of (state, observation)."""
        vector = self._programs(num_envs)[0]
        key = jax.eval_shape(lambda: convert(jax.random.key(0), self._config.prng))
        return jax.eval_shape(vector.reset, key)

    def _programs(self, num_envs: int) -> tuple[VectorEnvironment, Wrapped, Wrapped]:
        if num_envs not in self._vectors:
            vector = vectorize(
                self.env, num_envs, self._config.reset_policy, self._config.pool_size, prng=self._config.prng
            )

            def step(state: PyTree, action: PyTree, keys: Key, t: Array) -> tuple[VectorState, PyTree, TimeStep]:
                return vector.step(keys[t, 1], state, action)

            self._vectors[num_envs] = vector, backend.jit(vector.reset), backend.jit(step)
        return self._vectors[num_envs]


class _JaxEnvironment(HostEnvironment):
    """B environments; the step that ends an episode also resets it."""

    def __init__(self, reset: Wrapped, step: Wrapped):
        self._reset, self._step = reset, step
        self._saved: Any = ()

    def reset(self, key: Key | None) -> PyTree:
        self._saved = self._reset(key)
        return self._saved[1]

    def step(self, action: np.ndarray, keys: Key, t: int) -> HostStep:
        state, observation, timestep = self._step(self._saved[0], action, keys, np.int32(t))
        self._saved = state, observation
        reward, terminated, truncated = jax.device_get((timestep.reward, timestep.terminated, timestep.truncated))
        return HostStep(
            observation=observation,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            mask=None,
            next_observation=timestep.observation,
            score=reward,
            over=terminated | truncated,
        )

    def snapshot(self) -> PyTree:
        return self._saved

    def restore(self, saved: PyTree) -> PyTree:
        self._saved = saved
        return saved[1]
