"""Reacher: move the tip of a two-link arm to a target by torques on its joints."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import GRAY, GREEN, INK, ORANGE, Canvas
from purerl.envs.trigonometry import sincos, wrap
from purerl.spaces import Box
from purerl.types import Array, Environment, Key, TimeStep, number, pytree


class ReacherState(NamedTuple):
    """The arm, on a horizontal plane, and the target."""

    angle_1: Array  # f32[], of the first link from the x axis, radians, -pi .. pi
    angle_2: Array  # f32[], of the second link from the first, radians, -pi .. pi
    velocity_1: Array  # f32[], radians per second
    velocity_2: Array  # f32[], radians per second
    target_x: Array  # f32[], meters
    target_y: Array  # f32[], meters
    time: Array  # i32[], steps taken


@pytree
class Reacher(Environment):
    """Reward -(distance of the tip to the target + action_cost |action|^2), computed after the step.

    Two uniform rods on a plane, with joint angles q, inertia matrix M, Coriolis terms c and damping:

      M(q) q'' + c(q, q') + damping q' = max_torque action

    Never ends by itself. No return is above 0.

    Observation f32[10]: cosine and sine of both angles, both angular velocities, the target, and from the target to
    the tip. Action f32[2]: the torques, in parts of `max_torque`, from -1 to 1.

    Source: the task of `Reacher` in Gymnasium, with the rigid-body equations written out instead of MuJoCo.
    """

    length_1: float = number(default=0.5, doc="meters", above=0)
    length_2: float = number(default=0.5, doc="meters", above=0)
    mass_1: float = number(default=1.0, doc="kilograms", above=0)
    mass_2: float = number(default=1.0, doc="kilograms", above=0)
    damping: float = number(default=0.2, doc="newton meters per radian per second, of each joint", at_least=0)
    max_torque: float = number(default=0.5, doc="newton meters, of each joint")
    action_cost: float = number(default=0.05, doc="cost of a full torque on one joint", at_least=0)
    target_range: float = number(default=0.6, doc="meters: half the side of the square of the targets", at_least=0)
    time_step: float = number(default=0.05, doc="seconds between two actions", above=0)
    time_limit: int = number(default=100, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[ReacherState, Array]:
        """Sample the target uniformly from its square and both angles from -pi .. pi; the arm is at rest."""
        start = jax.random.uniform(key, (4,), jnp.float32, -1.0, 1.0)
        target_x, target_y = self.target_range * start[2], self.target_range * start[3]
        rest = jnp.float32(0)
        state = ReacherState(
            angle_1=start[0] * jnp.pi,
            angle_2=start[1] * jnp.pi,
            velocity_1=rest,
            velocity_2=rest,
            target_x=target_x,
            target_y=target_y,
            time=jnp.int32(0),
        )
        return state, self._observe(state)[0]

    def step(self, key: Key, state: ReacherState, action: Array) -> tuple[ReacherState, TimeStep]:
        """Integrate the equations of motion by one semi-implicit Euler step."""
        action = jnp.clip(action, -1.0, 1.0)
        acceleration_1, acceleration_2 = self._accelerations(state, action)
        velocity_1 = state.velocity_1 + self.time_step * acceleration_1
        velocity_2 = state.velocity_2 + self.time_step * acceleration_2
        state = state._replace(
            angle_1=wrap(state.angle_1 + self.time_step * velocity_1),
            angle_2=wrap(state.angle_2 + self.time_step * velocity_2),
            velocity_1=velocity_1,
            velocity_2=velocity_2,
            time=state.time + 1,
        )
        observation, distance = self._observe(state)
        reward = -distance - self.action_cost * (action[0] ** 2 + action[1] ** 2)
        return state, TimeStep.transition(observation, reward, time_up=state.time >= self.time_limit)

    def _accelerations(self, state: ReacherState, action: Array) -> tuple[Array, Array]:
        """Solve the equations of motion for the accelerations of both joints."""
        sine, cosine = sincos(state.angle_2)
        coupling = 0.5 * self.mass_2 * self.length_1 * self.length_2
        m_22 = self.mass_2 * self.length_2**2 / 3
        m_12 = m_22 + coupling * cosine
        m_11 = m_12 + coupling * cosine + self.mass_1 * self.length_1**2 / 3 + self.mass_2 * self.length_1**2
        coriolis_1 = -coupling * sine * state.velocity_2 * (2 * state.velocity_1 + state.velocity_2)
        coriolis_2 = coupling * sine * state.velocity_1**2
        torque_1 = self.max_torque * action[0] - self.damping * state.velocity_1 - coriolis_1
        torque_2 = self.max_torque * action[1] - self.damping * state.velocity_2 - coriolis_2
        determinant = m_11 * m_22 - m_12**2
        return (m_22 * torque_1 - m_12 * torque_2) / determinant, (m_11 * torque_2 - m_12 * torque_1) / determinant

    def _observe(self, state: ReacherState) -> tuple[Array, Array]:
        """Return the observation and the distance of the tip to the target."""
        sine_1, cosine_1 = sincos(state.angle_1)
        sine_2, cosine_2 = sincos(state.angle_2)
        cosine_sum, sine_sum = cosine_1 * cosine_2 - sine_1 * sine_2, sine_1 * cosine_2 + cosine_1 * sine_2
        off_x = self.length_1 * cosine_1 + self.length_2 * cosine_sum - state.target_x
        off_y = self.length_1 * sine_1 + self.length_2 * sine_sum - state.target_y
        angles = [cosine_1, sine_1, cosine_2, sine_2, state.velocity_1, state.velocity_2]
        return jnp.stack([*angles, state.target_x, state.target_y, off_x, off_y]), jnp.sqrt(off_x**2 + off_y**2 + 1e-12)

    def render(self, state: ReacherState) -> np.ndarray:
        """Draw the arm from above and the target: u8[H, W, 3]."""
        length_1, length_2 = float(self.length_1), float(self.length_2)
        first, second = float(state.angle_1), float(state.angle_1) + float(state.angle_2)
        elbow = (length_1 * np.cos(first), length_1 * np.sin(first))
        tip = (elbow[0] + length_2 * np.cos(second), elbow[1] + length_2 * np.sin(second))
        reach = 1.1 * (length_1 + length_2)
        canvas = Canvas((-reach, reach), (-reach, reach), width=320)
        canvas.circle((float(state.target_x), float(state.target_y)), 0.05 * reach, GREEN)
        canvas.line([(0, 0), elbow], INK, 0.07 * reach)
        canvas.line([elbow, tip], GRAY, 0.07 * reach)
        canvas.circle(tip, 0.03 * reach, ORANGE)
        return canvas.pixels()

    @property
    def observation_space(self) -> Box:
        """f32[10]."""
        return Box(low=-jnp.inf, high=jnp.inf, shape=(10,))

    @property
    def action_space(self) -> Box:
        """f32[2], the torques."""
        return Box(low=-1.0, high=1.0, shape=(2,))
