"""Actor-critic: a policy and a value function, with or without memory, as pure functions."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.errors import InputError
from purerl.functional.distributions import ActionHead
from purerl.networks.encoder import NetworkConfig, body
from purerl.networks.torsos import apply, dense, init, mask_illegal, private, split_mask
from purerl.spaces import Space
from purerl.types import Array, Key, PyTree, pytree, static


class ActorCritic(NamedTuple):
    """A policy and a value function. Without memory, `carry` is () and any leading axes will do."""

    init: Callable[[Key], PyTree]  # key -> params
    initial_carry: Callable[[int], PyTree]  # num_envs -> carry [B, ...] at the start of an episode
    policy: Callable[[PyTree, PyTree, PyTree], tuple[Any, PyTree]]
    # (params, carry[B], observation[B]) -> (distribution[B], carry[B])
    value: Callable[[PyTree, PyTree, PyTree], Array]  # (params, carry[...], observation[...]) -> f32[...]
    unroll: Callable[[PyTree, PyTree, PyTree, Array], tuple[Any, Array, PyTree]]
    # (params, carry[B], observation[T, B], done[T, B]) ->
    #   (distribution[T, B], value f32[T, B], carry [T, B] after each step, before an ending clears it)


@pytree
class ActorCriticConfig(NetworkConfig):
    """Settings of the two networks."""

    share_body: bool = static(
        default=False, doc="policy and value function share all below their heads, as is usual for images"
    )


def actor_critic(space: Space, head: ActionHead, config: ActorCriticConfig) -> ActorCritic:
    """Return the policy and the value function for an observation space and an action head.

    Without memory each has a body of its own, so that acting does not pay for the critic, unless they are to share it;
    with memory they always share one. Where the observation holds a global state, a critic of its own, without memory,
    sees it, and the policy does not.

    Raises:
      InputError: if a critic of its own is to share its body.
    """
    central = private(space) is not space
    if central and config.share_body:
        raise InputError("share_body goes without centralized_critic: that critic sees what the policy does not")
    shared = (config.rnn != "none" or config.share_body) and not central
    base = body(private(space), config)
    critic_base = body(space, dataclasses.replace(config, rnn="none")) if central else base
    layer = partial(dense, initializer=config.initializer)
    actor_head, critic_head = layer(head.num_outputs, 0.01), layer(1, 1.0)

    def initialize(key: Key) -> PyTree:
        keys = jax.random.split(key, 4)
        features = jnp.zeros(base.size)
        bodies = {"body": base.init(keys[0])}
        if not shared:
            bodies["critic_body"] = critic_base.init(keys[1])
        return {
            **bodies,
            "actor": init(actor_head, keys[2], features),
            "critic": init(critic_head, keys[3], jnp.zeros(critic_base.size)),
            "free": jnp.zeros(head.num_free),
        }

    def distribution(params: PyTree, features: Array, observation: PyTree) -> Any:
        outputs = mask_illegal(apply(actor_head, params["actor"], features), split_mask(observation)[1])
        return head.distribution(outputs, params["free"])

    def policy(params: PyTree, carry: PyTree, observation: PyTree) -> tuple[Any, PyTree]:
        observation = private(observation)
        features, carry = base.step(params["body"], carry, observation)
        return distribution(params, features, observation), carry

    def value(params: PyTree, carry: PyTree, observation: PyTree) -> Array:
        features, _ = critic_base.step(params["body" if shared else "critic_body"], carry, observation)
        return apply(critic_head, params["critic"], features)[..., 0]

    def unroll(params: PyTree, carry: PyTree, observation: PyTree, done: Array) -> tuple[Any, Array, PyTree]:
        features, after = base.unroll(params["body"], carry, private(observation), done)
        if not shared:
            return distribution(params, features, private(observation)), value(params, (), observation), after
        values = apply(critic_head, params["critic"], features)[..., 0]
        return distribution(params, features, observation), values, after

    return ActorCritic(initialize, base.initial_carry, policy, value, unroll)
