"""Umbrella chain: the first action decides the last reward, and all rewards between are noise."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import PINK, SKY, tiles
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree, static


class UmbrellaChainState(NamedTuple):
    """The forecast and the umbrella."""

    need: Array  # i32[], whether it will rain, 0 or 1
    have: Array  # i32[], whether the umbrella was taken, 0 or 1; random before the first step
    time: Array  # i32[], steps taken


@pytree
class UmbrellaChain(Environment):
    """Take an umbrella (1) or not (0) in the first step; `chain_length` steps in all. Best expected return: 1.

    The last reward is 1 if the umbrella was taken when it was needed or left when it was not, else -1. Every reward
    before is -1 or 1 at random, and later actions do nothing.

    Observation f32[3 + num_distractors]: needed, taken, the share of the chain that is left, random bits.

    Source: bsuite (Osband et al. 2020, arXiv:1908.03568), whose rules these are; there the observation is f32[1, n].
    """

    chain_length: int = number(default=20, doc="steps of an episode", at_least=1)
    num_distractors: int = static(default=20, doc="random bits in the observation", at_least=0)

    def reset(self, key: Key) -> tuple[UmbrellaChainState, Array]:
        """Sample the forecast, and the umbrella shown before the choice."""
        bits = jax.random.bernoulli(key, 0.5, (2 + self.num_distractors,)).astype(jnp.int32)
        state = UmbrellaChainState(need=bits[0], have=bits[1], time=jnp.int32(0))
        return state, self._observe(state, bits[2:])

    def step(self, key: Key, state: UmbrellaChainState, action: Array) -> tuple[UmbrellaChainState, TimeStep]:
        """Choose, if this is the first step, then walk on."""
        bits = jax.random.bernoulli(key, 0.5, (1 + self.num_distractors,)).astype(jnp.int32)
        have = jnp.where(state.time == 0, action.astype(jnp.int32), state.have)
        state = UmbrellaChainState(need=state.need, have=have, time=state.time + 1)
        terminated = state.time >= self.chain_length
        right = jnp.where(terminated, have == state.need, bits[0] == 1)
        observation = self._observe(state, bits[1:])
        reward = jnp.where(right, 1.0, -1.0)
        return state, TimeStep.transition(observation, reward, terminated=terminated)

    def _observe(self, state: UmbrellaChainState, distractors: Array) -> Array:
        left = 1 - state.time.astype(jnp.float32) / self.chain_length
        head = jnp.stack([state.need.astype(jnp.float32), state.have.astype(jnp.float32), left])
        return jnp.concatenate([head, distractors.astype(jnp.float32)])

    def render_text(self, state: UmbrellaChainState) -> str:
        """Return the walk as text, then the forecast (~ rain, * sun) and the umbrella (^, or . without)."""
        length = max(int(self.chain_length) + 1, 2)
        walk = "".join("@" if i == int(state.time) else "." for i in range(length))
        return walk + "\n" + ("~" if state.need else "*") + ("^" if state.have else ".") + " " * (length - 2)

    def render(self, state: UmbrellaChainState) -> np.ndarray:
        """Draw the tiles of `render_text`: u8[H, W, 3]."""
        return tiles(self.render_text(state), {"~": SKY, "^": PINK})

    @property
    def observation_space(self) -> Box:
        """f32[3 + num_distractors]."""
        return Box(low=0.0, high=1.0, shape=(3 + self.num_distractors,))

    @property
    def action_space(self) -> Discrete:
        """0 leaves the umbrella, 1 takes it."""
        return Discrete(n=2)
