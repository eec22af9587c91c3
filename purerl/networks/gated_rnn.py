"""Gated recurrent layers, GRU and LSTM: flax's cells, and `unroll` for whole sequences.

The products with the inputs do not wait for the state: in `unroll` they are taken for all steps at once, as are the
gradients of all kernels (`purerl.xla.recurrence`).
"""

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.types import Array
from purerl.xla.recurrence import recur


class GRU(nn.GRUCell):
    """The gated recurrent unit, with the steps and parameters of `flax.linen.GRUCell`.

    Source: Cho et al. (2014), arXiv:1406.1078.
    """

    def unroll(self, carry: Array, x: Array, done: Array) -> tuple[Array, Array]:
        """Take all steps: (h[B], x[T, B, m], done[T, B]) -> (h after each step [T, B], f32[T, B, features])."""
        params = self.variables["params"]
        inputs = [x @ params[name]["kernel"] + params[name]["bias"] for name in ("ir", "iz", "in")]
        none = jnp.zeros(self.features)
        layers = [(params[name]["kernel"], params[name].get("bias", none)) for name in ("hr", "hz", "hn")]
        after: Array = recur(_gru, layers, inputs, carry, done)
        return after, after


class LSTM(nn.OptimizedLSTMCell):
    """The long short-term memory, with the steps and parameters of `flax.linen.OptimizedLSTMCell`.

    Source: Hochreiter and Schmidhuber (1997), doi:10.1162/neco.1997.9.8.1735.
    """

    def unroll(self, carry: tuple[Array, Array], x: Array, done: Array) -> tuple[tuple[Array, Array], Array]:
        """Take all steps: ((c, h)[B], x[T, B, m], done[T, B]) -> ((c, h) after each step, f32[T, B, features])."""
        params = self.variables["params"]
        inputs = [x @ params[f"i{name}"]["kernel"] for name in "ifgo"]
        layers = [(params[f"h{name}"]["kernel"], params[f"h{name}"]["bias"]) for name in "ifgo"]
        after: tuple[Array, Array] = recur(_lstm, layers, inputs, carry, done)
        return after, after[1]


def _gru(x: Sequence[Array], products: Sequence[Array], h: Array) -> Array:
    reset, update = (jax.nn.sigmoid(a + b) for a, b in zip(x[:2], products[:2], strict=True))
    return (1.0 - update) * jnp.tanh(x[2] + reset * products[2]) + update * h


def _lstm(x: Sequence[Array], products: Sequence[Array], state: tuple[Array, Array]) -> tuple[Array, Array]:
    i, f, g, o = (a + b for a, b in zip(x, products, strict=True))
    c = jax.nn.sigmoid(f) * state[0] + jax.nn.sigmoid(i) * jnp.tanh(g)
    return c, jax.nn.sigmoid(o) * jnp.tanh(c)
