"""A transformer with gates instead of residual sums, as a recurrent layer whose state is the last activations."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.types import Array, Key

LAYERS = 2
STEPS = 32  # number of steps that each layer looks back
BIAS = 2.0  # bias of the gates: initially a layer passes on its input


class Gate(nn.Module):
    r"""A gated recurrent unit between a layer's input x and a sublayer's output y.

    r = sigmoid(W_r y + U_r x),  z = sigmoid(W_z y + U_z x - b),  h = tanh(W_h y + U_h (r * x)),  (1 - z) x + z h
    """

    @nn.compact
    def __call__(self, x: Array, y: Array) -> Array:
        """Return f32[..., n] of x and y, f32[..., n]."""
        n = x.shape[-1]
        r, z, h = jnp.split(nn.Dense(3 * n, use_bias=False, name="of_y")(y), 3, axis=-1)
        r_x, z_x = jnp.split(nn.Dense(2 * n, use_bias=False, name="of_x")(x), 2, axis=-1)
        r, bias = jax.nn.sigmoid(r + r_x), self.param("bias", nn.initializers.constant(BIAS), (n,))
        z = jax.nn.sigmoid(z + z_x - bias)
        return (1.0 - z) * x + z * jnp.tanh(h + nn.Dense(n, use_bias=False, name="of_reset")(r * x))


class GatedTransformer(nn.RNNCellBase):
    r"""The gated Transformer-XL, applied one step at a time.

    Each of `LAYERS` layers attends from a step to itself and the `STEPS` before, as far as the episode goes back:

        y = gate(x, relu(attention(norm(x), norm(memory, x)))),  output = gate(y, relu(mlp(norm(y))))

    The score of a pair is q k / sqrt(d) plus a learned number for each head and distance. The state f32[..., m] holds
    the layers' last inputs, the newest first, and which of them belong to this episode.
    Source: Parisotto et al. (2019), arXiv:1910.06764, with relative positions as numbers.
    """

    features: int

    @nn.compact
    def __call__(self, carry: Array, x: Array) -> tuple[Array, Array]:
        """Take one step: (carry, x[..., n]) -> (carry, f32[..., features])."""
        x = nn.Dense(self.features, name="enter")(x)
        size = STEPS * self.features
        memories = [carry[..., i * size : (i + 1) * size].reshape(*carry.shape[:-1], STEPS, -1) for i in range(LAYERS)]
        valid, kept = carry[..., LAYERS * size :], []
        for index, memory in enumerate(memories):
            window = jnp.concatenate([x[..., None, :], memory], axis=-2)  # the newest first
            kept.append(window[..., :STEPS, :].reshape(*carry.shape[:-1], size))
            attended = self._attention(index, window, valid)
            y = Gate(name=f"gate_{index}_attention")(x, jax.nn.relu(attended))
            wide = jax.nn.relu(nn.Dense(4 * self.features, name=f"wide_{index}")(nn.LayerNorm(name=f"norm_{index}")(y)))
            x = Gate(name=f"gate_{index}_mlp")(y, jax.nn.relu(nn.Dense(self.features, name=f"narrow_{index}")(wide)))
        newer = jnp.concatenate([jnp.ones_like(valid[..., :1]), valid[..., :-1]], axis=-1)
        return jnp.concatenate([*kept, newer], axis=-1), x

    def _attention(self, index: int, window: Array, valid: Array) -> Array:
        heads = math.gcd(4, self.features)
        standard = nn.LayerNorm(name=f"norm_{index}_attention")(window)
        layer = lambda what: nn.Dense(self.features, use_bias=False, name=f"{what}_{index}")
        split = lambda y: y.reshape(*y.shape[:-1], heads, -1)
        query, key = split(layer("query")(standard[..., 0, :])), split(layer("key")(standard))
        value = split(layer("value")(standard))
        nearness = self.param(f"nearness_{index}", nn.initializers.zeros, (heads, STEPS + 1))
        scores = jnp.einsum("...hd,...mhd->...hm", query, key) / math.sqrt(key.shape[-1]) + nearness
        there = jnp.concatenate([jnp.ones_like(valid[..., :1]), valid], axis=-1) > 0
        shares = jax.nn.softmax(jnp.where(there[..., None, :], scores, -1e9), axis=-1)
        mixed = jnp.einsum("...hm,...mhd->...hd", shares, value)
        return layer("mix")(mixed.reshape(*mixed.shape[:-2], self.features))

    def initialize_carry(self, rng: Key, input_shape: tuple[int, ...]) -> Array:
        """Return the state at the start of an episode: zeros, all marked as invalid."""
        return jnp.zeros((*input_shape[:-1], STEPS * (LAYERS * self.features + 1)))

    @property
    def num_feature_axes(self) -> int:
        """The number of feature axes of an input."""
        return 1
