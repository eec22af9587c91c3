"""Body: the part of a network below its heads, a torso with or without memory, as pure functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.networks.torsos import CORES, INITIALIZERS, TORSOS, Torso, apply, init, split_mask, without_mask
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
    layer_norm: bool = static(default=False, doc="normalise each hidden layer")
    precision: str = static(default="float32", doc="of the network's products", choices=("float32", "bfloat16"))
    initializer: str = static(
        default="orthogonal", doc="of dense and convolutional weights", choices=tuple(INITIALIZERS)
    )
    core: str = static(default="none", doc="recurrent memory", choices=("none", *CORES))
    core_size: int = static(default=64, doc="units of the recurrent memory", at_least=1)


class Body(NamedTuple):
    """Features of observations. Without memory, `memory` is () and any leading axes will do."""

    init: Callable[[Key], PyTree]  # key -> params
    begin: Callable[[int], PyTree]  # num_envs -> memory [B, ...] at the start of an episode
    step: Callable[[PyTree, PyTree, PyTree], tuple[Array, PyTree]]
    # (params, memory[...], observation[...]) -> (features f32[..., size], memory)
    unroll: Callable[[PyTree, PyTree, PyTree, Array], tuple[Array, PyTree]]
    # (params, memory[B], observation[T, B], ended[T, B]) ->
    #   (features f32[T, B, size], memory [T, B] after each step, before an ending clears it)
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

    if config.core != "none":
        return _recurrent(torso, example, features, CORES[config.core](config.core_size))
    return Body(
        init=lambda key: init(torso, key, example()),
        begin=lambda num_envs: (),
        step=lambda params, memory, observation: (features(params, observation), ()),
        unroll=lambda params, memory, observation, ended: (features(params, observation), ()),
        size=config.hidden_sizes[-1],
    )


def _recurrent(
    torso: Torso, example: Callable[[], PyTree], features: Callable[[PyTree, PyTree], Array], core: Any
) -> Body:
    def begin(num_envs: int) -> PyTree:
        return core.initialize_carry(jax.random.key(0), (num_envs, core.features))

    def initialise(key: Key) -> PyTree:
        key_torso, key_core = jax.random.split(key)
        memory = jax.tree.map(lambda x: x[0], begin(1))
        return {
            "torso": init(torso, key_torso, example()),
            "core": init(core, key_core, memory, jnp.zeros(torso.hidden_sizes[-1])),
        }

    def step(params: PyTree, memory: PyTree, observation: PyTree) -> tuple[Array, PyTree]:
        memory, hidden = apply(core, params["core"], memory, features(params["torso"], observation))
        return hidden, memory

    def unroll(params: PyTree, memory: PyTree, observation: PyTree, ended: Array) -> tuple[Array, PyTree]:
        fresh = begin(ended.shape[1])

        def advance(memory: PyTree, at: tuple[Array, Array]) -> tuple[PyTree, tuple[Array, PyTree]]:
            memory, hidden = apply(core, params["core"], memory, at[0])
            cleared = jax.tree.map(lambda new, old: jnp.where(at[1][:, None], new, old), fresh, memory)
            return cleared, (hidden, memory)

        _, (hidden, after) = jax.lax.scan(advance, memory, (features(params["torso"], observation), ended))
        return hidden, after

    return Body(initialise, begin, step, unroll, core.features)
