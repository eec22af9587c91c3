"""Discounting chain: choose once between earlier and later rewards."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import tiles
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree

REWARD_TIMES = (1, 3, 10, 30, 100)
LENGTH = 100


class DiscountingChainState(NamedTuple):
    """The chosen chain and the time."""

    chain: Array  # i32[], -1 before the first step
    time: Array  # i32[], steps taken


@pytree
class DiscountingChain(Environment):
    """The first action chooses one of five chains, which pay once: after 1, 3, 10, 30 or 100 steps.

    Each pays 1, except number `bonus_chain`, which pays 1.1. An episode is 100 steps long. Best possible return: 1.1.

    Observation f32[2]: the chain chosen, initially -1; the fraction of the episode that is over. Action: a chain.

    Source: bsuite (Osband et al. 2020, arXiv:1908.03568), whose rules these are; there the observation is f32[1, 2].
    """

    bonus_chain: int = number(default=4, doc="the chain that pays 1.1", at_least=0, at_most=4)

    def reset(self, key: Key) -> tuple[DiscountingChainState, Array]:
        """Start before the choice."""
        state = DiscountingChainState(jnp.int32(-1), jnp.int32(0))
        return state, self._observe(state)

    def step(self, key: Key, state: DiscountingChainState, action: Array) -> tuple[DiscountingChainState, TimeStep]:
        """Choose, if this is the first step, then wait."""
        chain = jnp.where(state.time == 0, action.astype(jnp.int32), state.chain)
        state = DiscountingChainState(chain, state.time + 1)
        pays = jnp.zeros((), jnp.bool_)
        for index, time in enumerate(REWARD_TIMES):
            pays |= (chain == index) & (state.time == time)
        reward = jnp.where(pays, jnp.where(chain == self.bonus_chain, 1.1, 1.0), 0.0)
        terminated = state.time == LENGTH
        return state, TimeStep.transition(self._observe(state), reward, terminated=terminated)

    def _observe(self, state: DiscountingChainState) -> Array:
        return jnp.stack([state.chain.astype(jnp.float32), state.time.astype(jnp.float32) / LENGTH])

    def render_text(self, state: DiscountingChainState) -> str:
        """Return the chains as text, one per line: G where each pays, * at the bonus, @ the walker."""
        rows = np.full((len(REWARD_TIMES), LENGTH + 1), ".")
        for chain, time in enumerate(REWARD_TIMES):
            rows[chain, time] = "*" if chain == int(self.bonus_chain) else "G"
        rows[slice(None) if state.chain < 0 else int(state.chain), int(state.time)] = "@"
        return "\n".join("".join(row) for row in rows)

    def render(self, state: DiscountingChainState) -> np.ndarray:
        """Draw the tiles of `render_text`: u8[H, W, 3]."""
        return tiles(self.render_text(state), tile=(24, 5))

    @property
    def observation_space(self) -> Box:
        """f32[2]."""
        return Box(low=-1.0, high=float(len(REWARD_TIMES) - 1), shape=(2,))

    @property
    def action_space(self) -> Discrete:
        """The five chains."""
        return Discrete(n=len(REWARD_TIMES))
