"""Autoencode: watch a sequence of symbols, then name them in reverse order."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import LETTERS, tiles
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, pytree, static


class AutoencodeState(NamedTuple):
    """The sequence, and the number of symbols that were shown or named."""

    symbols: Array  # i32[length]
    time: Array  # i32[], steps taken


@pytree
class Autoencode(Environment):
    """`length` random symbols are shown, one per step; then the agent names them, the last one first.

    An episode is 2 `length` steps long. Actions do nothing while symbols are shown; after that each pays 1 / length if
    it is right and as much less if it is wrong. Best possible return: 1; without memory 2 / num_symbols - 1 in
    expectation.

    Observation f32[num_symbols + 1]: the symbol, one-hot, and whether symbols are being shown; all 0 while they are to
    be named. Action: a symbol.

    Source: Morad et al. (2023), arXiv:2303.01859; there the symbols are the suits of a deck that is dealt, here they
    are independent.
    """

    num_symbols: int = static(default=4, doc="different symbols", at_least=2)
    length: int = static(default=8, doc="symbols to remember", at_least=1)

    def reset(self, key: Key) -> tuple[AutoencodeState, Array]:
        """Sample the sequence and show its first symbol."""
        symbols = jax.random.randint(key, (self.length,), 0, self.num_symbols, jnp.int32)
        state = AutoencodeState(symbols, jnp.int32(0))
        return state, self._observe(state)

    def step(self, key: Key, state: AutoencodeState, action: Array) -> tuple[AutoencodeState, TimeStep]:
        """Show the next symbol, or score the answer."""
        index = jnp.arange(self.length, dtype=jnp.int32)
        right = jnp.any((index == 2 * self.length - 1 - state.time) & (state.symbols == action))
        reward = jnp.where(right, 1.0, -1.0) / self.length
        reward = jnp.where(state.time >= self.length, reward, 0.0)
        state = AutoencodeState(state.symbols, state.time + 1)
        terminated = state.time >= 2 * self.length
        return state, TimeStep.transition(self._observe(state), reward, terminated=terminated)

    def _observe(self, state: AutoencodeState) -> Array:
        now = jnp.arange(self.length, dtype=jnp.int32)[:, None] == state.time
        symbol = jnp.arange(self.num_symbols, dtype=jnp.int32)[None, :] == state.symbols[:, None]
        shown = jnp.any(now & symbol, axis=0)
        return jnp.append(shown, state.time < self.length).astype(jnp.float32)

    def render_text(self, state: AutoencodeState) -> str:
        """Return the shown symbols as text, then - under the current one or ? under the one to be named."""
        time = int(state.time)
        at = time if time < self.length else 2 * self.length - 1 - time
        symbols = "".join(LETTERS[int(s) % len(LETTERS)] if i <= time else "." for i, s in enumerate(state.symbols))
        mark = "-" if time < self.length else "?"
        return symbols + "\n" + "".join(mark if i == at else " " for i in range(self.length))

    def render(self, state: AutoencodeState) -> np.ndarray:
        """Draw the tiles of `render_text`: u8[H, W, 3]."""
        return tiles(self.render_text(state))

    @property
    def observation_space(self) -> Box:
        """f32[num_symbols + 1]."""
        return Box(low=0.0, high=1.0, shape=(self.num_symbols + 1,))

    @property
    def action_space(self) -> Discrete:
        """The symbols."""
        return Discrete(n=self.num_symbols)
