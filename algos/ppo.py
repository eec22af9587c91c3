"""PPO: proximal policy optimization. `purerl train ppo CartPole-v1`.

Collect a rollout, estimate advantages, then take several epochs of minibatch steps on the clipped objective.
Source: Schulman et al. (2017), arXiv:1707.06347; the details follow Huang et al. (2022), "The 37 implementation details
of PPO", except that time limits bootstrap from the true successor.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.algo_parts.curiosity import CURIOSITIES
from purerl.algo_parts.on_policy import (
    PolicyAgent,
    PolicyConfig,
    new_agent,
    ready_to_learn,
    values_of,
)
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.counters import increment
from purerl.functional.distributions import action_head
from purerl.functional.normalize import denormalized_values, normalized, normalized_values
from purerl.functional.objectives import ActorCriticLoss, Clip, Loss, Objective, Samples, mean_loss
from purerl.functional.returns import gae, successor_values
from purerl.networks.actor_critic import NetworkFactory, actor_critic, network_of
from purerl.networks.modules import Module
from purerl.networks.torsos import ACTIVATIONS, INITIALIZERS, RNNS, TORSOS
from purerl.optim.minibatch import check_minibatches, minibatch_epochs
from purerl.optim.optimizers import Optimizer, adam_by_plan, optimizer_of
from purerl.optim.schedules import Schedule, schedule, scheduled
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class PPOConfig(PolicyConfig):
    """Settings of PPO: all of them, those that it shares with other algorithms included."""

    num_envs: int = static(default=4, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=128, doc="steps of each environment per update", at_least=1)
    total_timesteps: int = number(
        default=500_000, doc="environment steps of the whole run; the horizon of every schedule", above=0
    )
    discount: float = number(default=0.99, doc="discount of future rewards, per step", at_least=0, at_most=1)
    gae_lambda: float = number(default=0.95, doc="mixing of generalized advantage estimation", at_least=0, at_most=1)
    num_epochs: int = static(default=4, doc="passes over each rollout", at_least=1)
    num_minibatches: int = static(default=4, doc="gradient steps per pass", at_least=1)
    clip_epsilon: float = number(default=0.2, doc="how far the probability ratio may move", above=0)
    clip_epsilon_schedule: Schedule = schedule()
    value_clip: float | None = number(default=0.2, doc="how far a value may move per update; none: unclipped", above=0)
    normalize_advantage: bool = static(default=True, doc="standardize advantages in each minibatch")
    target_kl: float | None = number(default=None, doc="KL divergence that stops an update's remaining steps", above=0)
    value_coefficient: float = number(default=0.5, doc="weight of the value loss", at_least=0)
    entropy_coefficient: float = number(default=0.01, doc="weight of the entropy bonus", at_least=0)
    entropy_coefficient_schedule: Schedule = schedule()
    learning_rate: float = number(default=2.5e-4, doc="the optimizer's step size", above=0)
    learning_rate_schedule: Schedule = schedule("linear")
    max_grad_norm: float = number(default=0.5, doc="global norm that gradients are clipped to", above=0)
    network: str = static(default="auto", doc="torso", choices=TORSOS)
    hidden_sizes: tuple[int, ...] = static(default=(64, 64), doc="units of the hidden layers", at_least=1)
    activation: str = static(default="tanh", doc="hidden layers' activation", choices=tuple(ACTIVATIONS))
    layer_norm: bool = static(default=False, doc="normalize each hidden layer")
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
    initializer: str = static(
        default="orthogonal", doc="of dense and convolutional weights", choices=tuple(INITIALIZERS)
    )
    precision: str = static(default="float32", doc="of the network's products", choices=("float32", "bfloat16"))
    normalize_observation: bool = static(default=False, doc="standardize observations by running statistics")
    normalize_reward: bool = static(default=False, doc="divide rewards by the running spread of returns")
    squash_actions: bool = static(default=False, doc="continuous actions through tanh instead of clipped")
    curiosity: str = static(
        default="none", doc="rewards for what cannot be predicted yet", choices=("none", *CURIOSITIES)
    )
    curiosity_coefficient: float = number(default=0.1, doc="weight of the rewards of curiosity", at_least=0)
    curiosity_learning_rate: float = number(default=1e-3, doc="Adam's step size, of what predicts", above=0)
    prng: str = static(
        default="fast",
        doc="random numbers of environments and algorithm; fast was measured the fastest",
        choices=("fast", "threefry", "rbg"),
    )
    reset_policy: str = static(
        default="auto",
        doc="resets computed ahead (prefetch), at every step (always), or drawn from a pool; auto: prefetch on a CPU",
        choices=("auto", "prefetch", "always", "pool"),
    )
    pool_size: int = static(default=1024, doc="reset states in a pool", at_least=1)

    @property
    def samples_per_gradient(self) -> int:
        """Environment steps in a minibatch."""
        return self.steps_per_update // self.num_minibatches


@pytree
class MAPPOConfig(PPOConfig):
    """Settings of MAPPO: PPO for several agents, whose critic sees the environment's global state where it has one."""

    centralized_critic: bool = static(
        default=True, doc="of several agents: the value function sees the environment's global state"
    )
    normalize_value: bool = static(
        default=False, doc="the value function predicts in units of its targets' running statistics"
    )
    value_huber_delta: float | None = number(
        default=None, doc="value errors beyond count linearly, in the value function's units; none: squared", above=0
    )


