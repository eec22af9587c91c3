"""A small sound environment, which tests break in one way at a time."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.spaces import Box, Discrete
from purerl.types import Environment, TimeStep, number, pytree


class WalkState(NamedTuple):
    position: jax.Array
    time: jax.Array


@pytree
class Walk(Environment):
    """Walk on a line by one step a time; ends at either side."""

    length: float = number(default=3.0)
    time_limit: int | None = number(default=20)

    def reset(self, key):
        state = WalkState(jax.random.uniform(key, (), jnp.float32, -1.0, 1.0), jnp.int32(0))
        return state, self.observe(state)

    def observe(self, state):
        return jnp.stack([state.position, jnp.float32(1)])

    def step(self, key, state, action):
        state = WalkState(state.position + 2.0 * action.astype(jnp.float32) - 1.0, state.time + 1)
        terminated = jnp.abs(state.position) > self.length
        return state, TimeStep.transition(
            self.observe(state),
            state.position,
            terminated=terminated,
            time_up=state.time >= self.time_limit,
            info={"at": state.position},
        )

    @property
    def observation_space(self) -> Any:
        return Box(low=-5.0, high=5.0, shape=(2,))

    @property
    def action_space(self) -> Any:
        return Discrete(n=2)
