"""CartPole-v1: keep a pole upright on a cart by pushing left or right."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import INK, ORANGE, SILVER, WHITE, Canvas
from purerl.envs.trigonometry import sincos
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree


class CartPoleState(NamedTuple):
    """The cart and the pole."""

    position: Array  # f32[], of the cart, meters from the center
    velocity: Array  # f32[], meters per second
    angle: Array  # f32[], of the pole, radians from upright
    angular_velocity: Array  # f32[], radians per second
    time: Array  # i32[], steps taken


@pytree
class CartPole(Environment):
    """Reward 1 per step; ends when the pole tips or the cart leaves the track. Best possible return: `time_limit`.

    Observation f32[4]: position, velocity, angle, angular velocity. Action: 0 pushes left, 1 right.

    Source: Barto, Sutton and Anderson (1983), as `CartPole-v1` of Gymnasium, whose dynamics these are.
    """

    gravity: float = number(default=9.8, doc="meters per second squared")
    cart_mass: float = number(default=1.0, doc="kilograms")
    pole_mass: float = number(default=0.1, doc="kilograms")
    pole_half_length: float = number(default=0.5, doc="meters")
    force: float = number(default=10.0, doc="newtons of one push")
    time_step: float = number(default=0.02, doc="seconds between two actions")
    angle_limit: float = number(default=12 * 2 * jnp.pi / 360, doc="radians at which the pole has tipped")
    position_limit: float = number(default=2.4, doc="meters at which the track ends")
    time_limit: int = number(default=500, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[CartPoleState, Array]:
        """Sample all four coordinates uniformly from -0.05 .. 0.05."""
        start = jax.random.uniform(key, (4,), jnp.float32, -0.05, 0.05)
        state = CartPoleState(
            position=start[0], velocity=start[1], angle=start[2], angular_velocity=start[3], time=jnp.int32(0)
        )
        return state, start

    def step(self, key: Key, state: CartPoleState, action: Array) -> tuple[CartPoleState, TimeStep]:
        """Integrate the equations of motion by one Euler step."""
        force = jnp.where(action == 1, self.force, -self.force)
        sine, cosine = sincos(state.angle)
        total_mass = self.cart_mass + self.pole_mass
        pole_moment = self.pole_mass * self.pole_half_length
        push = (force + pole_moment * state.angular_velocity**2 * sine) / total_mass
        angular_acceleration = (self.gravity * sine - cosine * push) / (
            self.pole_half_length * (4.0 / 3.0 - self.pole_mass * cosine**2 / total_mass)
        )
        acceleration = push - pole_moment * angular_acceleration * cosine / total_mass
        state = CartPoleState(
            position=state.position + self.time_step * state.velocity,
            velocity=state.velocity + self.time_step * acceleration,
            angle=state.angle + self.time_step * state.angular_velocity,
            angular_velocity=state.angular_velocity + self.time_step * angular_acceleration,
            time=state.time + 1,
        )
        terminated = (jnp.abs(state.position) > self.position_limit) | (jnp.abs(state.angle) > self.angle_limit)
        time_up = state.time >= self.time_limit
        return state, TimeStep.transition(self.observe(state), jnp.float32(1), terminated=terminated, time_up=time_up)

    def observe(self, state: CartPoleState) -> Array:
        """Return position, velocity, angle and angular velocity, f32[4]."""
        return jnp.stack([state.position, state.velocity, state.angle, state.angular_velocity])

    def render(self, state: CartPoleState) -> np.ndarray:
        """Draw the cart on its track and the pole, at the same places as Gymnasium: u8[H, W, 3]."""
        x, angle, edge = float(state.position), float(state.angle), float(self.position_limit)
        canvas = Canvas((-edge, edge), (-edge / 3, edge), 600, 400)
        canvas.line([(-edge, 0), (edge, 0)], SILVER, 0.02)
        canvas.rectangle((x - 0.2, -0.12), (x + 0.2, 0.12), INK)
        length = 2 * float(self.pole_half_length)
        tip = (x + length * np.sin(angle), 0.06 + length * np.cos(angle))
        canvas.line([(x, 0.06), tip], ORANGE, 0.08)
        canvas.circle((x, 0.06), 0.04, WHITE)
        return canvas.pixels()

    @property
    def observation_space(self) -> Box:
        """f32[4]; twice the range of an episode, and any velocity."""
        bounds = (2 * self.position_limit, jnp.inf, 2 * self.angle_limit, jnp.inf)
        high = jnp.stack([jnp.asarray(x, jnp.float32) for x in bounds])
        return Box(low=-high, high=high, shape=(4,))

    @property
    def action_space(self) -> Discrete:
        """0 left, 1 right."""
        return Discrete(n=2)
