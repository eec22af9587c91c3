"""Encoders: the part of a network below its heads, a torso with or without a recurrent layer, as pure functions."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.errors import InputError
from purerl.functional.action_masks import split_mask, without_global_state, without_mask
from purerl.networks.cnn import CNNS
from purerl.networks.images import image_shape
from purerl.networks.initializers import INITIALIZERS
from purerl.networks.modules import Module, own_torso
from purerl.networks.torsos import ACTIVATIONS, MLP, RNNS, TORSOS, Torso, apply, init
from purerl.spaces import Space, leaves
from purerl.types import Array, Config, Key, PyTree, pytree, static


@pytree
class NetworkConfig(Config):
    """Settings of an algorithm with networks."""

    network: str = static(default="auto", doc="type of the torso", choices=TORSOS)
    hidden_sizes: tuple[int, ...] = static(default=(64, 64), doc="units of the hidden layers", at_least=1)
    activation: str = static(default="tanh", doc="hidden layers' activation", choices=tuple(ACTIVATIONS))
    layer_norm: bool = static(default=False, doc="normalize each hidden layer")
    precision: str = static(
        default="float32", doc="dtype of the network's matrix products", choices=("float32", "bfloat16")
    )
    initializer: str = static(
        default="orthogonal", doc="weight initializer for dense and convolutional layers", choices=tuple(INITIALIZERS)
    )


class EncodeStep(Protocol):
    """A function that encodes one observation: `Encoder.step`."""

    def __call__(self, params: PyTree, carry: PyTree, observation: PyTree, /) -> tuple[Array, PyTree]:
        """Return (features f32[..., size], carry [...]), of a carry [...] and observations [..., *]."""
        ...


class EncodeRollout(Protocol):
    """A function that encodes a rollout: `Encoder.unroll`."""

    def __call__(self, params: PyTree, carry: PyTree, observation: PyTree, done: Array, /) -> tuple[Array, PyTree]:
        """Return (features f32[T, B, size], carry [T, B] after each step).

        Args:
          params: from `init`.
          carry: [B, ...], before the first step.
          observation: [T, B, *].
          done: bool[T, B], where an episode ends; the carry that is returned there is the one before it is cleared.
        """
        ...


class Encoder(NamedTuple):
    """Features of observations. Without a recurrent layer, `carry` is () and any leading axes are allowed."""

    init: Callable[[Key], PyTree]  # key -> params
    initial_carry: Callable[[int], PyTree]  # num_envs -> carry [B, ...] at the start of an episode
    step: EncodeStep
    unroll: EncodeRollout
    size: int  # features


def make_torso(
    space: Space, config: NetworkConfig, hidden_sizes: tuple[int, ...], network: Module | None = None
) -> tuple[nn.Module, int]:
    """Return (the torso that a config describes, or a user's `network`; the number of its features).

    It is for an observation space without its mask of legal actions.
    """
    if not jax.tree.leaves(without_mask(space).struct):
        raise InputError(f"the observation is {space}: except for masks and global states, it holds nothing to act on")
    if network is not None:
        return own_torso(space, network)
    if config.network in CNNS and not any(image_shape(part) for part in leaves(space)):
        raise InputError(f"network {config.network} needs images, and these observations have none: use auto or mlp")
    torso = Torso(
        space=without_mask(space),
        kind=config.network,
        hidden_sizes=hidden_sizes,
        activation=config.activation,
        layer_norm=config.layer_norm,
        dtype=jnp.dtype(config.precision),
        initializer=config.initializer,
    )
    if hidden_sizes:
        return torso, hidden_sizes[-1]
    features = jax.eval_shape(lambda: torso.init_with_output(jax.random.key(0), _example(space)())[0])
    return torso, features.shape[-1]  # linear: a head has the only layer


def hidden_layers(config: NetworkConfig, sizes: tuple[int, ...], gain: float = 2**0.5) -> MLP:
    """Return hidden layers with these units as a config describes them; `gain` as for `MLP`."""
    return MLP(
        hidden_sizes=sizes,
        activation=config.activation,
        layer_norm=config.layer_norm,
        dtype=jnp.dtype(config.precision),
        initializer=config.initializer,
        gain=gain,
    )


def check_layers(hidden_sizes: tuple[int, ...], what: str) -> None:
    """Raise an `InputError` if there are no hidden layers but `what` needs one."""
    if not hidden_sizes:
        raise InputError(f"hidden_sizes is empty; {what} needs at least one layer")


def encoder(
    space: Space, config: NetworkConfig, network: Module | None = None, *, sees_global_state: bool = False
) -> Encoder:
    """Return the encoder for an observation space, without a recurrent layer; arguments as for `recurrent_encoder`."""
    seen = space if sees_global_state else without_global_state(space)
    base = encoder_of(seen, *make_torso(seen, config, config.hidden_sizes, network))
    return base if sees_global_state else _blind(base)


def encoder_of(space: Space, torso: nn.Module, size: int) -> Encoder:
    """Return the encoder that a torso forms, from an observation space to `size` features."""
    example = _example(space)
    return Encoder(
        init=lambda key: init(torso, key, example()),
        initial_carry=lambda num_envs: (),
        step=lambda params, carry, observation: (_features(torso, params, observation), ()),
        unroll=lambda params, carry, observation, done: (_features(torso, params, observation), ()),
        size=size,
    )


def recurrent_encoder(
    space: Space,
    config: NetworkConfig,
    rnn: str,
    rnn_size: int,
    network: Module | None = None,
    *,
    sees_global_state: bool = False,
) -> Encoder:
    """Return the encoder for an observation space.

    Args:
      space: the space of observations.
      config: the settings of the torso.
      rnn: "none" or one of `RNNS`; a linear one unrolls by a parallel scan, GRU and LSTM with their products together.
      rnn_size: its units.
      network: a module that replaces the torso, below the recurrent layer.
      sees_global_state: whether it is the encoder of a centralized critic; a policy never sees the global state.
    """
    if rnn == "none":
        return encoder(space, config, network, sees_global_state=sees_global_state)
    space = space if sees_global_state else without_global_state(space)
    (torso, size), example = make_torso(space, config, config.hidden_sizes, network), _example(space)
    cell: Any = RNNS[rnn](rnn_size)

    def initial_carry(num_envs: int) -> PyTree:
        return cell.initialize_carry(jax.random.key(0), (num_envs, cell.features))

    def initialize(key: Key) -> PyTree:
        key_torso, key_cell = jax.random.split(key)
        carry = jax.tree.map(lambda x: x[0], initial_carry(1))
        return {
            "torso": init(torso, key_torso, example()),
            "rnn": init(cell, key_cell, carry, jnp.zeros(size)),
        }

    def step(params: PyTree, carry: PyTree, observation: PyTree) -> tuple[Array, PyTree]:
        carry, hidden = apply(cell, params["rnn"], carry, _features(torso, params["torso"], observation))
        return hidden, carry

    def unroll(params: PyTree, carry: PyTree, observation: PyTree, done: Array) -> tuple[Array, PyTree]:
        features = _features(torso, params["torso"], observation)
        if hasattr(cell, "unroll"):  # it takes a sequence at once
            after, hidden = cell.apply({"params": params["rnn"]}, carry, features, done, method=cell.unroll)
            return hidden, after
        step_cell = lambda carry, features: apply(cell, params["rnn"], carry, features)
        return _step_by_step(step_cell, carry, features, done, begin=initial_carry(done.shape[1]))

    base = Encoder(init=initialize, initial_carry=initial_carry, step=step, unroll=unroll, size=cell.features)
    return base if sees_global_state else _blind(base)


def _step_by_step(
    step: Callable[[PyTree, Array], tuple[PyTree, Array]],
    carry: PyTree,
    features: Array,
    done: Array,
    *,
    begin: PyTree,
) -> tuple[Array, PyTree]:
    """Return (hidden [T, B, n], carries [T, B] after each step); after the end of an episode, `begin` follows."""

    def advance(carry: PyTree, at: tuple[Array, Array]) -> tuple[PyTree, tuple[Array, PyTree]]:
        carry, hidden = step(carry, at[0])
        cleared = jax.tree.map(lambda new, old: jnp.where(at[1][:, None], new, old), begin, carry)
        return cleared, (hidden, carry)

    return jax.lax.scan(advance, carry, (features, done))[1]


def _blind(base: Encoder) -> Encoder:
    """Return an encoder that ignores the global state in its input."""
    return base._replace(
        step=lambda params, carry, observation: base.step(params, carry, without_global_state(observation)),
        unroll=lambda params, carry, observation, done: base.unroll(
            params, carry, without_global_state(observation), done
        ),
    )


def _example(space: Space) -> Callable[[], PyTree]:
    return lambda: split_mask(space.zeros())[0]  # made where it is traced: nothing is compiled for it


def _features(torso: nn.Module, params: PyTree, observation: PyTree) -> Array:
    return apply(torso, params, split_mask(observation)[0]).astype(jnp.float32)
