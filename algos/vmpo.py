"""V-MPO: maximum a posteriori policy optimization, on-policy. `purerl train vmpo CartPole-v1`.

The better half of the samples is weighted by advantage, and the policy is fitted to it by maximum likelihood, within a
trust region. The temperature of the weights and the weight of the trust region are learned dual variables.
Source: Song et al. (2019), arXiv:1909.12238; separate KL terms for mean and standard deviation: Abdolmaleki et al.
(2018), arXiv:1812.02256. Here the policy that acted is the reference of each rollout, as in PPO.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.algos.policy_gradient import PolicyConfig, estimate_values, new_agent, preprocess
from purerl.algos.ppo import act
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.distributions import kl_parts
from purerl.functional.returns import gae, successor_values
from purerl.networks.actor_critic import Network, PolicyAgent, actor_critic, networks_for
from purerl.optim.minibatch import check_minibatches, rollout_minibatches
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.optim.schedules import scheduled
from purerl.optim.trust_region import initial_duals, positive, trust_loss
from purerl.types import (
    Algorithm,
    Array,
    EnvironmentSpec,
    Key,
    Metrics,
    PyTree,
    Rollout,
    number,
    pytree,
    static,
)


@pytree
class VMPOConfig(PolicyConfig):
    """Settings of V-MPO."""

    num_envs: int = 16
    rollout_length: int = 64
    learning_rate: float = number(default=1e-3, doc="learning rate of Adam, for networks and dual variables", above=0)
    entropy_coefficient: float = 0.0
    num_epochs: int = static(default=4, doc="passes over each rollout", at_least=1)
    num_minibatches: int = static(default=2, doc="gradient steps per pass", at_least=1)
    normalize_advantage: bool = static(default=True, doc="standardize the advantages of each rollout (paper: no)")
    temperature_epsilon: float = number(
        default=0.1, doc="bound on the KL divergence of the weights from uniform weights, in nats", above=0
    )
    kl_epsilon: float = number(
        default=0.01, doc="bound on the KL divergence of choices or means per update, in nats", above=0
    )
    spread_kl_epsilon: float = number(
        default=1e-3, doc="bound on the KL divergence of standard deviations per update, in nats", above=0
    )
    initial_temperature: float = number(default=1.0, doc="initial temperature, in units of the advantage", above=0)
    initial_kl_weight: float = number(default=5.0, doc="initial weight of both KL penalties", above=0)

    @property
    def samples_per_gradient(self) -> int:
        """Environment steps in a minibatch."""
        return self.steps_per_update // self.num_minibatches


class Batch(NamedTuple):
    """The loss's inputs for each step of a rollout, [T, B, ...], or of a minibatch."""

    observation: PyTree
    raw_action: PyTree  # the policy's sample, before clipping or squashing
    advantage: Array  # f32
    target: Array  # f32, the return that V(s) should be
    done: Array  # bool
    mask: Array | None  # bool, which samples count; None: all


