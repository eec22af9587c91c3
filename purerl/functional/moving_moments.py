"""Moving averages of a number's mean and square, which standardize it."""

from typing import NamedTuple

import jax.numpy as jnp

from purerl.functional import masked
from purerl.types import Array


class MovingMoments(NamedTuple):
    """Exponential moving averages that start at 0; `unseen` is the weight of that start."""

    mean: Array  # f32[]
    square: Array  # f32[]
    unseen: Array  # f32[]

    @staticmethod
    def create() -> "MovingMoments":
        """Return the averages before any sample."""
        return MovingMoments(mean=jnp.float32(0), square=jnp.float32(0), unseen=jnp.float32(1))

    def update(self, x: Array, mask: Array | None = None, decay: float = 0.99) -> "MovingMoments":
        """Return the averages after a batch f32[...], of which only the samples in the mask count."""
        move = lambda old, new: decay * old + (1.0 - decay) * masked.mean(new, mask)
        return MovingMoments(mean=move(self.mean, x), square=move(self.square, x**2), unseen=decay * self.unseen)

    def standardize(self, x: Array, epsilon: float = 1e-6) -> Array:
        """Return (x - mean) / (std + epsilon), f32[...], from the bias-corrected averages."""
        seen = 1.0 - self.unseen
        mean = self.mean / seen
        variance = jnp.maximum(self.square / seen - mean**2, 0.0)
        return (x - mean) / (jnp.sqrt(variance + 1e-12) + epsilon)
