"""PPO: proximal policy optimization. `purerl train ppo CartPole-v1`.

Collect a rollout, estimate advantages, then take several epochs of minibatch steps on the clipped objective.
Source: Schulman et al. (2017), arXiv:1707.06347; the details follow Huang et al. (2022), "The 37 implementation details
of PPO", except that after a truncation the return continues with the value of the final observation, not of the first
observation of the next episode. If you want a version to copy and edit, start from `scripts/ppo.py`: it leaves out the
options.
"""

import importlib
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.algos.policy_gradient import PolicyConfig, estimate_values, likelihood, new_agent, preprocess
from purerl.fields import validate
from purerl.functional import masked, objectives, returns
from purerl.networks.actor_critic import ActionHead, ActorCritic, Network, PolicyAgent, actor_critic, networks_for
from purerl.optim import optimizers
from purerl.optim.minibatch import check_minibatches, minibatch_epochs
from purerl.optim.schedules import Schedule, schedule, scheduled
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static
from purerl.xla.successors import evaluate_successors


@pytree
class PPOConfig(PolicyConfig):
    """All settings of PPO. Fields without a text are inherited: `PolicyConfig` and its parents describe them."""

    num_envs: int = 4
    rollout_length: int = 128
    total_timesteps: int = 500_000
    discount: float = 0.99
    gae_lambda: float = 0.95
    num_epochs: int = static(default=4, doc="passes over each rollout", at_least=1)
    num_minibatches: int = static(default=4, doc="gradient steps per pass", at_least=1)
    clip_epsilon: float = number(default=0.2, doc="clip range of the probability ratio around 1", above=0)
    clip_epsilon_schedule: Schedule = schedule()
    value_clip: float | None = number(
        default=0.2, doc="clip range around the old value in the value loss; none: unclipped", above=0
    )
    normalize_advantage: bool = static(default=True, doc="standardize advantages in each minibatch")
    target_kl: float | None = number(
        default=None, doc="skip an update's remaining gradient steps once the KL divergence exceeds this", above=0
    )
    value_coefficient: float = 0.5
    entropy_coefficient: float = 0.01
    entropy_coefficient_schedule: Schedule = "constant"
    learning_rate: float = 2.5e-4
    learning_rate_schedule: Schedule = "linear"
    max_grad_norm: float = 0.5
    network: str = "auto"
    hidden_sizes: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    layer_norm: bool = False
    share_body: bool = False
    rnn: str = "none"
    rnn_size: int = 64
    head_sizes: tuple[int, ...] = ()
    initializer: str = "orthogonal"
    precision: str = "float32"
    normalize_observation: bool = False
    normalize_reward: bool = False
    squash_actions: bool = False
    curiosity: str = "none"
    curiosity_coefficient: float = 0.1
    curiosity_learning_rate: float = 1e-3
    prng: str = "fast"
    reset_policy: str = "auto"
    pool_size: int = 1024

    @property
    def samples_per_gradient(self) -> int:
        """Environment steps in a minibatch."""
        return self.steps_per_update // self.num_minibatches

    def value_error(self, error: Array) -> Array:
        """Return the error of each sample, f32[N], from values minus targets f32[N]; half of it is the value loss."""
        return error**2


class Batch(NamedTuple):
    """The loss's inputs for each step: [T, B, ...] in a rollout; [N, ...] in a minibatch, [T, n, ...] if recurrent."""

    observation: PyTree
    raw_action: PyTree  # the policy's sample, before clipping or squashing
    log_prob: Array  # f32, under the policy that acted
    value: Array  # f32, V(s) before the update
    advantage: Array  # f32
    target: Array | None  # f32, the target of V(s), if values are normalized; None: value + advantage
    done: Array  # bool
    mask: Array | None  # bool, which samples count; None: all


