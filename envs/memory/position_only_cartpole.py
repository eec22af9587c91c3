"""PositionOnlyCartPole: keep a pole upright without seeing velocities."""

import jax.numpy as jnp

from purerl.envs.classic.cartpole import CartPole, CartPoleState
from purerl.spaces import Box
from purerl.types import Array, Key, pytree


@pytree
class PositionOnlyCartPole(CartPole):
    """CartPole-v1 with hidden velocities: two observations determine them. Best possible return: `time_limit`.

    Observation f32[2]: position, angle. Action: 0 pushes left, 1 right.

    Source: Morad et al. (2023), arXiv:2303.01859; there rewards are divided by the time limit, which is 200 to 600.
    """

    def reset(self, key: Key) -> tuple[CartPoleState, Array]:
        """Sample all four coordinates uniformly from -0.05 .. 0.05."""
        state, _ = CartPole.reset(self, key)
        return state, self.observe(state)

    def observe(self, state: CartPoleState) -> Array:
        """Return position and angle, f32[2]."""
        return jnp.stack([state.position, state.angle])

    @property
    def observation_space(self) -> Box:
        """f32[2]; twice the range of an episode."""
        high = jnp.stack([jnp.asarray(2 * x, jnp.float32) for x in (self.position_limit, self.angle_limit)])
        return Box(low=-high, high=high, shape=(2,))
