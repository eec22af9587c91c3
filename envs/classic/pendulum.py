"""Pendulum-v1: swing a pendulum up and keep it upright with a torque too weak to lift it at once."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import INK, RED, Canvas
from purerl.envs.trigonometry import sincos, wrap
from purerl.spaces import Box
from purerl.types import Array, Environment, Key, TimeStep, number, pytree


class PendulumState(NamedTuple):
    """The pendulum."""

    angle: Array  # f32[], radians from upright, -pi .. pi
    angular_velocity: Array  # f32[], radians per second
    time: Array  # i32[], steps taken


@pytree
class Pendulum(Environment):
    """Reward -(angle^2 + 0.1 angular_velocity^2 + 0.001 torque^2) per step; never ends by itself. No return is above 0.

    Observation f32[3]: cosine and sine of the angle, angular velocity. Action f32[1]: the torque in newton meters.

    Source: `Pendulum-v1` of Gymnasium, whose dynamics these are; there the angle is not wrapped, here it is, so that an
    observation does not lose digits with every turn.
    """

    gravity: float = number(default=10.0, doc="meters per second squared")
    mass: float = number(default=1.0, doc="kilograms")
    length: float = number(default=1.0, doc="meters")
    max_torque: float = number(default=2.0, doc="newton meters")
    max_velocity: float = number(default=8.0, doc="radians per second")
    time_step: float = number(default=0.05, doc="seconds between two actions")
    time_limit: int = number(default=200, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[PendulumState, Array]:
        """Sample the angle uniformly from -pi .. pi and the angular velocity from -1 .. 1."""
        start = jax.random.uniform(key, (2,), jnp.float32, -1.0, 1.0)
        state = PendulumState(angle=start[0] * jnp.pi, angular_velocity=start[1], time=jnp.int32(0))
        return state, self._observe(state)

    def step(self, key: Key, state: PendulumState, action: Array) -> tuple[PendulumState, TimeStep]:
        """Integrate the equation of motion by one semi-implicit Euler step."""
        torque = jnp.clip(action[0], -self.max_torque, self.max_torque)
        cost = state.angle**2 + 0.1 * state.angular_velocity**2 + 0.001 * torque**2
        gravity = 1.5 * self.gravity / self.length * sincos(state.angle)[0]
        acceleration = gravity + 3.0 / (self.mass * self.length**2) * torque
        velocity = state.angular_velocity + self.time_step * acceleration
        velocity = jnp.clip(velocity, -self.max_velocity, self.max_velocity)
        state = PendulumState(
            angle=wrap(state.angle + self.time_step * velocity), angular_velocity=velocity, time=state.time + 1
        )
        return state, TimeStep.transition(self._observe(state), -cost, time_up=state.time >= self.time_limit)

    def _observe(self, state: PendulumState) -> Array:
        sine, cosine = sincos(state.angle)
        return jnp.stack([cosine, sine, state.angular_velocity])

    def render(self, state: PendulumState) -> np.ndarray:
        """Draw the pendulum, which leans to the left at positive angles: u8[H, W, 3]."""
        length = float(self.length)
        tip = (-length * np.sin(float(state.angle)), length * np.cos(float(state.angle)))
        canvas = Canvas((-2.2 * length, 2.2 * length), (-2.2 * length, 2.2 * length), width=500)
        canvas.line([(0, 0), tip], RED, 0.2 * length)
        canvas.circle((0, 0), 0.05 * length, INK)
        return canvas.pixels()

    @property
    def observation_space(self) -> Box:
        """f32[3]."""
        high = jnp.stack([jnp.asarray(x, jnp.float32) for x in (1, 1, self.max_velocity)])
        return Box(low=-high, high=high, shape=(3,))

    @property
    def action_space(self) -> Box:
        """f32[1], the torque."""
        return Box(low=-jnp.asarray(self.max_torque, jnp.float32), high=self.max_torque, shape=(1,))
