"""MPO: maximum a posteriori policy optimization, from replay. `purerl train mpo Pendulum-v1`.

Critics learn the value of the policy's actions. Actions of the old policy are weighted by their values, and the policy
is fitted to them by maximum likelihood, within a trust region. The temperature of the weights and the weight of the
trust region are learned dual variables.
Source: Abdolmaleki et al. (2018), arXiv:1806.06920; separate terms for mean and standard deviation: the same (2018),
arXiv:1812.02256. Here the old policy is the target network, which follows at every step, and critics bootstrap from the
policy's mean value.
"""

import dataclasses
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.algos.off_policy import (
    ActorCriticReplayConfig,
    OffPolicyAgent,
    learn_from_replay,
    new_agent,
    new_statistics,
    polyak,
    random_at_first,
    uniform_replay,
)
from purerl.fields import validate
from purerl.functional.action_masks import action_mask, mask_illegal, without_global_state
from purerl.functional.distributions import Categorical, Normal, kl_parts
from purerl.functional.normalize import normalized
from purerl.functional.q_targets import at_action
from purerl.functional.unit_box import UnitBox, unit_box
from purerl.networks.critics import Critics, critics
from purerl.networks.encoder import Encoder, encoder
from purerl.networks.modules import Module
from purerl.networks.q_networks import QNetwork, num_actions, q_network
from purerl.networks.torsos import apply, dense
from purerl.networks.torsos import init as init_module
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.optim.trust_region import initial_duals, positive, trust_loss
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Discrete
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class MPOConfig(ActorCriticReplayConfig):
    """Settings of MPO."""

    num_critics: int = static(default=2, doc="number of critics, whose minimum is used", at_least=1)
    num_samples: int = static(default=20, doc="actions sampled per observation, for continuous actions", at_least=1)
    temperature_epsilon: float = number(
        default=0.1, doc="bound on the KL divergence of the weighted actions from the old policy", above=0
    )
    kl_epsilon: float = number(
        default=0.01,
        doc="bound on the KL divergence of choices or means per update, in nats (acme: 0.0025; means: per dimension)",
        above=0,
    )
    spread_kl_epsilon: float = number(
        default=1e-4,
        doc="bound on the KL divergence of standard deviations per update, in nats (acme: 1e-6 per dimension)",
        above=0,
    )
    initial_temperature: float = number(
        default=1.0, doc="initial temperature of the weights, in units of Q (acme: about 10; discrete: 3)", above=0
    )
    initial_kl_weight: float = number(
        default=5.0,
        doc="initial weight of both KL penalties (acme: means 10, standard deviations 1000, discrete 3)",
        above=0,
    )
    dual_learning_rate: float = number(default=1e-2, doc="learning rate of Adam, for the dual variables", above=0)


