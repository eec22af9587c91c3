"""Body: the part of a network below its heads, a torso with or without memory, as pure functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.networks.torsos import INITIALIZERS, RNNS, TORSOS, Torso, apply, init, split_mask, without_mask
from purerl.spaces import Space
from purerl.types import Array, Config, Key, PyTree, pytree, static


@pytree
class NetworkConfig(Config):
    """What the configs of all algorithms say of their networks."""

    network: str = static(default="auto", doc="torso", choices=TORSOS)
    hidden_sizes: tuple[int, ...] = static(default=(64, 64), doc="units of the hidden layers", at_least=1)
    activation: str = static(
        default="tanh", doc="hidden layers' activation", choices=("tanh", "relu", "elu", "gelu", "silu")
    )
    layer_norm: bool = static(default=False, doc="normalize each hidden layer")
    precision: str = static(default="float32", doc="of the network's products", choices=("float32", "bfloat16"))
    initializer: str = static(
        default="orthogonal", doc="of dense and convolutional weights", choices=tuple(INITIALIZERS)
    )
    rnn: str = static(default="none", doc="recurrent state", choices=("none", *RNNS))
    rnn_size: int = static(default=64, doc="units of the recurrent state", at_least=1)


class Body(NamedTuple):
    """Features of observations. Without memory, `carry` is () and any leading axes will do."""

    init: Callable[[Key], PyTree]  # key -> params
    initial_carry: Callable[[int], PyTree]  # num_envs -> carry [B, ...] at the start of an episode
    step: Callable[[PyTree, PyTree, PyTree], tuple[Array, PyTree]]
    # (params, carry[...], observation[...]) -> (features f32[..., size], carry)
    unroll: Callable[[PyTree, PyTree, PyTree, Array], tuple[Array, PyTree]]
    # (params, carry[B], observation[T, B], done[T, B]) ->
    #   (features f32[T, B, size], carry [T, B] after each step, before an ending clears it)
    size: int


def body(space: Space, config: NetworkConfig) -> Body:
    """Return the body for an observation space; a legal-action mask in the observation is not looked at."""
    torso = Torso(
        without_mask(space),
        config.network,
        config.hidden_sizes,
        config.activation,
        config.layer_norm,
        jnp.dtype(config.precision),
        config.initializer,
    )
    example = lambda: split_mask(space.zeros())[0]  # made where it is traced: nothing is compiled for it

    def features(params: PyTree, observation: PyTree) -> Array:
        return apply(torso, params, split_mask(observation)[0]).astype(jnp.float32)

    if config.rnn != "none":
        return _recurrent(torso, example, features, RNNS[config.rnn](config.rnn_size))
    return Body(
        init=lambda key: init(torso, key, example()),
        initial_carry=lambda num_envs: (),
        step=lambda params, carry, observation: (features(params, observation), ()),
        unroll=lambda params, carry, observation, done: (features(params, observation), ()),
        size=config.hidden_sizes[-1],
    )


def _recurrent(
    torso: Torso, example: Callable[[], PyTree], features: Callable[[PyTree, PyTree], Array], core: Any
) -> Body:
    def initial_carry(num_envs: int) -> PyTree:
        return core.initialize_carry(jax.random.key(0), (num_envs, core.features))

    def initialize(key: Key) -> PyTree:
        key_torso, key_core = jax.random.split(key)
        carry = jax.tree.map(lambda x: x[0], initial_carry(1))
        return {
            "torso": init(torso, key_torso, example()),
            "rnn": init(core, key_core, carry, jnp.zeros(torso.hidden_sizes[-1])),
        }

    def step(params: PyTree, carry: PyTree, observation: PyTree) -> tuple[Array, PyTree]:
        carry, hidden = apply(core, params["rnn"], carry, features(params["torso"], observation))
        return hidden, carry

    def unroll(params: PyTree, carry: PyTree, observation: PyTree, done: Array) -> tuple[Array, PyTree]:
        fresh = initial_carry(done.shape[1])

        def advance(carry: PyTree, at: tuple[Array, Array]) -> tuple[PyTree, tuple[Array, PyTree]]:
            carry, hidden = apply(core, params["rnn"], carry, at[0])
            cleared = jax.tree.map(lambda new, old: jnp.where(at[1][:, None], new, old), fresh, carry)
            return cleared, (hidden, carry)

        _, (hidden, after) = jax.lax.scan(advance, carry, (features(params["torso"], observation), done))
        return hidden, after

    return Body(initialize, initial_carry, step, unroll, core.features)
