"""Pools with dm_env's conventions. Imported when the first one is made, because it needs dm_env."""

from typing import Any

import dm_env

from purerl.pool.base import Pool
from purerl.pool.config import PoolSpec
from purerl.pool.engine import PoolStep
from purerl.pool.spaces import to_namedtuple
from purerl.types import PyTree


class DMPool(Pool, dm_env.Environment):
    """`reset()` and `step(action)` return a `dm_env.TimeStep` of batches.

    `step_type` is 0, 1, 2 for first, middle, last. `discount` is 0 if the task ended. If time ran out it is 1, so that
    the return continues with the value of the final observation, or 0 with `strict_envpool`.
    """

    def __init__(self, spec: PoolSpec):
        Pool.__init__(self, spec)
        self.spec = spec

    def observation_spec(self) -> Any:
        """Return the specs of a time step's `observation`."""
        return self.spec.observation_spec()

    def action_spec(self) -> Any:
        """Return the spec of one environment's action."""
        return self.spec.action_spec()

    def reset(self, env_id: Any = None) -> Any:
        """Start an episode in these environments, or in all."""
        return Pool.reset(self, env_id)

    def step(self, action: PyTree, env_id: Any = None) -> Any:
        """Send and receive."""
        return Pool.step(self, action, env_id)

    def _present(self, ids: object, outputs: PoolStep, reset: bool) -> dm_env.TimeStep:
        seen = {"env_id": ids, "players": {"env_id": ids}, "obs": outputs.observation, **outputs.info}
        done = outputs.terminated | outputs.truncated
        step_type = 1 - outputs.started.astype("int32") + done.astype("int32")
        final = done if self._settings.strict_envpool else outputs.terminated
        return dm_env.TimeStep(
            step_type=step_type,
            reward=outputs.reward,
            discount=1 - final.astype("float32"),
            observation=to_namedtuple("State", seen),
        )
