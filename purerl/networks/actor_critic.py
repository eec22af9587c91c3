"""Actor-critic: a policy and a value function, recurrent or not, as pure functions."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.errors import InputError, check_arguments
from purerl.functional.action_masks import action_mask, mask_illegal, without_global_state
from purerl.functional.counters import increment
from purerl.functional.distributions import ActionHead, action_head
from purerl.functional.normalize import (
    ReturnScale,
    RunningStatistics,
    denormalized_values,
    normalized,
    normalized_values,
)
from purerl.networks.encoder import NetworkConfig, hidden_layers, recurrent_encoder
from purerl.networks.modules import Module, is_module, own_torso
from purerl.networks.torsos import RNNS, apply, dense, init
from purerl.spaces import Discrete, Space
from purerl.types import Array, EnvironmentSpec, Key, PyTree, pytree, static


class ApplyPolicy(Protocol):
    """The policy function of an actor-critic: `ActorCritic.policy`."""

    def __call__(self, params: PyTree, carry: PyTree, observation: PyTree, /) -> tuple[Any, PyTree]:
        """Return (the distribution of actions [B], the carry [B]), of a carry [B] and observations [B, ...]."""
        ...


class ApplyValue(Protocol):
    """The value function of an actor-critic: `ActorCritic.value`."""

    def __call__(self, params: PyTree, carry: PyTree, observation: PyTree, /) -> Array:
        """Return V(s), f32[...], of a carry [...] and observations [...]."""
        ...


class UnrollActorCritic(Protocol):
    """The policy and the value function along a rollout: `ActorCritic.unroll`."""

    def __call__(self, params: PyTree, carry: PyTree, observation: PyTree, done: Array, /) -> tuple[Any, Array, PyTree]:
        """Return (distribution [T, B], value f32[T, B], carry [T, B] after each step).

        Args:
          params: from `init`.
          carry: [B], before the first step.
          observation: [T, B, ...].
          done: bool[T, B], where an episode ends; the carry that is returned there is the one before it is cleared.
        """
        ...


class ActorCritic(NamedTuple):
    """A policy and a value function. Without a recurrent layer, `carry` is () and there may be any leading axes."""

    init: Callable[[Key], PyTree]  # key -> params
    initial_carry: Callable[[int], PyTree]  # num_envs -> carry [B, ...] at the start of an episode
    policy: ApplyPolicy  # (params, carry, observation) -> (distribution, carry)
    value: ApplyValue  # (params, carry, observation) -> f32[...]
    unroll: UnrollActorCritic  # (params, carry, observation, done) -> (distribution, value, carries)


class PolicyAgent(NamedTuple):
    """The state of an agent that learns a policy from its own rollouts."""

    params: PyTree
    opt_state: PyTree
    num_updates: Array  # i32[], so far; drives every schedule
    observation_statistics: RunningStatistics | None  # None: observations are not normalized
    return_scale: ReturnScale | None  # None: rewards are not normalized
    value_statistics: RunningStatistics | None  # statistics of the value's targets; the critic predicts in their units
    curiosity: PyTree = None  # `purerl.algos.curiosity.Curiosity`, or None

    def normalize(self, observation: PyTree) -> PyTree:
        """Return observations [...] as the networks' inputs."""
        return normalized(self.observation_statistics, observation)

    def in_reward_units(self, value: Array) -> Array:
        """Return the critic's predictions f32[...] in units of the reward."""
        return denormalized_values(self.value_statistics, value)

    def with_normalized_targets(self, batch: PyTree) -> tuple["PolicyAgent", PyTree]:
        """Return (the agent with the value targets added to its statistics, the batch in the critic's units).

        Old values stay in the units of the old statistics; targets use the new ones. Without statistics, neither
        changes.

        Args:
          batch: a record of value, advantage and target f32[T, B] and mask bool[T, B] or None.
        """
        old = self.value_statistics
        if old is None:
            return self, batch
        target = batch.value + batch.advantage
        new = old.update(target, batch.mask)
        batch = batch._replace(value=normalized_values(old, batch.value), target=normalized_values(new, target))
        return self._replace(value_statistics=new), batch

    def stepped(self, params: PyTree, opt_state: PyTree) -> "PolicyAgent":
        """Return the agent with new parameters and optimizer state, counting one more update."""
        return self._replace(params=params, opt_state=opt_state, num_updates=increment(self.num_updates))


@pytree
class ActorCriticConfig(NetworkConfig):
    """Settings of the two networks."""

    share_body: bool = static(
        default=False, doc="policy and value function share everything below their heads, as is usual for images"
    )
    rnn: str = static(default="none", doc="type of the recurrent layer", choices=("none", *RNNS))
    rnn_size: int = static(default=64, doc="units of the recurrent state", at_least=1)
    head_sizes: tuple[int, ...] = static(
        default=(),
        doc="units of separate hidden layers of policy and value function, after the shared body",
        at_least=1,
    )


HEAD_GAIN = 2.0  # gain of `head_sizes`, from Craftax_Baselines: recurrent PPO learns more there than with sqrt 2

NetworkFactory = Callable[[Space, ActionHead, ActorCriticConfig], ActorCritic]
Network = NetworkFactory | Module  # what an algorithm accepts as `network`


def network_of(network: Network) -> NetworkFactory:
    """Return a factory unchanged; for a module, the factory of networks that have it below their heads.

    Raises:
      InputError: if it is neither.
    """
    if is_module(network):
        return partial(actor_critic, network=network)
    if not callable(network) or isinstance(network, type):
        own_torso(Discrete(n=1), network)  # raises
    try:
        check_arguments(network, "network", "space, head, config")
    except InputError as error:
        raise InputError(f"{error}, or a module: observation [N, ...] -> features f32[N, n]") from None
    return network  # type: ignore[return-value]


def networks_for(
    spec: EnvironmentSpec, config: ActorCriticConfig, network: Network, *, squash: bool = False
) -> tuple[ActionHead, ActorCritic]:
    """Return (the action head, the networks) for an environment's spaces.

    Args:
      spec: the environment's spaces.
      config: the settings of the networks.
      network: a module below the heads, or a factory of both networks.
      squash: continuous actions through tanh instead of clipped.

    Raises:
      InputError: if there is no distribution for the action space, or `network` is neither a factory nor a module.
    """
    head = action_head(spec.action_space, squash)
    return head, network_of(network)(spec.observation_space, head, config)


class Memories(NamedTuple):
    """The recurrent states of two recurrent layers."""

    actor: PyTree
    critic: PyTree


def actor_critic(
    space: Space, head: ActionHead, config: ActorCriticConfig, network: Module | None = None
) -> ActorCritic:
    """Return the policy and the value function for an observation space and an action head.

    Each has its own encoder, so that acting does not compute the critic; with `share_body` or a recurrent layer they
    share one, followed by separate layers of `head_sizes`. If the observation holds a global state, the critic has its
    own encoder and sees that state; the policy does not. With a recurrent layer each then has its own, and the carry is
    `Memories`, both of which `policy` advances.

    A `network` replaces the torso of each encoder, except in a critic that sees the global state.

    Raises:
      InputError: if a critic that sees the global state is to share its encoder.
    """
    central = without_global_state(space) is not space
    if central and config.share_body:
        raise InputError("share_body and centralized_critic cannot be combined: that critic sees more than the policy")
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
    """Return the layers above a body, the last of which has weights of gain `scale`."""
    last = dense(outputs, scale, initializer=config.initializer)
    if not config.head_sizes:
        return last
    return nn.Sequential([hidden_layers(config, config.head_sizes, HEAD_GAIN), last])
