"""Actor-critic: a policy and a value function, recurrent or not, as pure functions."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.errors import InputError
from purerl.functional.action_masks import action_mask, mask_illegal, without_global_state
from purerl.functional.distributions import ActionHead
from purerl.networks.encoder import NetworkConfig, recurrent_encoder
from purerl.networks.modules import Module, is_module, own_torso
from purerl.networks.torsos import MLP, RNNS, apply, dense, init
from purerl.spaces import Discrete, Space
from purerl.types import Array, Key, PyTree, pytree, static


class ActorCritic(NamedTuple):
    """A policy and a value function. Without a recurrent layer, `carry` is () and any leading axes will do."""

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
    rnn: str = static(default="none", doc="recurrent state", choices=("none", *RNNS))
    rnn_size: int = static(default=64, doc="units of the recurrent state", at_least=1)
    head_sizes: tuple[int, ...] = static(
        default=(),
        doc="units of hidden layers that policy and value function have each, behind a body in common",
        at_least=1,
    )


HEAD_GAIN = 2.0  # of `head_sizes`, as Craftax_Baselines has it: PPO with memory learns more there than by sqrt 2

NetworkFactory = Callable[[Space, ActionHead, ActorCriticConfig], ActorCritic]


def network_of(network: NetworkFactory | Module) -> NetworkFactory:
    """Return a factory as it is, and of a module the one whose networks have it below their heads.

    Raises:
      InputError: if it is neither.
    """
    if is_module(network):
        return partial(actor_critic, network=network)
    if not callable(network) or isinstance(network, type):
        own_torso(Discrete(n=1), network)  # raises
    return network  # type: ignore[return-value]


class Memories(NamedTuple):
    """The carry of two recurrent layers."""

    actor: PyTree
    critic: PyTree


def actor_critic(
    space: Space, head: ActionHead, config: ActorCriticConfig, network: Module | None = None
) -> ActorCritic:
    """Return the policy and the value function for an observation space and an action head.

    Each has its own encoder, so that acting does not pay for the critic; with `share_body` or a recurrent layer
    they share one, and `head_sizes` are layers behind it that each has for itself. Where the observation holds a
    global state, the critic has its own encoder and sees that state; the policy does not. With a recurrent layer
    each then has its own, and the carry is `Memories`, both of which `policy` advances.

    A `network` stands for the torso of each encoder, except for that of a critic which sees the global state.

    Raises:
      InputError: if a critic that sees the global state is to share its encoder.
    """
    central = without_global_state(space) is not space
    if central and config.share_body:
        raise InputError("share_body goes without centralized_critic: that critic sees what the policy does not")
    shared = (config.rnn != "none" or config.share_body) and not central
    base = recurrent_encoder(space, config, config.rnn, config.rnn_size, network)
    wide = lambda: recurrent_encoder(space, config, config.rnn, config.rnn_size, sees_global_state=True)
    critic_base = wide() if central else base
    two = central and config.rnn != "none"
    of_actor, of_critic = (lambda carry: carry.actor if two else carry), (lambda carry: carry.critic if two else carry)
    actor_head, critic_head = _head(config, head.num_outputs, 0.01), _head(config, 1, 1.0)

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
            "log_std": jnp.zeros(head.num_log_std),
        }

    def distribution(params: PyTree, features: Array, observation: PyTree) -> Any:
        outputs = mask_illegal(apply(actor_head, params["actor"], features), action_mask(observation))
        return head.distribution(outputs, params["log_std"])

    def initial_carry(num_envs: int) -> PyTree:
        carry = base.initial_carry(num_envs)
        return Memories(actor=carry, critic=critic_base.initial_carry(num_envs)) if two else carry

    def policy(params: PyTree, carry: PyTree, observation: PyTree) -> tuple[Any, PyTree]:
        features, after = base.step(params["body"], of_actor(carry), observation)
        if two:
            _, critic = critic_base.step(params["critic_body"], carry.critic, observation)
            after = Memories(actor=after, critic=critic)
        return distribution(params, features, observation), after

    def value(params: PyTree, carry: PyTree, observation: PyTree) -> Array:
        features, _ = critic_base.step(params["body" if shared else "critic_body"], of_critic(carry), observation)
        return apply(critic_head, params["critic"], features)[..., 0]

    def unroll(params: PyTree, carry: PyTree, observation: PyTree, done: Array) -> tuple[Any, Array, PyTree]:
        features, after = base.unroll(params["body"], of_actor(carry), observation, done)
        if shared:
            values = apply(critic_head, params["critic"], features)[..., 0]
            return distribution(params, features, observation), values, after
        policies = distribution(params, features, observation)
        features, critic = critic_base.unroll(params["critic_body"], of_critic(carry), observation, done)
        after = Memories(actor=after, critic=critic) if two else after
        return policies, apply(critic_head, params["critic"], features)[..., 0], after

    return ActorCritic(init=initialize, initial_carry=initial_carry, policy=policy, value=value, unroll=unroll)


def _head(config: ActorCriticConfig, outputs: int, scale: float) -> nn.Module:
    """Return what stands behind a body, whose last layer has weights of gain `scale`."""
    last = dense(outputs, scale, initializer=config.initializer)
    if not config.head_sizes:
        return last
    layers = MLP(
        hidden_sizes=config.head_sizes,
        activation=config.activation,
        layer_norm=config.layer_norm,
        dtype=jnp.dtype(config.precision),
        initializer=config.initializer,
        gain=HEAD_GAIN,
    )
    return nn.Sequential([layers, last])


def actor_critic_of(factory: Callable[..., Any]) -> NetworkFactory | None:
    """Return the networks of an algorithm whose `network` argument is an actor-critic; None of any other algorithm."""
    function = factory.func if isinstance(factory, partial) else factory
    argument = inspect.signature(function).parameters.get("network")
    if argument is None or argument.default is not actor_critic:
        return None
    given = factory.keywords if isinstance(factory, partial) else {}
    return network_of(given.get("network", actor_critic))
