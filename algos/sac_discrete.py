"""SAC's policy and critics for discrete actions: expectations over all actions instead of samples.

`purerl train sac CartPole-v1` uses them. Source: Christodoulou (2019), arXiv:1910.07207.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.functional import masked
from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.functional.distributions import Categorical
from purerl.functional.q_targets import at_action, squared_errors
from purerl.networks.encoder import NetworkConfig
from purerl.networks.modules import Module
from purerl.networks.q_networks import QNetwork, num_actions, q_network
from purerl.types import Array, EnvironmentSpec, Key, PyTree


class CategoricalActorCritic(NamedTuple):
    """A categorical policy and two critics with a value per action: a `SoftActorCritic`."""

    network: QNetwork  # network of the policy's logits, and of each critic
    num_actions: int

    def init(self, key: Key) -> dict[str, PyTree]:
        """Return the parameters."""
        keys = jax.random.split(key, 3)
        critics = (self.network.init(keys[1]), self.network.init(keys[2]))
        return {"actor": self.network.init(keys[0]), "critics": critics}

    def policy(self, actor: PyTree, observation: PyTree) -> Categorical:
        """Return the policy over legal actions."""
        return Categorical(mask_illegal(self.network.apply(actor, observation, None), action_mask(observation)))

    def values(self, critics: PyTree, observation: PyTree) -> Array:
        """Return the critics' values of all actions, f32[2, N, n]."""
        return jnp.stack([self.network.apply(part, observation, None) for part in critics])

    def act(self, actor: PyTree, key: Key, observation: PyTree, explore: bool) -> Array:
        """Return actions i32[B]."""
        policy = self.policy(actor, observation)
        return policy.sample(seed=key) if explore else policy.mode()

    def soft_value(
        self, actor: PyTree, critics: PyTree, key: Key, observation: PyTree, temperature: Array
    ) -> tuple[Array, Array]:
        r"""Return (sum_a pi(a) (min_i Q_i(a) - temperature log pi(a)), the entropy), f32[N] each."""
        policy = self.policy(actor, observation)
        log_probs = jax.nn.log_softmax(policy.logits)
        value = jnp.min(self.values(critics, observation), axis=0) - temperature * log_probs
        return jnp.sum(jnp.exp(log_probs) * value, axis=-1), policy.entropy()

    def target_values(self, actor: PyTree, critics: PyTree, key: Key, observation: PyTree, temperature: Array) -> Array:
        """Return the soft value by the target networks, f32[N, 1]."""
        return self.soft_value(actor, critics, key, observation, temperature)[0][:, None]

    def errors(self, critics: PyTree, observation: PyTree, action: Array, target: Array) -> tuple[Array, Array]:
        """Return (the critics' loss, |TD error|), f32[N] each."""
        values = self.values(critics, observation)
        return squared_errors(at_action(values, jnp.broadcast_to(action, values.shape[:-1])), target)

    def entropy(self, actor: PyTree, key: Key, observation: PyTree) -> Array:
        """Return the policy's entropy, f32[...]."""
        return self.policy(actor, observation).entropy()

    def target_entropy(self, observation: PyTree, counted: Array) -> Array:
        """Return 0.9 log(number of legal actions), f32[], averaged over the observations that count."""
        mask = action_mask(observation)  # more than the log of the number of legal actions cannot be reached
        if mask is None:
            return 0.9 * jnp.log(jnp.float32(self.num_actions))
        legal = jnp.sum(mask, axis=-1, dtype=jnp.float32)  # 0 in a sampled row that holds no transition
        return 0.9 * masked.mean(jnp.log(jnp.maximum(legal, 1.0)), counted)


def categorical_actor_critic(
    spec: EnvironmentSpec, config: NetworkConfig, network: Module | None
) -> CategoricalActorCritic:
    """Return the policy and the critics for an environment with discrete actions; `network` replaces the torso."""
    size = num_actions(spec, "sac")
    return CategoricalActorCritic(
        network=q_network(spec.observation_space, size, config, network=network), num_actions=size
    )