def vmpo(
    spec: EnvironmentSpec,
    config: VMPOConfig,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: Network = actor_critic,
) -> Algorithm:
    r"""Return V-MPO for an environment with discrete, multi-discrete, continuous or dict actions.

        loss = -sum_i w_i log pi(a_i|s_i) + T (epsilon_T + log mean_i exp(A_i / T)) + c_v (V - R)^2 / 2
               + sum_k [c_k (epsilon_k - sg KL_k) + sg(c_k) KL_k],  w = softmax(A / T)

    i: the half of the samples whose advantages A are highest; T: the temperature; KL_k: the divergence of the policy
    from the one that acted, in its choices or means and in its standard deviations; c_k: their weights; sg stops
    gradients. With `config.rnn` the policy is recurrent: its minibatches are complete sequences, one per environment.

    Args:
      spec: the environment's spaces.
      config: the settings.
      optimizer: an optax optimizer such as `optax.lion`, applied to clipped gradients, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], to which heads are
        added, or a function (observation space, action head, config) -> the policy and the value function.

    Raises:
      InputError: if the settings contradict one another or the action space has no distribution.
    """
    validate(config, "vmpo")
    recurrent = config.rnn != "none"
    check_minibatches(config, recurrent, "vmpo")
    head, net = networks_for(spec, config, network, squash=config.squash_actions)
    optimizer_at = optimizer_of(config, config.num_epochs * config.num_minibatches, optimizer)

    def init(key: Key) -> PolicyAgent:
        params = {"network": net.init(key), "duals": initial_duals(config)}
        return new_agent(key, params, optimizer_at, spec, config)

    def update(agent: PolicyAgent, key: Key, rollout: Rollout) -> tuple[PolicyAgent, Metrics]:
        agent, rollout = preprocess(agent, rollout, spec, config)
        batch, value = with_advantages(agent.params["network"], rollout)
        loss = partial(total_loss, scheduled(config, agent.num_updates), agent.params["network"])

        def gradient_step(learner: tuple[PyTree, PyTree], minibatch: Batch, carry: PyTree):
            gradient, metrics = jax.grad(loss, has_aux=True)(learner[0], minibatch, carry)
            params, opt_state = apply_gradients(optimizer_at(agent.num_updates), gradient, learner[1], learner[0])
            return (params, opt_state), metrics

        learner = (agent.params, agent.opt_state)
        (params, opt_state), metrics = rollout_minibatches(
            gradient_step,
            learner,
            batch=batch,
            carry=rollout.carry,
            key=key,
            config=config,
            sequences=recurrent,
        )
        metrics["explained_variance"] = masked.explained_variance(value, batch.target, batch.mask)
        return agent.stepped(params, opt_state), metrics

    def with_advantages(params: PyTree, rollout: Rollout) -> tuple[Batch, Array]:
        _, value, carry = net.unroll(params, rollout.carry, rollout.observation, rollout.done)
        next_value = successor_values(partial(net.value, params), value, carry, rollout)
        advantage = gae(
            rollout.reward,
            value,
            next_value,
            terminated=rollout.terminated,
            done=rollout.done,
            discount=config.discount,
            gae_lambda=config.gae_lambda,
        )
        target = value + advantage
        if config.normalize_advantage:
            advantage = masked.standardize(advantage, rollout.mask)
        batch = Batch(
            observation=rollout.observation,
            raw_action=rollout.extras["raw_action"],
            advantage=advantage,
            target=target,
            done=rollout.done,
            mask=rollout.mask,
        )
        return batch, value

    def total_loss(now: VMPOConfig, acted: PyTree, params: PyTree, batch: Batch, carry: PyTree):
        policy, value, _ = net.unroll(params["network"], carry, batch.observation, batch.done)
        old_policy, _, _ = net.unroll(acted, carry, batch.observation, batch.done)
        duals = positive(params["duals"])
        mean = partial(masked.mean, mask=batch.mask)

        better = better_half(batch.advantage, batch.mask)
        weight, log_mean = weights(batch.advantage, better, duals.temperature)
        policy_loss = -jnp.sum(jax.lax.stop_gradient(weight) * policy.log_prob(batch.raw_action))
        temperature_loss = duals.temperature * (now.temperature_epsilon + log_mean)
        value_loss = 0.5 * mean((value - batch.target) ** 2)
        entropy = mean(policy.entropy())

        kl, spread_kl = (mean(part) for part in kl_parts(jax.lax.stop_gradient(old_policy), policy))
        metrics = {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "kl": kl,
            "spread_kl": spread_kl,
            "temperature": duals.temperature,
            "kl_weight": duals.kl_weight,
        }
        total = (
            policy_loss + temperature_loss + trust_loss(duals, kl, spread_kl, now) + now.value_coefficient * value_loss
        )
        return total - now.entropy_coefficient * entropy, metrics

    return Algorithm(
        init=init,
        initial_carry=net.initial_carry,
        act=lambda agent, *args: act(net, head, of_network(agent), *args),
        update=update,
        values=lambda agent, rollout: estimate_values(net, of_network(agent), rollout),
    )


def of_network(agent: PolicyAgent) -> PolicyAgent:
    """Return the agent without its dual variables."""
    return agent._replace(params=agent.params["network"])


def better_half(advantage: Array, mask: Array | None) -> Array:
    """Return which samples lie above the median of those that count, bool of the shape of `advantage`."""
    counts = jnp.ones_like(advantage, bool) if mask is None else mask
    ranked = jnp.sort(jnp.where(counts, advantage, -jnp.inf).ravel(), descending=True)
    number = (jnp.sum(counts, dtype=jnp.int32) + 1) // 2
    return counts & (advantage >= ranked[jnp.maximum(number - 1, 0)])


def weights(advantage: Array, better: Array, temperature: Array) -> tuple[Array, Array]:
    """Return (softmax(A / T) over the better half and 0 elsewhere, f32 of its shape; log mean exp(A / T), f32[])."""
    scores = jnp.where(better, advantage / temperature, -jnp.inf)
    number = jnp.sum(better, dtype=jnp.float32)
    total = jax.nn.logsumexp(jnp.where(number > 0, scores, 0.0))
    weight = jnp.where(better, jnp.exp(jnp.where(better, scores, 0.0) - total), 0.0)
    return weight, jnp.where(number > 0, total - jnp.log(jnp.maximum(number, 1.0)), 0.0)
