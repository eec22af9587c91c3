"""Repeat previous: name the symbol from some steps ago."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import LETTERS, tiles
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree, static


class RepeatPreviousState(NamedTuple):
    """The recent symbols."""

    symbols: Array  # i32[lag + 1], the latest first
    time: Array  # i32[], steps taken


@pytree
class RepeatPrevious(Environment):
    """Each step shows a new random symbol; the correct action is the symbol shown `lag` steps before it.

    Each of the `length` - `lag` answers pays 1 / (length - lag) if it is right and as much less if it is wrong; the
    first `lag` actions do nothing. Best possible return: 1; without memory 2 / num_symbols - 1 in expectation.

    Observation f32[num_symbols]: the symbol, one-hot. Action: a symbol.

    Source: Morad et al. (2023), arXiv:2303.01859; there the symbols are the suits of a deck that is dealt, here they
    are independent, so that nothing can be learned from counting.
    """

    num_symbols: int = static(default=4, doc="different symbols", at_least=2)
    lag: int = static(default=4, doc="steps to remember a symbol", at_least=0)
    length: int = number(default=52, doc="steps of an episode, more than lag", at_least=1)

    def reset(self, key: Key) -> tuple[RepeatPreviousState, Array]:
        """Show the first symbol."""
        shown = self._draw(key)
        state = RepeatPreviousState(jnp.full(self.lag + 1, shown), jnp.int32(0))
        return state, self._observe(state)

    def step(self, key: Key, state: RepeatPreviousState, action: Array) -> tuple[RepeatPreviousState, TimeStep]:
        """Score the answer and show the next symbol."""
        worth = 1.0 / (self.length - self.lag)
        reward = jnp.where(action == state.symbols[-1], worth, -worth)
        reward = jnp.where(state.time >= self.lag, reward, 0.0).astype(jnp.float32)
        symbols = jnp.concatenate([self._draw(key)[None], state.symbols[:-1]])
        state = RepeatPreviousState(symbols, state.time + 1)
        terminated = state.time >= self.length
        return state, TimeStep.transition(self._observe(state), reward, terminated=terminated)

    def _draw(self, key: Key) -> Array:
        return jax.random.randint(key, (), 0, self.num_symbols, jnp.int32)

    def _observe(self, state: RepeatPreviousState) -> Array:
        return (jnp.arange(self.num_symbols, dtype=jnp.int32) == state.symbols[0]).astype(jnp.float32)

    def render_text(self, state: RepeatPreviousState) -> str:
        """Return the symbols as text, the latest last, and ? under the one to be named (none until there is one)."""
        shown = min(int(state.time), self.lag) + 1
        symbols = "".join(LETTERS[int(s) % len(LETTERS)] for s in state.symbols[:shown][::-1])
        return symbols.rjust(self.lag + 1, ".") + "\n" + ("?" if shown > self.lag else " ") + " " * self.lag

    def render(self, state: RepeatPreviousState) -> np.ndarray:
        """Draw the tiles of `render_text`: u8[H, W, 3]."""
        return tiles(self.render_text(state))

    @property
    def observation_space(self) -> Box:
        """f32[num_symbols]."""
        return Box(low=0.0, high=1.0, shape=(self.num_symbols,))

    @property
    def action_space(self) -> Discrete:
        """The symbols."""
        return Discrete(n=self.num_symbols)
