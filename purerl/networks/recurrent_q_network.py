"""Recurrent Q networks: values of every action from the observations so far."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.networks.encoder import NetworkConfig, recurrent_encoder
from purerl.networks.modules import Module
from purerl.networks.q_networks import QHead
from purerl.networks.torsos import apply, init
from purerl.spaces import Space
from purerl.types import Array, Key, PyTree


class QStep(Protocol):
    """`RecurrentQNetwork.step`."""

    def __call__(self, params: PyTree, carry: PyTree, observation: PyTree, /) -> tuple[Array, PyTree]:
        """Return (Q values f32[..., n], carry [...]) for a carry and observations [...]."""
        ...


class QUnroll(Protocol):
    """`RecurrentQNetwork.unroll`."""

    def __call__(self, params: PyTree, carry: PyTree, observation: PyTree, done: Array, /) -> tuple[Array, PyTree]:
        """Return Q values along T steps.

        Args:
          params: the parameters of the network.
          carry: [B, ...], before the first step.
          observation: [T, B, ...].
          done: bool[T, B]; the carry starts over after an episode's end.

        Returns:
          (Q values f32[T, B, n], carry [T, B, ...] after each step, before an episode's end clears it).
        """
        ...


class RecurrentQNetwork(NamedTuple):
    """A recurrent Q network as pure functions. Illegal actions have the lowest value."""

    init: Callable[[Key], PyTree]  # key -> params
    initial_carry: Callable[[int], PyTree]  # num_envs -> carry [B, ...]
    step: QStep
    unroll: QUnroll


def recurrent_q_network(
    space: Space,
    num_actions: int,
    config: NetworkConfig,
    *,
    rnn: str,
    rnn_size: int,
    dueling: bool = True,
    network: Module | None = None,
) -> RecurrentQNetwork:
    """Return a recurrent Q network for an observation space: a torso or `network`, a recurrent layer, a head."""
    base = recurrent_encoder(space, config, rnn, rnn_size, network)
    head = QHead(
        num_actions=num_actions,
        hidden_size=rnn_size if dueling else None,
        dueling=dueling,
        dtype=jnp.dtype(config.precision),
        initializer=config.initializer,
    )

    def initialize(key: Key) -> PyTree:
        key_body, key_head = jax.random.split(key)
        return {"body": base.init(key_body), "head": init(head, key_head, jnp.zeros(base.size))}

    def step(params: PyTree, carry: PyTree, observation: PyTree) -> tuple[Array, PyTree]:
        features, carry = base.step(params["body"], carry, observation)
        return mask_illegal(apply(head, params["head"], features), action_mask(observation)), carry

    def unroll(params: PyTree, carry: PyTree, observation: PyTree, done: Array) -> tuple[Array, PyTree]:
        features, after = base.unroll(params["body"], carry, observation, done)
        return mask_illegal(apply(head, params["head"], features), action_mask(observation)), after

    return RecurrentQNetwork(init=initialize, initial_carry=base.initial_carry, step=step, unroll=unroll)
