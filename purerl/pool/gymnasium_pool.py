"""Pools with Gymnasium's conventions. Imported when the first one is made, because it needs Gymnasium."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from purerl.errors import InputError
from purerl.pool.base import Pool, info_of
from purerl.pool.config import PoolSpec
from purerl.pool.engine import PoolStep
from purerl.types import PyTree


class GymnasiumPool(Pool, VectorEnv, gymnasium.Env):  # pyright: ignore[reportIncompatibleMethodOverride]
    """`reset() -> (observation, info)`, `step(action) -> (observation, reward, terminated, truncated, info)`.

    As with EnvPool, `observation_space` and `action_space` describe one environment, and the pool is a
    `gymnasium.Env` as well as a `VectorEnv`: a `gymnasium.Wrapper` takes it, too.
    """

    metadata = {"render_modes": ["rgb_array"], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    is_vector_env = True

    def __init__(self, spec: PoolSpec):
        Pool.__init__(self, spec)
        self.spec = spec  # type: ignore[assignment]  # EnvPool's, not Gymnasium's
        self.num_envs, self.render_mode = len(self), spec.settings.render_mode
        self.single_observation_space = self.observation_space = spec.observation_space
        self.single_action_space = self.action_space = spec.action_space

    def reset(self, env_id: Any = None, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Start episodes.

        Args:
          env_id: i32[K], the environments to reset; None: all of them.
          seed: start over from this seed, or list of seeds, as if the pool had just been made.
          options: {"reset_mask": bool[num_envs]}, another way to select environments.

        Raises:
          InputError: for other options, or a mask that selects nothing.
        """
        if seed is not None:
            given = [seed + i for i in range(len(self))] if isinstance(seed, int | np.integer) else list(seed)
            if len(given) != len(self):
                raise InputError(f"seed lists {len(given)} numbers for {len(self)} environments")
            self._restart(np.asarray(given, np.int64))
        if options:
            env_id = self._masked(options, env_id)
        return Pool.reset(self, env_id)

    def _masked(self, options: Mapping[str, object], env_id: object) -> np.ndarray:
        if set(options) != {"reset_mask"} or env_id is not None:
            raise InputError(
                f"options are {sorted(options)}; allowed: reset_mask, which cannot be combined with env_id"
            )
        mask = np.asarray(options["reset_mask"], np.bool_)
        if mask.shape != (len(self),) or not mask.any():
            raise InputError(f"reset_mask must be bool[{len(self)}] with one True at least")
        return np.flatnonzero(mask).astype(np.int32)

    def step(self, action: PyTree, env_id: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Send and receive."""
        return Pool.step(self, action, env_id)

    def render(self, env_ids: object = None, camera_id: int | None = None) -> Any:
        """Return pictures, u8[K, height, width, 3]; see `Pool.render`."""
        return Pool.render(self, env_ids, camera_id)

    def _present(self, ids: object, outputs: PoolStep, reset: bool) -> Any:
        info = info_of(ids, outputs)
        if reset:
            return outputs.observation, info
        return outputs.observation, outputs.reward, outputs.terminated, outputs.truncated, info


class VectorPool(GymnasiumPool):
    """A plain `gymnasium.vector.VectorEnv`: `observation_space` and `action_space` describe the whole batch."""

    def __init__(self, spec: PoolSpec):
        super().__init__(spec)
        self.observation_space = batch_space(self.single_observation_space, len(self))
        self.action_space = batch_space(self.single_action_space, len(self))
