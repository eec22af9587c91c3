"""Recurrent layers whose state is a linear recurrence, so that only sums and products depend on the previous step.

    h_t = a_t * h_{t-1} + b_t,  elementwise; 0 stands for h_{t-1} where the step before ended an episode

All layers' products are taken for the whole sequence at once; resets are part of the scan: a_t is 0 after an ending.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.types import Array, Key
from purerl.xla.linear_scan import linear_scan

LONGEST = 0.999  # largest initial |lambda|


def complex_product(a: Array, b: Array) -> Array:
    """Return the products of complex numbers, f32[..., 2 n]: n real parts, then n imaginary parts."""
    (a, ai), (b, bi) = jnp.split(a, 2, axis=-1), jnp.split(b, 2, axis=-1)
    return jnp.concatenate([a * b - ai * bi, a * bi + ai * b], axis=-1)


class LinearRNN(nn.RNNCellBase):
    r"""A layer with such a state h, in a block: a cell like flax's, and `unroll` for complete sequences.

        u = W x + c,  a, b = gates(norm(u)),  h' = a * h + b,  y = gelu(C h'),  output = u + y * sigmoid(G y + d)

    Source: Orvieto et al. (2023), arXiv:2303.06349, figure 2, for the block.
    """

    features: int

    state_size: ClassVar[int] = 1  # numbers per feature
    product: ClassVar[Callable[[Array, Array], Array]] = staticmethod(jnp.multiply)

    def setup(self) -> None:
        """Make the layers around the recurrence."""
        self.enter, self.norm = nn.Dense(self.features), nn.LayerNorm()
        self.mix, self.open = nn.Dense(self.features, use_bias=False), nn.Dense(self.features)

    def gates(self, x: Array) -> tuple[Array, Array]:
        """Return (a, b) of normalized inputs f32[..., features]: f32[..., state_size features] each."""
        raise NotImplementedError

    def __call__(self, carry: Array, x: Array) -> tuple[Array, Array]:
        """Take one step: (carry, x[..., m]) -> (carry, f32[..., features])."""
        u = self.enter(x)
        a, b = self.gates(self.norm(u))
        state = self.product(a, carry) + b
        return state, self._read(state, u)

    def unroll(self, carry: Array, x: Array, done: Array) -> tuple[Array, Array]:
        """Take all steps: (carry[B], x[T, B, m], done[T, B]) -> (carry after each step [T, B], f32[T, B, features])."""
        u = self.enter(x)
        a, b = self.gates(self.norm(u))
        state = linear_scan(jnp.broadcast_to(a, b.shape), b, carry, done, self.product)
        return state, self._read(state, u)

    def _read(self, state: Array, u: Array) -> Array:
        y = jax.nn.gelu(self.mix(state))
        return u + y * jax.nn.sigmoid(self.open(y))

    def initialize_carry(self, rng: Key, input_shape: tuple[int, ...]) -> Array:
        """Return the state at the start of an episode: zeros."""
        return jnp.zeros((*input_shape[:-1], self.state_size * self.features))

    @property
    def num_feature_axes(self) -> int:
        """The number of feature axes of an input."""
        return 1


class MinGRU(LinearRNN):
    r"""The minimal gated recurrent unit: its gate depends on the input only, not on the state.

        z = sigmoid(W_z x + c_z),  h' = (1 - z) h + z (W_h x + c_h)

    Source: Feng et al. (2024), arXiv:2410.01201, section 3.1.
    """

    def setup(self) -> None:
        """Make the gate and the candidate in addition."""
        super().setup()
        self.gate, self.candidate = nn.Dense(self.features), nn.Dense(self.features)

    def gates(self, x: Array) -> tuple[Array, Array]:
        """Return (1 - z, z (W_h x + c_h))."""
        logit = self.gate(x)
        return jax.nn.sigmoid(-logit), jax.nn.sigmoid(logit) * self.candidate(x)


class LRU(LinearRNN):
    r"""The linear recurrent unit: a diagonal, complex recurrence.

        h' = lambda * h + gamma * (B x),  lambda = exp(-exp(nu) + i exp(theta)),  gamma = sqrt(1 - |lambda|^2)

    The eigenvalues start evenly over the unit disk. The state holds the real parts of h, then the imaginary ones; the
    block's C is the real part of a complex matrix. Source: Orvieto et al. (2023), arXiv:2303.06349.
    """

    state_size: ClassVar[int] = 2
    product: ClassVar[Callable[[Array, Array], Array]] = staticmethod(complex_product)

    def setup(self) -> None:
        """Make the eigenvalues and B in addition."""
        super().setup()
        n = self.features
        even = lambda low, high: lambda key: jax.random.uniform(key, (n,), minval=low, maxval=high)
        self.nu = self.param("nu", lambda key: jnp.log(-0.5 * jnp.log(even(1e-3, LONGEST**2)(key))))
        self.theta = self.param("theta", lambda key: jnp.log(even(1e-3, 2 * math.pi)(key)))
        self.write = nn.Dense(2 * n, use_bias=False)

    def gates(self, x: Array) -> tuple[Array, Array]:
        """Return (lambda f32[2 features], gamma B x)."""
        decay, angle = jnp.exp(self.nu), jnp.exp(self.theta)
        eigenvalue = jnp.tile(jnp.exp(-decay), 2) * jnp.concatenate([jnp.cos(angle), jnp.sin(angle)])
        gamma = jnp.sqrt(-jnp.expm1(-2.0 * decay))
        return eigenvalue, self.write(x) * jnp.tile(gamma, 2)


LINEAR_RNNS: dict[str, Any] = {"mingru": MinGRU, "lru": LRU}
