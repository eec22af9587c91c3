"""PPO: proximal policy optimization. `purerl train ppo CartPole-v1`.

Collect a rollout, estimate advantages, then take several epochs of minibatch steps on the clipped objective.
Source: Schulman et al. (2017), arXiv:1707.06347; the details follow Huang et al. (2022), "The 37 implementation details
of PPO", except that time limits bootstrap from the true successor.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.algo_parts.minibatch import check_minibatches, rollout_minibatches
from purerl.algo_parts.on_policy import NetworkFactory, PolicyAgent, PolicyConfig, explained_variance, policy_agency
from purerl.algo_parts.optimizers import OptimizerFactory, adam, descend, gradient_plan
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.objectives import ActorCriticLoss, Clip, Loss, Objective, Samples, mean_loss
from purerl.functional.returns import gae
from purerl.networks.actor_critic import actor_critic
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static
from purerl.xla.accumulation import minibatch_gradient


@pytree
class PPOConfig(PolicyConfig):
    """Settings of PPO."""

    num_epochs: int = static(default=4, doc="passes over each rollout", at_least=1)
    num_minibatches: int = static(default=4, doc="gradient steps per pass", at_least=1)
    clip_epsilon: float = number(default=0.2, doc="how far the probability ratio may move", above=0)
    value_clip: float | None = number(default=0.2, doc="how far a value may move per update; none: unclipped", above=0)
    normalize_advantage: bool = static(default=True, doc="standardize advantages in each minibatch")
    target_kl: float | None = number(default=None, doc="KL divergence that stops an update's remaining steps", above=0)

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


class Batch(NamedTuple):
    """What the loss needs of each step of a rollout, [T, B, ...], or of a minibatch."""

    observation: PyTree
    raw_action: PyTree  # what the policy drew, before clipping or squashing
    log_prob: Array  # f32, under the policy that acted
    value: Array  # f32
    advantage: Array  # f32
    done: Array  # bool
    mask: Array | None  # bool, which samples count; None: all


def ppo(
    spec: EnvironmentSpec,
    config: PPOConfig,
    *,
    objective: Objective | None = None,
    loss: Loss | None = None,
    optimizer: OptimizerFactory | None = None,
    network: NetworkFactory = actor_critic,
) -> Algorithm:
    """Return PPO for an environment with discrete, multi-discrete, continuous or dict actions.

    With `config.rnn` the policy is recurrent: its minibatches are whole sequences, one per environment.

    Args:
      spec: the environment's spaces.
      config: the settings.
      objective: the policy loss per sample; `Clip(epsilon=config.clip_epsilon)` if none is given.
      loss: the whole loss per sample, in place of `ActorCriticLoss` with that objective and the config's weights. Of
        a large minibatch it is given some samples at a time.
      optimizer: `GradientPlan` -> optax transformation; Adam behind a clip of the norm if none is given.
      network: (observation space, action head, config) -> the policy and the value function.

    Raises:
      InputError: if the settings contradict one another or the action space has no distribution.
    """
    validate(config, "ppo")
    recurrent = config.rnn != "none"
    check_minibatches(config, recurrent, "ppo")
    if objective is not None and loss is not None:
        raise InputError("ppo: objective and loss are both given; the loss already holds the policy's part")
    if loss is None:
        policy_loss = objective if objective is not None else Clip(epsilon=config.clip_epsilon)
        loss = ActorCriticLoss(
            objective=policy_loss,
            value_coefficient=config.value_coefficient,
            entropy_coefficient=config.entropy_coefficient,
            value_clip=config.value_clip,
        )
    plan = gradient_plan(config, config.num_epochs * config.num_minibatches)
    descent = adam(plan.learning_rate, plan.max_grad_norm) if optimizer is None else optimizer(plan)
    net, init, act, prepare = policy_agency(spec, config, descent, network)

    def standardized(batch: Batch) -> Array:
        if not config.normalize_advantage:
            return batch.advantage
        mean, std = masked.mean(batch.advantage, batch.mask), masked.std(batch.advantage, batch.mask)
        return (batch.advantage - mean) / (std + 1e-8)

    def total_loss(params: PyTree, chosen: tuple[Batch, Array, PyTree]) -> tuple[Array, Metrics]:
        batch, advantage, carry = chosen
        policy, value, _ = net.unroll(params, carry, batch.observation, batch.done)
        log_prob = policy.log_prob(batch.raw_action)
        of_policy = (log_prob - batch.log_prob, log_prob, value, policy.entropy())
        fixed = (advantage, batch.value, batch.advantage + batch.value)
        samples = Samples(*(x.reshape(-1) for x in (*of_policy, *fixed)))
        mask = None if batch.mask is None else batch.mask.reshape(-1)
        total, metrics = mean_loss(loss, samples, {"config": config}, mask)
        ratio = jnp.exp(samples.log_ratio)
        beyond = (jnp.abs(ratio - 1.0) > config.clip_epsilon).astype(jnp.float32)
        told = {"approx_kl": ratio - 1.0 - samples.log_ratio, "clip_fraction": beyond}
        return total, metrics | masked.means(told, mask)

    def samples_of(params: PyTree, rollout: Rollout) -> Batch:
        _, value, after = net.unroll(params, rollout.carry, rollout.observation, rollout.done)
        next_value = net.value(params, after, rollout.next_observation)
        advantage = gae(
            rollout.reward, value, next_value, rollout.terminated, rollout.done, config.discount, config.gae_lambda
        )
        drawn = rollout.extras
        return Batch(
            rollout.observation, drawn["raw_action"], drawn["log_prob"], value, advantage, rollout.done, rollout.mask
        )

    def gradient_step(loop_carry: tuple[PyTree, PyTree, Array], batch: Batch, carry: PyTree):
        params, opt_state, going = loop_carry
        chosen = (batch, standardized(batch), carry)
        if recurrent:
            gradient, metrics = jax.grad(total_loss, has_aux=True)(params, chosen)
        else:
            gradient, metrics = minibatch_gradient(total_loss, params, chosen, batch.mask)
        new_params, new_opt_state = descend(descent, gradient, opt_state, params)
        if config.target_kl is None:
            return (new_params, new_opt_state, going), metrics
        going = going & (metrics["approx_kl"] <= config.target_kl)
        keep = lambda new, old: jax.tree.map(lambda x, y: jnp.where(going, x, y), new, old)
        return (keep(new_params, params), keep(new_opt_state, opt_state), going), metrics

    def update(agent: PolicyAgent, key: Key, rollout: Rollout) -> tuple[PolicyAgent, Metrics]:
        agent, rollout = prepare(agent, rollout)
        batch = samples_of(agent.params, rollout)
        loop_carry = (agent.params, agent.opt_state, jnp.array(True))
        (params, opt_state, _), metrics = rollout_minibatches(
            gradient_step, loop_carry, batch, rollout.carry, key, config, recurrent
        )
        metrics["explained_variance"] = explained_variance(batch.value, batch.value + batch.advantage, batch.mask)
        return agent._replace(params=params, opt_state=opt_state), metrics

    return Algorithm(init, net.initial_carry, act, update)