def mpo(
    spec: EnvironmentSpec,
    config: MPOConfig,
    *,
    optimizer: Optimizer = partial(adam_by_plan, eps=1e-8),
    network: Module | None = None,
    replay: Replay | None = None,
) -> Algorithm:
    r"""Return MPO.

        critics: (Q_i(s, a) - [scale r + discount E_{a' ~ pi'} min_j Q'_j(s', a')])^2 / 2
        policy:  -sum_a w_a log pi(a|s) + T (epsilon_T + log E_{a ~ pi'} exp(Q'(s, a) / T))
                 + sum_k [c_k (epsilon_k - sg KL_k) + sg(c_k) KL_k],  w ~ pi'(a|s) exp(Q'(s, a) / T)

    with pi' and Q' the target networks, T the temperature, KL_k the divergence of the policy from pi', of choices or
    means and of standard deviations, and c_k their weights; sg stops gradients. Over discrete actions the expectations
    are exact. The mean is fitted with the old standard deviation, and the standard deviation with the old mean.

    Args:
      spec: the environment's spaces: discrete actions, or a Box with finite bounds.
      config: the settings.
      optimizer: for the networks and the dual variables: an optax optimizer such as `optax.lion`, or a function
        `GradientPlan` -> optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], below the policy's
        head; each critic of continuous actions has its own copy, followed by `hidden_sizes` on its features and the
        action.
      replay: a replay; by default a uniform one.

    Raises:
      InputError: if a setting is out of range or the actions fit neither form.
    """
    validate(config, "mpo")
    discrete = isinstance(spec.action_space, Discrete)
    net = (categorical_actor_critic if discrete else normal_actor_critic)(spec, config, network)
    buffer = replay or uniform_replay(spec, config)
    configs = {"networks": config, "duals": dataclasses.replace(config, learning_rate=config.dual_learning_rate)}
    optimizers = {part: optimizer_of(of, config.num_gradient_steps, optimizer) for part, of in configs.items()}

    def init(key: Key) -> OffPolicyAgent:
        networks = net.init(key)
        params = {"networks": networks, "duals": initial_duals(config)}
        opt_state = {part: optimizer_at(jnp.int32(0)).init(params[part]) for part, optimizer_at in optimizers.items()}
        return new_agent(params, networks, opt_state, buffer, new_statistics(spec, config))

    def act(agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        inputs = normalized(agent.observation_statistics, observation)
        policy = net.distribution(agent.params["networks"]["actor"], inputs)
        if not explore:
            return net.to_action(policy.mode()), carry, ()
        action = net.to_action(policy.sample(seed=key))
        return random_at_first(spec.action_space, config, agent, key, observation, action=action), carry, ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        return learn_from_replay(agent, key, rollout, replay=buffer, gradient_step=gradient_step, config=config)

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        # Each loss reaches only its part of the parameters.
        gradient, (error, metrics) = jax.grad(loss, has_aux=True)(agent.params, agent.target_params, batch, key)
        stepped = {
            part: apply_gradients(
                optimizer_at(agent.num_updates), gradient[part], agent.opt_state[part], agent.params[part]
            )
            for part, optimizer_at in optimizers.items()
        }
        params, opt_state = ({part: both[i] for part, both in stepped.items()} for i in range(2))
        target_params = polyak(agent.target_params, params["networks"], config.tau)
        return agent._replace(params=params, target_params=target_params, opt_state=opt_state), error, metrics

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key):
        key_next, key_now = jax.random.split(key)
        networks, duals, mean = params["networks"], positive(params["duals"]), lambda x: jnp.mean(batch.weight * x)

        next_policy = net.distribution(target_params["actor"], batch.next_observation)
        draws, log_share = net.candidates(next_policy, key_next)
        next_q = jnp.min(net.values(target_params["critics"], batch.next_observation, draws), axis=0)
        next_value = jnp.sum(jnp.exp(log_share) * next_q, axis=0)
        target = config.reward_scale * batch.reward + batch.discount * next_value
        td_error = net.q(networks["critics"], batch.observation, batch.action) - target
        critic_loss = 0.5 * mean(jnp.sum(td_error**2, axis=0))

        old_policy = net.distribution(target_params["actor"], batch.observation)
        policy = net.distribution(networks["actor"], batch.observation)
        draws, log_share = net.candidates(old_policy, key_now)
        value = jnp.min(net.values(target_params["critics"], batch.observation, draws), axis=0)
        weight, log_mean = weights(value, log_share, duals.temperature)
        fit = jnp.sum(jax.lax.stop_gradient(weight) * net.log_prob(policy, old_policy, draws), axis=0)
        policy_loss, temperature_loss = -mean(fit), duals.temperature * (config.temperature_epsilon + mean(log_mean))
        kl, spread_kl = (mean(part) for part in kl_parts(old_policy, policy))

        metrics = {
            "critic_loss": critic_loss,
            "policy_loss": policy_loss,
            "entropy": jnp.mean(policy.entropy()),
            "kl": kl,
            "spread_kl": spread_kl,
            "temperature": duals.temperature,
            "kl_weight": duals.kl_weight,
        }
        total = critic_loss + policy_loss + temperature_loss + trust_loss(duals, kl, spread_kl, config)
        return total, (jnp.mean(jnp.abs(td_error), axis=0), metrics)

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


def weights(value: Array, log_share: Array, temperature: Array) -> tuple[Array, Array]:
    """Return (weights f32[S, N], log E exp(Q / T) f32[N]) of candidates, from their values and log-probabilities."""
    scores = log_share + value / temperature
    return jax.nn.softmax(scores, axis=0), jax.nn.logsumexp(scores, axis=0)


