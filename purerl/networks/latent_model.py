"""Latent models: a learned model of an environment in a latent space, as pure functions."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from purerl.functional.distributions import action_head
from purerl.networks.encoder import NetworkConfig, check_layers, encoder, hidden_layers
from purerl.networks.modules import Module
from purerl.networks.torsos import apply, dense, init
from purerl.spaces import Space, flat
from purerl.types import Array, Key, PyTree


class Represent(Protocol):
    """The representation function: `LatentModel.represent`."""

    def __call__(self, params: PyTree, observation: PyTree, /) -> Array:
        """Return the latents of observations [..., *shape]: f32[..., m], each from 0 to 1."""
        ...


class Advance(Protocol):
    """The dynamics function: `LatentModel.advance`."""

    def __call__(self, params: PyTree, latent: Array, action: PyTree, /) -> tuple[Array, Array]:
        """Return (the next latents f32[..., m], rewards f32[...]).

        Args:
          params: from `init`.
          latent: f32[..., m].
          action: [..., *shape], of the action space.
        """
        ...


class Predict(Protocol):
    """The prediction function: `LatentModel.predict`."""

    def __call__(self, params: PyTree, latent: Array, /) -> tuple[Any, Array]:
        """Return (the distribution of actions [...], values f32[...]) of latents f32[..., m]."""
        ...


class LatentModel(NamedTuple):
    """A representation, its dynamics and predictions from it, with any leading axes."""

    init: Callable[[Key], PyTree]  # key -> params
    represent: Represent  # (params, observation) -> latent
    advance: Advance  # (params, latent, action) -> (the next latent, reward)
    predict: Predict  # (params, latent) -> (policy, value)


def latent_model(
    space: Space, action_space: Space, config: NetworkConfig, network: Module | None = None
) -> LatentModel:
    """Return the model for an observation space and an action space.

    Args:
      space: the observation space; a mask of legal actions is left out.
      action_space: the action space; the dynamics take an action as one vector.
      config: the settings of the hidden layers of all three parts.
      network: a module that replaces the torso of the representation.

    Source: Schrittwieser et al. (2020), arXiv:1911.08265.
    """
    check_layers(config.hidden_sizes, "a latent model")
    base, head = encoder(space, config, network), action_head(action_space)
    width = jax.eval_shape(partial(flat, action_space), action_space.struct).shape[-1]
    hidden = hidden_layers(config, config.hidden_sizes)
    layer = lambda size, scale: dense(size, scale, initializer=config.initializer)
    to_latent, to_reward = layer(base.size, 1.0), layer(1, 0.01)
    to_logits, to_value = layer(head.num_outputs, 0.01), layer(1, 0.01)

    def initialize(key: Key) -> PyTree:
        keys = jax.random.split(key, 7)
        latent, pair = jnp.zeros(base.size), jnp.zeros(base.size + width)
        features = jnp.zeros(config.hidden_sizes[-1])
        return {
            "representation": base.init(keys[0]),
            "dynamics": init(hidden, keys[1], pair),
            "prediction": init(hidden, keys[2], latent),
            "latent": init(to_latent, keys[3], features),
            "reward": init(to_reward, keys[4], features),
            "logits": init(to_logits, keys[5], features),
            "value": init(to_value, keys[6], features),
            "log_std": jnp.zeros(head.num_log_std),
        }

    def represent(params: PyTree, observation: PyTree) -> Array:
        return unit(base.step(params["representation"], (), observation)[0])

    def advance(params: PyTree, latent: Array, action: PyTree) -> tuple[Array, Array]:
        pair = jnp.concatenate([latent, flat(action_space, action).astype(latent.dtype)], axis=-1)
        features = apply(hidden, params["dynamics"], pair)
        # Residual, so that a latent lasts through many steps.
        next_latent = unit(latent + apply(to_latent, params["latent"], features))
        return next_latent, apply(to_reward, params["reward"], features)[..., 0]

    def predict(params: PyTree, latent: Array) -> tuple[Any, Array]:
        features = apply(hidden, params["prediction"], latent)
        policy = head.distribution(apply(to_logits, params["logits"], features), params["log_std"])
        return policy, apply(to_value, params["value"], features)[..., 0]

    return LatentModel(init=initialize, represent=represent, advance=advance, predict=predict)


def unit(latent: Array) -> Array:
    """Return latents rescaled to 0 to 1 along the last axis."""
    low, high = jnp.min(latent, axis=-1, keepdims=True), jnp.max(latent, axis=-1, keepdims=True)
    return (latent - low) / jnp.maximum(high - low, 1e-5)
