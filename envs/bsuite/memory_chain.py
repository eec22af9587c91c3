"""Memory chain: remember bits from the first step until one of them is queried."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import tiles
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree, static


class MemoryChainState(NamedTuple):
    """The shown bits and the query."""

    context: Array  # i32[num_bits], 0 or 1
    query: Array  # i32[], which bit is asked for
    time: Array  # i32[], steps taken


@pytree
class MemoryChain(Environment):
    """Reward 1 if the last action is the queried bit, else -1; 0 before. Best possible return: 1, without memory 0.

    An episode is `memory_length` + 1 steps long. As in bsuite the observation lags by one step: the bits are shown
    before the first and the second action, the query before the last.

    Observation f32[2 + num_bits]: the share of the chain that is left, the query (0 until asked), the bits as -1 or 1
    (0 when not shown). Action: 0 or 1.

    Source: bsuite (Osband et al. 2020, arXiv:1908.03568), whose rules these are; there the observation is f32[1, n].
    """

    memory_length: int = number(default=10, doc="steps for which the bits must be remembered", at_least=1)
    num_bits: int = static(default=1, doc="bits to remember", at_least=1)

    def reset(self, key: Key) -> tuple[MemoryChainState, Array]:
        """Sample the bits and the query."""
        key_context, key_query = jax.random.split(key)
        context = jax.random.bernoulli(key_context, 0.5, (self.num_bits,)).astype(jnp.int32)
        query = jax.random.randint(key_query, (), 0, self.num_bits, jnp.int32)
        state = MemoryChainState(context=context, query=query, time=jnp.int32(0))
        return state, self._observe(state)

    def step(self, key: Key, state: MemoryChainState, action: Array) -> tuple[MemoryChainState, TimeStep]:
        """Wait, or answer if this is the last step."""
        observation = self._observe(state)
        asked = jnp.arange(self.num_bits, dtype=jnp.int32) == state.query
        right = jnp.any(asked & (state.context == action))
        terminated = state.time >= self.memory_length
        reward = jnp.where(terminated, jnp.where(right, 1.0, -1.0), 0.0)
        state = state._replace(time=state.time + 1)
        return state, TimeStep.transition(observation, reward, terminated=terminated)

    def _observe(self, state: MemoryChainState) -> Array:
        left = 1 - state.time.astype(jnp.float32) / self.memory_length
        query = jnp.where(state.time == self.memory_length - 1, state.query, 0).astype(jnp.float32)
        bits = jnp.where(state.time == 0, 2 * state.context - 1, 0).astype(jnp.float32)
        return jnp.concatenate([jnp.stack([left, query]), bits])

    def render_text(self, state: MemoryChainState) -> str:
        """Return the walk as text, then the bits, then ? under the queried one."""
        width = max(int(self.memory_length) + 1, self.num_bits)
        walk = "".join("@" if i == int(state.time) else "." for i in range(int(self.memory_length) + 1))
        bits = "".join(str(int(bit)) for bit in state.context)
        query = "".join("?" if i == int(state.query) else " " for i in range(self.num_bits))
        return "\n".join(line.ljust(width) for line in (walk, bits, query))

    def render(self, state: MemoryChainState) -> np.ndarray:
        """Draw the tiles of `render_text`: u8[H, W, 3]."""
        return tiles(self.render_text(state))

    @property
    def observation_space(self) -> Box:
        """f32[2 + num_bits]."""
        return Box(low=-1.0, high=float(max(1, self.num_bits - 1)), shape=(2 + self.num_bits,))

    @property
    def action_space(self) -> Discrete:
        """The bit: 0 or 1."""
        return Discrete(n=2)