class NormalActorCritic(NamedTuple):
    """A normal policy, whose samples are clipped to [-1, 1], and critics of these actions.

    Each of N observations has S candidates: samples of the policy.
    """

    box: UnitBox
    base: Encoder
    head: Any  # a module, features f32[..., n] -> f32[..., 2 x size]
    critics: Critics
    num_samples: int  # S

    def init(self, key: Key) -> dict[str, PyTree]:
        """Return the parameters {"actor", "critics"}."""
        keys = jax.random.split(key, 3)
        head = init_module(self.head, keys[1], jnp.zeros(self.base.size))
        return {"actor": {"body": self.base.init(keys[0]), "head": head}, "critics": self.critics.init(keys[2])}

    def distribution(self, actor: PyTree, observation: PyTree) -> Normal:
        """Return the policy [N]."""
        features, _ = self.base.step(actor["body"], (), without_global_state(observation))
        mean, spread = jnp.split(apply(self.head, actor["head"], features), 2, axis=-1)
        std = 0.5 * jax.nn.softplus(spread) / math.log(2.0) + 1e-3  # initially half the half width
        return Normal(jnp.tanh(mean), jnp.log(std))

    def to_action(self, sample: Array) -> Array:
        """Return actions of the space."""
        return self.box.from_unit(jnp.clip(sample, -1.0, 1.0))

    def candidates(self, policy: Any, key: Key) -> tuple[Array, Array]:
        """Return (the candidates [S, N, ...], the log of their probabilities f32[S, N])."""
        samples = jax.vmap(lambda key: policy.sample(seed=key))(jax.random.split(key, self.num_samples))
        return samples, jnp.full(samples.shape[:2], -math.log(self.num_samples), jnp.float32)

    def log_prob(self, policy: Any, old: PyTree, samples: Array) -> Array:
        """Return the log-likelihoods f32[S, N] that fit the policy's mean and, separately, its standard deviation."""
        of_mean, of_spread = Normal(policy.mean, old.log_std), Normal(old.mean, policy.log_std)
        return jax.vmap(lambda sample: of_mean.log_prob(sample) + of_spread.log_prob(sample))(samples)

    def values(self, critics: PyTree, observation: PyTree, samples: Array) -> Array:
        """Return Q of the candidates, f32[num, S, N]."""
        repeated = jax.tree.map(lambda x: jnp.broadcast_to(x, samples.shape[:1] + x.shape), observation)
        return self.critics.apply(critics, repeated, jnp.clip(samples, -1.0, 1.0))

    def q(self, critics: PyTree, observation: PyTree, action: Array) -> Array:
        """Return Q of the actions taken, f32[num, N]."""
        return self.critics.apply(critics, observation, self.box.to_unit(action))


def normal_actor_critic(spec: EnvironmentSpec, config: MPOConfig, network: Module | None) -> NormalActorCritic:
    """Return the policy and the critics for continuous actions; `network` replaces the torsos."""
    box, observed = unit_box(spec.action_space, "mpo"), without_global_state(spec.observation_space)
    return NormalActorCritic(
        box=box,
        base=encoder(observed, config, network),
        head=dense(2 * box.size, 0.01, initializer=config.initializer),
        critics=critics(spec.observation_space, box.size, config, num=config.num_critics, network=network),
        num_samples=config.num_samples,
    )


class CategoricalActorCritic(NamedTuple):
    """A categorical policy, and critics with a value per action; the candidates are all actions."""

    network: QNetwork  # network of the policy's logits, and of each critic
    num_critics: int

    def init(self, key: Key) -> dict[str, PyTree]:
        """Return the parameters {"actor", "critics"}."""
        keys = jax.random.split(key, 1 + self.num_critics)
        return {"actor": self.network.init(keys[0]), "critics": tuple(self.network.init(key) for key in keys[1:])}

    def distribution(self, actor: PyTree, observation: PyTree) -> Categorical:
        """Return the policy [N]."""
        return Categorical(mask_illegal(self.network.apply(actor, observation, None), action_mask(observation)))

    def to_action(self, sample: Array) -> Array:
        """Return actions of the space."""
        return sample

    def candidates(self, policy: Any, key: Key) -> tuple[Array, Array]:
        """Return (the candidates i32[S, N], the log of their probabilities f32[S, N])."""
        log_share = jnp.moveaxis(jax.nn.log_softmax(policy.logits), -1, 0)
        each = jnp.arange(log_share.shape[0], dtype=jnp.int32)
        return jnp.broadcast_to(each[:, None], log_share.shape), log_share

    def log_prob(self, policy: Any, old: PyTree, samples: Array) -> Array:
        """Return the log-likelihoods f32[S, N] that fit the policy."""
        return jax.vmap(policy.log_prob)(samples)

    def of_all(self, critics: PyTree, observation: PyTree) -> Array:
        """Return Q of all actions, f32[num, N, n]."""
        return jnp.stack([self.network.apply(part, observation, None) for part in critics])

    def values(self, critics: PyTree, observation: PyTree, samples: Array) -> Array:
        """Return Q of the candidates, f32[num, S, N]."""
        return jnp.moveaxis(self.of_all(critics, observation), -1, 1)

    def q(self, critics: PyTree, observation: PyTree, action: Array) -> Array:
        """Return Q of the actions taken, f32[num, N]."""
        return jax.vmap(lambda q: at_action(q, action))(self.of_all(critics, observation))


def categorical_actor_critic(
    spec: EnvironmentSpec, config: MPOConfig, network: Module | None
) -> CategoricalActorCritic:
    """Return the policy and the critics for discrete actions; `network` replaces the torsos."""
    size = num_actions(spec, "mpo")
    return CategoricalActorCritic(
        network=q_network(spec.observation_space, size, config, network=network), num_critics=config.num_critics
    )
