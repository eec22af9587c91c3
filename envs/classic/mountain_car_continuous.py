"""MountainCarContinuous-v0: drive a weak car up a hill with a continuous push, spending as little as possible."""

import jax.numpy as jnp

from purerl.envs.classic.mountain_car import Car, MountainCarState
from purerl.spaces import Box
from purerl.types import Array, Key, TimeStep, number, pytree


@pytree
class MountainCarContinuous(Car):
    """Reward `goal_reward` at the goal, where it ends, minus 0.1 action^2 per step. No return is above `goal_reward`.

    Observation f32[2]: position, velocity. Action f32[1]: the push, from -1 to 1. The height at position x is sin(3 x).

    Source: Moore (1990), as `MountainCarContinuous-v0` of Gymnasium, whose dynamics these are: an action outside the
    bounds pushes as the nearest bound does, but is paid for as it is.
    """

    power: float = number(default=0.0015, doc="change of velocity per step of a full push")
    goal_position: float = number(default=0.45, doc="position from which the goal counts as reached")
    goal_reward: float = number(default=100.0, doc="reward for reaching the goal")
    time_limit: int = number(default=999, doc="steps after which an episode is truncated", at_least=1)

    def step(self, key: Key, state: MountainCarState, action: Array) -> tuple[MountainCarState, TimeStep]:
        """Accelerate, then move; the wall on the left stops the car."""
        state, terminated, time_up = self._advance(state, self.power * jnp.clip(action[0], -1.0, 1.0))
        reward = jnp.where(terminated, self.goal_reward, 0.0) - 0.1 * action[0] ** 2
        return state, TimeStep.transition(self._observe(state), reward, terminated=terminated, time_up=time_up)

    @property
    def action_space(self) -> Box:
        """f32[1], the push."""
        return Box(low=-1.0, high=1.0, shape=(1,))
