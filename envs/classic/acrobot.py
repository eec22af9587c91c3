"""Acrobot-v1: swing a two-link arm above a height by a torque on the joint between the links."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import BLUE, GREEN, SKY, WHITE, Canvas
from purerl.envs.trigonometry import sincos, wrap
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree

_Motion = tuple[Array, ...]  # angle 1, angle 2, angular velocity 1, angular velocity 2


class AcrobotState(NamedTuple):
    """The two links."""

    angle_1: Array  # f32[], of the first link, radians from hanging down, -pi .. pi
    angle_2: Array  # f32[], of the second link, relative to the first, -pi .. pi
    velocity_1: Array  # f32[], radians per second
    velocity_2: Array  # f32[], radians per second
    time: Array  # i32[], steps taken


@pytree
class Acrobot(Environment):
    """Reward -1 per step and 0 with the last; ends when the tip is above `target_height`. The best return is below 0.

    Observation f32[6]: cosine and sine of both angles, both angular velocities. Action: torque of -1, 0 or 1 `torque`.

    Source: Sutton (1996), with the equations of Sutton and Barto (2018), as `Acrobot-v1` of Gymnasium, whose dynamics
    these are.
    """

    gravity: float = number(default=9.8, doc="meters per second squared")
    length_1: float = number(default=1.0, doc="meters, of the first link")
    length_2: float = number(default=1.0, doc="meters, of the second link; only the height of the tip depends on it")
    mass_1: float = number(default=1.0, doc="kilograms")
    mass_2: float = number(default=1.0, doc="kilograms")
    center_1: float = number(default=0.5, doc="meters from the first joint to the first link's center of mass")
    center_2: float = number(default=0.5, doc="meters from the second joint to the second link's center of mass")
    inertia: float = number(default=1.0, doc="moment of inertia of each link, kilogram square meters")
    torque: float = number(default=1.0, doc="newton meters of one action")
    max_velocity_1: float = number(default=4 * jnp.pi, doc="radians per second")
    max_velocity_2: float = number(default=9 * jnp.pi, doc="radians per second")
    target_height: float = number(default=1.0, doc="meters above the first joint")
    time_step: float = number(default=0.2, doc="seconds between two actions")
    time_limit: int = number(default=500, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[AcrobotState, Array]:
        """Sample all four coordinates uniformly from -0.1 .. 0.1."""
        start = jax.random.uniform(key, (4,), jnp.float32, -0.1, 0.1)
        state = AcrobotState(
            angle_1=start[0], angle_2=start[1], velocity_1=start[2], velocity_2=start[3], time=jnp.int32(0)
        )
        return state, self._observe(state)[0]

    def step(self, key: Key, state: AcrobotState, action: Array) -> tuple[AcrobotState, TimeStep]:
        """Integrate the equations of motion by one classical Runge-Kutta step of fourth order."""
        torque = self.torque * (action - 1).astype(jnp.float32)
        start, half = state[:4], 0.5 * self.time_step
        k1 = self._derivative(start, torque)
        k2 = self._derivative(_advance(start, half, k1), torque)
        k3 = self._derivative(_advance(start, half, k2), torque)
        k4 = self._derivative(_advance(start, self.time_step, k3), torque)
        slope = tuple(a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True))
        angle_1, angle_2, velocity_1, velocity_2 = _advance(start, self.time_step / 6, slope)
        state = AcrobotState(
            angle_1=wrap(angle_1),
            angle_2=wrap(angle_2),
            velocity_1=jnp.clip(velocity_1, -self.max_velocity_1, self.max_velocity_1),
            velocity_2=jnp.clip(velocity_2, -self.max_velocity_2, self.max_velocity_2),
            time=state.time + 1,
        )
        observation, height = self._observe(state)
        terminated = height > self.target_height
        reward, time_up = jnp.where(terminated, 0.0, -1.0), state.time >= self.time_limit
        return state, TimeStep.transition(observation, reward, terminated=terminated, time_up=time_up)

    def _derivative(self, motion: _Motion, torque: Array) -> _Motion:
        """Return the time derivative of both angles and both angular velocities."""
        angle_1, angle_2, velocity_1, velocity_2 = motion
        sine_1, cosine_1 = sincos(angle_1)
        sine_2, cosine_2 = sincos(angle_2)
        coupling = self.mass_2 * self.length_1 * self.center_2
        own_2 = self.mass_2 * self.center_2**2 + self.inertia
        own_1 = self.mass_1 * self.center_1**2 + self.mass_2 * self.length_1**2 + self.inertia
        d1 = own_1 + own_2 + 2 * coupling * cosine_2
        d2 = own_2 + coupling * cosine_2
        phi2 = self.mass_2 * self.center_2 * self.gravity * (sine_1 * cosine_2 + cosine_1 * sine_2)
        weight_1 = (self.mass_1 * self.center_1 + self.mass_2 * self.length_1) * self.gravity
        phi1 = phi2 + weight_1 * sine_1 - coupling * sine_2 * velocity_2 * (velocity_2 + 2 * velocity_1)
        ratio = d2 / d1
        acceleration_2 = (torque + ratio * phi1 - coupling * velocity_1**2 * sine_2 - phi2) / (own_2 - d2 * ratio)
        acceleration_1 = -ratio * acceleration_2 - phi1 / d1
        return velocity_1, velocity_2, acceleration_1, acceleration_2

    def _observe(self, state: AcrobotState) -> tuple[Array, Array]:
        """Return the observation and the height of the tip."""
        sine_1, cosine_1 = sincos(state.angle_1)
        sine_2, cosine_2 = sincos(state.angle_2)
        height = -self.length_1 * cosine_1 - self.length_2 * (cosine_1 * cosine_2 - sine_1 * sine_2)
        return jnp.stack([cosine_1, sine_1, cosine_2, sine_2, state.velocity_1, state.velocity_2]), height

    def render(self, state: AcrobotState) -> np.ndarray:
        """Draw both links and the height to reach: u8[H, W, 3]."""
        length_1, length_2 = float(self.length_1), float(self.length_2)
        first, second = float(state.angle_1), float(state.angle_1) + float(state.angle_2)
        elbow = (length_1 * np.sin(first), -length_1 * np.cos(first))
        tip = (elbow[0] + length_2 * np.sin(second), elbow[1] - length_2 * np.cos(second))
        reach = 1.15 * (length_1 + length_2)
        canvas = Canvas((-reach, reach), (-reach, reach), width=500)
        canvas.line([(-reach, float(self.target_height)), (reach, float(self.target_height))], GREEN, 0.03)
        canvas.line([(0, 0), elbow], BLUE, 0.16)
        canvas.line([elbow, tip], SKY, 0.16)
        for joint in ((0, 0), elbow):
            canvas.circle(joint, 0.06, WHITE)
        return canvas.pixels()

    @property
    def observation_space(self) -> Box:
        """f32[6]."""
        high = jnp.stack([jnp.asarray(x, jnp.float32) for x in (1, 1, 1, 1, self.max_velocity_1, self.max_velocity_2)])
        return Box(low=-high, high=high, shape=(6,))

    @property
    def action_space(self) -> Discrete:
        """The torque: 0 is -1, 1 is 0, 2 is +1."""
        return Discrete(n=3)


def _advance(motion: _Motion, time: float, slope: _Motion) -> _Motion:
    return tuple(x + time * dx for x, dx in zip(motion, slope, strict=True))
