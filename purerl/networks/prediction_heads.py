"""The heads of an agent that follows Disco: predictions for a state, and for each action by a one-step model."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.networks.torsos import dense
from purerl.types import Array

SMALL = nn.initializers.truncated_normal(0.01)  # initializer of the heads of a state


class Predictions(NamedTuple):
    """An agent's predictions in states [...], as logits; A is the axis of actions in z, q and next_policy."""

    policy: Array  # f32[..., A]
    y: Array  # f32[..., m], of the state; the rule gives it its meaning
    z: Array  # f32[..., A, m], the same of an action
    q: Array  # f32[..., A, n], of the return after an action
    next_policy: Array  # f32[..., A, A], of the policy after an action


class PredictionHeads(nn.Module):
    """Features f32[..., k] -> `Predictions`; an LSTM takes one step per action for z, q and next_policy."""

    num_actions: int
    num_predictions: int  # m
    num_atoms: int  # n
    model_size: int = 128  # units of the LSTM, and of the layer above it
    initializer: str = "normal"

    @nn.compact
    def __call__(self, features: Array, action: Array | None = None) -> Predictions:
        """Return the predictions; z, q and next_policy for all actions, or for i32[...] without the axis A."""
        after = self._after_action(features, action)

        def of_action(size: int) -> Array:
            hidden = jax.nn.relu(dense(self.model_size, 2**0.5, initializer=self.initializer)(after))
            return dense(size, 1.0, initializer=self.initializer)(hidden)

        return Predictions(
            policy=nn.Dense(self.num_actions, kernel_init=SMALL)(features),
            y=nn.Dense(self.num_predictions, kernel_init=SMALL)(features),
            z=of_action(self.num_predictions),
            q=of_action(self.num_atoms),
            next_policy=of_action(self.num_actions),
        )

    def _after_action(self, features: Array, action: Array | None) -> Array:
        """Return the LSTM's output f32[..., A, model_size], or f32[..., model_size] after one action.

        The action is its one-hot input, so that its part of the gates is a row of a kernel.
        """
        layer = lambda size: dense(size, 1.0, initializer=self.initializer)
        rows = self.param("actions", nn.initializers.lecun_normal(), (self.num_actions, 4 * self.model_size))
        cell = layer(self.model_size)(features)
        gates = layer(4 * self.model_size)(jnp.tanh(cell))
        if action is None:
            cell, gates = cell[..., None, :], gates[..., None, :] + rows
        else:
            gates = gates + jax.nn.one_hot(action, self.num_actions, dtype=jnp.float32) @ rows
        write, new, keep, read = jnp.split(gates, 4, axis=-1)
        cell = jax.nn.sigmoid(keep + 1.0) * cell + jax.nn.sigmoid(write) * jnp.tanh(new)
        return jax.nn.sigmoid(read) * jnp.tanh(cell)