def ppo(
    spec: EnvironmentSpec,
    config: PPOConfig,
    *,
    objective: objectives.Objective | None = None,
    loss: objectives.Loss | None = None,
    optimizer: optimizers.Optimizer = optimizers.adam_by_plan,
    network: Network = actor_critic,
) -> Algorithm:
    """Return PPO for an environment with discrete, multi-discrete, continuous or dict actions.

        loss = -min(r A, clip(r, 1 - epsilon, 1 + epsilon) A) + c_v max((V - R)^2, (clip(V) - R)^2) / 2 - c_e H

    with r = pi(a|s) / pi_old(a|s) the ratio, A the advantage, R the target of the value, H the policy's entropy, and
    clip(V) the value kept within `value_clip` of V_old. With `config.rnn` the policy is recurrent: each minibatch then
    holds the whole rollouts of some of the environments.

    Args:
      spec: the environment's spaces.
      config: the settings.
      objective: the policy loss per sample, instead of the clipped one.
      loss: the whole loss per sample, instead of the one above. It may get a large minibatch in chunks.
      optimizer: an optax optimizer such as `optax.lion`, with gradients clipped by their norm first, or a function
        `GradientPlan` -> optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], to which heads are
        added, or a function (observation space, action head, config) -> `ActorCritic`.

    Raises:
      InputError: if the settings contradict one another, or the action space has no policy distribution.
    """
    validate(config, "ppo")
    recurrent = config.rnn != "none"
    check_minibatches(config, recurrent, "ppo")
    objectives.check_parts(objective, loss, "ppo")
    head, net = networks_for(spec, config, network, squash=config.squash_actions)
    optimizer_at = optimizers.optimizer_of(config, config.num_epochs * config.num_minibatches, optimizer)

    def init(key: Key) -> PolicyAgent:
        return new_agent(key, net.init(key), optimizer_at, spec, config)

    def update(agent: PolicyAgent, key: Key, rollout: Rollout) -> tuple[PolicyAgent, Metrics]:
        agent, rollout = preprocess(agent, rollout, spec, config)  # observations as the policy saw them
        batch = with_advantages(agent, rollout)
        agent, samples = agent.with_normalized_targets(batch)  # if the config normalizes values, as MAPPO's may
        params, opt_state, metrics = minibatch_epochs(
            partial(minibatch_loss, scheduled(config, agent.num_updates)),
            optimizer=optimizer_at(agent.num_updates),
            params=agent.params,
            opt_state=agent.opt_state,
            batch=samples,
            carry=rollout.carry,
            key=key,
            config=config,
            sequences=recurrent,  # else all samples are shuffled
            prepare=standardized,  # each minibatch, before its loss
            accept=None if config.target_kl is None else within_target_kl,  # else the rest of the update is skipped
        )
        metrics["explained_variance"] = masked.explained_variance(
            batch.value, batch.value + batch.advantage, batch.mask
        )
        return agent.stepped(params, opt_state), metrics

    def with_advantages(agent: PolicyAgent, rollout: Rollout) -> Batch:
        _, value, carry = net.unroll(agent.params, rollout.carry, rollout.observation, rollout.done)
        next_value = evaluate_successors(partial(net.value, agent.params), value, carry, rollout)
        value, next_value = agent.in_reward_units(value), agent.in_reward_units(next_value)
        advantage = returns.gae(
            rollout.reward,
            value,
            next_value,
            terminated=rollout.terminated,
            done=rollout.done,
            discount=config.discount,
            gae_lambda=config.gae_lambda,
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

    def standardized(batch: Batch) -> tuple[Batch, Array]:
        """Return a minibatch with its value targets, and standardized advantages if `normalize_advantage` is set."""
        target = batch.value + batch.advantage if batch.target is None else batch.target
        if config.normalize_advantage:
            batch = batch._replace(advantage=masked.standardize(batch.advantage, batch.mask))
        return batch, target

    def within_target_kl(metrics: Metrics) -> Array:
        assert config.target_kl is not None
        return metrics["approx_kl"] <= config.target_kl

    def minibatch_loss(current: PPOConfig, params: PyTree, minibatch: tuple[Batch, Array], carry: PyTree):
        batch, target = minibatch
        policy, value, _ = net.unroll(params, carry, batch.observation, batch.done)
        log_prob = policy.log_prob(batch.raw_action)
        samples = objectives.Samples(
            log_ratio=log_prob - batch.log_prob,
            log_prob=log_prob,
            value=value,
            entropy=policy.entropy(),
            advantage=batch.advantage,
            old_value=batch.value,
            target=target,
        )
        samples, mask = jax.tree.map(jnp.ravel, (samples, batch.mask))
        if loss is None:
            metrics = masked.means(terms(current, samples), mask)
            value_loss = current.value_coefficient * metrics["value_loss"]
            total = metrics["policy_loss"] + value_loss - current.entropy_coefficient * metrics["entropy"]
        else:
            total, metrics = objectives.mean_loss(loss, samples, {"config": current}, mask)
        ratio = objectives.ratio_of(samples.log_ratio)  # finite for any log-ratio
        outside = jnp.abs(ratio - 1.0) > current.clip_epsilon
        diagnostics = {"approx_kl": ratio - 1.0 - samples.log_ratio, "clip_fraction": outside.astype(jnp.float32)}
        return total, metrics | masked.means(diagnostics, mask)

    def terms(current: PPOConfig, samples: objectives.Samples) -> dict[str, Array]:
        """Return the unweighted terms of the loss, f32[N] each."""
        if objective is None:
            ratio = objectives.ratio_of(samples.log_ratio)
            clipped = jnp.clip(ratio, 1 - current.clip_epsilon, 1 + current.clip_epsilon)
            policy_loss = -jnp.minimum(ratio * samples.advantage, clipped * samples.advantage)
        else:
            context = {"config": current, "samples": samples}
            policy_loss = objectives.per_sample(objective, samples.log_ratio, samples.advantage, context)
        error = current.value_error(samples.value - samples.target)
        if current.value_clip is not None:
            clipped_value = samples.old_value + jnp.clip(
                samples.value - samples.old_value, -current.value_clip, current.value_clip
            )
            error = jnp.maximum(error, current.value_error(clipped_value - samples.target))
        return {"policy_loss": policy_loss, "value_loss": 0.5 * error, "entropy": samples.entropy}

    return Algorithm(
        init=init,
        initial_carry=net.initial_carry,
        act=partial(act, net, head),
        update=update,
        values=partial(estimate_values, net),
        likelihood=partial(likelihood, net),
    )


def act(
    net: ActorCritic, head: ActionHead, agent: PolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool
) -> tuple[PyTree, PyTree, PyTree]:
    """Implement `Algorithm.act`: sample from the policy if `explore`, else take the mode of its distribution."""
    policy, carry = net.policy(agent.params, carry, agent.normalize(observation))
    if not explore:
        return head.to_action(policy.mode()), carry, ()
    raw_action = policy.sample(seed=key)
    return head.to_action(raw_action), carry, {"raw_action": raw_action, "log_prob": policy.log_prob(raw_action)}


def __getattr__(name: str) -> Any:
    if name == "MAPPOConfig":  # an earlier place of it
        return importlib.import_module("purerl.algos.mappo").MAPPOConfig
    raise AttributeError(f"module {__name__} has no attribute {name}")
