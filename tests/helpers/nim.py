"""A small game of two players in turns."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.spaces import Box, Dict, Discrete, Stacked
from purerl.types import Environment, TimeStep, pytree


class Pile(NamedTuple):
    """What is left, and whose turn it is."""

    left: jax.Array
    second: jax.Array


@pytree
class Nim(Environment):
    """Two players in turn take one or two of seven; who takes the last one wins. Who leaves a multiple of 3 wins."""

    def reset(self, key):
        state = Pile(jnp.int32(7), jax.random.bernoulli(key))
        return state, self.observe(state)

    def step(self, key, state, action):
        taken = 1 + jnp.where(state.second, action["second"][0], action["first"][0])
        after = Pile(jnp.maximum(state.left - taken, 0), ~state.second)
        over = after.left == 0
        won = jnp.where(over, jnp.where(state.second, -1.0, 1.0), 0.0)[None]
        return after, TimeStep.transition(self.observe(after), {"first": won, "second": -won}, terminated=over)

    def observe(self, state):
        seen = jax.nn.one_hot(state.left, 8)[None]
        mask = lambda waits: jnp.stack([jnp.bool_(True), waits | (state.left > 1)])[None]
        return {
            "first": {"observation": seen, "action_mask": mask(state.second)},
            "second": {"observation": seen, "action_mask": mask(~state.second)},
            "turn": {"first": ~state.second[None], "second": state.second[None]},
        }

    @property
    def observation_space(self):
        flag = lambda n: Box(low=0, high=1, shape=(n,), dtype=jnp.bool_)
        part = Dict(spaces={"observation": Box(low=0, high=1, shape=(8,)), "action_mask": flag(2)})
        turn = Dict(spaces={name: flag(1) for name in ("first", "second")})
        return Dict(spaces={name: Stacked(space=part, n=1) for name in ("first", "second")} | {"turn": turn})

    action_space = property(
        lambda self: Dict(spaces={name: Stacked(space=Discrete(n=2), n=1) for name in ("first", "second")})
    )