class Batch(NamedTuple):
    """What the loss needs of each step of a rollout, [T, B, ...], or of a minibatch."""

    observation: PyTree
    raw_action: PyTree  # the policy's draw, before clipping or squashing
    log_prob: Array  # f32, under the policy that acted
    value: Array  # f32, V(s) before the update
    advantage: Array  # f32
    target: Array | None  # f32, the return that V(s) should be; None: value + advantage, to add in each minibatch
    done: Array  # bool
    mask: Array | None  # bool, which samples count; None: all


def ppo(
    spec: EnvironmentSpec,
    config: PPOConfig,
    *,
    objective: Objective | None = None,
    loss: Loss | None = None,
    optimizer: Optimizer = adam_by_plan,
    network: NetworkFactory | Module = actor_critic,
) -> Algorithm:
    """Return PPO for an environment with discrete, multi-discrete, continuous or dict actions.

        loss = -min(r A, clip(r, 1 - epsilon, 1 + epsilon) A) + c_v max((V - R)^2, (clip(V) - R)^2) / 2 - c_e H

    with r = pi(a|s) / pi_old(a|s) the ratio, A the advantage, R the target of the value and H the policy's entropy.
    With `config.rnn` the policy is recurrent: its minibatches are whole sequences, one per environment.

    Args:
      spec: the environment's spaces.
      config: the settings.
      objective: the policy loss per sample, in place of the clipped one.
      loss: the whole loss per sample, in place of the above. Of a large minibatch it is given some samples at a time.
      optimizer: of optax, such as `optax.lion`, behind a clip of the norm, or `GradientPlan` -> transformation; Adam if
        none is given.
      network: a module (observation [N, ...]) -> features f32[N, n] below the heads, of flax linen, or of NNX; or
        (observation space, action head, config) -> the policy and the value function.

    Raises:
      InputError: if the settings contradict one another or the action space has no distribution.
    """
    validate(config, "ppo")
    recurrent = config.rnn != "none"
    normalize_value = isinstance(config, MAPPOConfig) and config.normalize_value
    check_minibatches(config, recurrent, "ppo")
    if objective is not None and loss is not None:
        raise InputError("ppo: objective and loss are both given; the loss already holds the policy's part")
    head = action_head(spec.action_space, config.squash_actions)
    net = network_of(network)(spec.observation_space, head, config)
    descent = optimizer_of(config, config.num_epochs * config.num_minibatches, optimizer)

    def init(key: Key) -> PolicyAgent:
        params = net.init(key)
        return new_agent(key, params, descent(jnp.int32(0)).init(params), spec, config, normalize_value)

    def act(agent: PolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        policy, carry = net.policy(agent.params, carry, normalized(agent.observation_statistics, observation))
        if not explore:
            return head.to_action(policy.mode()), carry, ()
        raw_action = policy.sample(seed=key)
        extras = {"raw_action": raw_action, "log_prob": policy.log_prob(raw_action)}
        return head.to_action(raw_action), carry, extras

    def update(agent: PolicyAgent, key: Key, rollout: Rollout) -> tuple[PolicyAgent, Metrics]:
        agent, rollout = ready_to_learn(agent, rollout, spec, config)
        batch = with_advantages(agent, rollout)
        agent, learned = with_normalized_values(agent, batch)
        params, opt_state, metrics = minibatch_epochs(
            partial(total_loss, scheduled(config, agent.num_updates)),
            descent(agent.num_updates),
            agent.params,
            agent.opt_state,
            learned,
            rollout.carry,
            key,
            config,
            sequences=recurrent,
            prepare=with_targets,
            accept=None if config.target_kl is None else within_target_kl,
        )
        metrics["explained_variance"] = masked.explained_variance(
            batch.value, batch.value + batch.advantage, batch.mask
        )
        num_updates = increment(agent.num_updates)
        return agent._replace(params=params, opt_state=opt_state, num_updates=num_updates), metrics

    def with_advantages(agent: PolicyAgent, rollout: Rollout) -> Batch:
        _, value, carry = net.unroll(agent.params, rollout.carry, rollout.observation, rollout.done)
        next_value = successor_values(partial(net.value, agent.params), value, carry, rollout)
        value, next_value = (denormalized_values(agent.value_statistics, values) for values in (value, next_value))
        advantage = gae(
            rollout.reward, value, next_value, rollout.terminated, rollout.done, config.discount, config.gae_lambda
        )
        return Batch(
            observation=rollout.observation,
            raw_action=rollout.extras["raw_action"],
            log_prob=rollout.extras["log_prob"],
            value=value,
            advantage=advantage,
            target=None,
            done=rollout.done,
            mask=rollout.mask,
        )

    def with_normalized_values(agent: PolicyAgent, batch: Batch) -> tuple[PolicyAgent, Batch]:
        """Old values stay as the critic predicted them, by the old statistics; targets follow the new ones."""
        old = agent.value_statistics
        if old is None:
            return agent, batch
        target = batch.value + batch.advantage
        new = old.update(target, batch.mask)
        batch = batch._replace(value=normalized_values(old, batch.value), target=normalized_values(new, target))
        return agent._replace(value_statistics=new), batch

    def with_targets(batch: Batch) -> Batch:
        target = batch.value + batch.advantage if batch.target is None else batch.target
        advantage = batch.advantage
        if config.normalize_advantage:
            mean, std = masked.mean(advantage, batch.mask), masked.std(advantage, batch.mask)
            advantage = (advantage - mean) / (std + 1e-8)
        return batch._replace(target=target, advantage=advantage)

    def within_target_kl(metrics: Metrics) -> Array:
        assert config.target_kl is not None
        return metrics["approx_kl"] <= config.target_kl

    def total_loss(now: PPOConfig, params: PyTree, batch: Batch, carry: PyTree) -> tuple[Array, Metrics]:
        policy, value, _ = net.unroll(params, carry, batch.observation, batch.done)
        log_prob = policy.log_prob(batch.raw_action)
        assert batch.target is not None
        samples = Samples(
            log_ratio=log_prob - batch.log_prob,
            log_prob=log_prob,
            value=value,
            entropy=policy.entropy(),
            advantage=batch.advantage,
            old_value=batch.value,
            target=batch.target,
        )
        samples, mask = jax.tree.map(jnp.ravel, (samples, batch.mask))
        mean, metrics = mean_loss(sample_loss(now), samples, {"config": now}, mask)
        ratio = jnp.exp(samples.log_ratio)
        clipped = jnp.abs(ratio - 1.0) > now.clip_epsilon
        diagnostics = {"approx_kl": ratio - 1.0 - samples.log_ratio, "clip_fraction": clipped.astype(jnp.float32)}
        return mean, metrics | masked.means(diagnostics, mask)

    def sample_loss(now: PPOConfig) -> Loss:
        if loss is not None:
            return loss
        return ActorCriticLoss(
            objective=Clip(epsilon=now.clip_epsilon) if objective is None else objective,
            value_coefficient=now.value_coefficient,
            entropy_coefficient=now.entropy_coefficient,
            value_clip=now.value_clip,
            value_huber_delta=now.value_huber_delta if isinstance(now, MAPPOConfig) else None,
        )

    return Algorithm(init=init, initial_carry=net.initial_carry, act=act, update=update, values=partial(values_of, net))
