"""Latent models: a learned model of an environment, in a space of its own, as pure functions."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.functional.distributions import action_head
from purerl.networks.encoder import NetworkConfig, check_layers, encoder
from purerl.networks.modules import Module
from purerl.networks.torsos import MLP, apply, dense, init
from purerl.spaces import Space, flat
from purerl.types import Array, Key, PyTree


class LatentModel(NamedTuple):
    """A representation, its dynamics and predictions from it; any leading axes will do."""

    init: Callable[[Key], PyTree]  # key -> params
    represent: Callable[[PyTree, PyTree], Array]  # (params, observation) -> latent f32[..., m] in 0 .. 1
    advance: Callable[[PyTree, Array, Array], tuple[Array, Array]]
    # (params, latent, action [..., ]) -> (the next latent, reward f32[...])
    predict: Callable[[PyTree, Array], tuple[Any, Array]]  # (params, latent) -> (policy, value f32[...])


def latent_model(
    space: Space, action_space: Space, config: NetworkConfig, network: Module | None = None
) -> LatentModel:
    """Return the model for an observation space and an action space.

    Args:
      space: of observations; a mask of legal actions is left out.
      action_space: of the actions, which the dynamics see as one vector.
      config: the settings of the hidden layers, which all three parts have.
      network: a module that stands for the torso of the representation.

    Source: Schrittwieser et al. (2020), arXiv:1911.08265.
    """
    check_layers(config.hidden_sizes, "a latent model")
    base, head = encoder(space, config, network), action_head(action_space)
    width = jax.eval_shape(partial(flat, action_space), action_space.struct).shape[-1]
    hidden: Any = MLP(
        config.hidden_sizes,
        config.activation,
        config.layer_norm,
        jnp.dtype(config.precision),
        initializer=config.initializer,
    )
    layer = lambda size, scale: dense(size, scale, initializer=config.initializer)
    to_latent, to_reward, to_logits, to_value = (
        layer(base.size, 1.0),
        layer(1, 0.01),
        layer(head.num_outputs, 0.01),
        layer(1, 0.01),
    )

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
        # What changes is added to what was, so that a latent lasts through many steps.
        return unit(latent + apply(to_latent, params["latent"], features)), apply(
            to_reward, params["reward"], features
        )[..., 0]

    def predict(params: PyTree, latent: Array) -> tuple[Any, Array]:
        features = apply(hidden, params["prediction"], latent)
        policy = head.distribution(apply(to_logits, params["logits"], features), params["log_std"])
        return policy, apply(to_value, params["value"], features)[..., 0]

    return LatentModel(init=initialize, represent=represent, advance=advance, predict=predict)


def unit(latent: Array) -> Array:
    """Return latents stretched to 0 .. 1 along the last axis."""
    low, high = jnp.min(latent, axis=-1, keepdims=True), jnp.max(latent, axis=-1, keepdims=True)
    return (latent - low) / jnp.maximum(high - low, 1e-5)
