"""LPG: an agent that learns by a learned update rule. `purerl evolve lpg --tasks Catch`.

The agent has a policy and a prediction y(s), a distribution whose meaning the rule defines. A rule reads a rollout and
returns a weight for each action and a target for each prediction.
Source: Oh et al. (2020), arXiv:2007.08794.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.functional.counters import increment
from purerl.functional.distributions import action_head
from purerl.functional.update_rules import LPG, RuleInputs, RuleTargets
from purerl.networks.encoder import NetworkConfig, encoder
from purerl.networks.modules import Module
from purerl.networks.torsos import apply, dense
from purerl.networks.torsos import init as init_layer
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.optim.schedules import Schedule, environment_steps, schedule, scheduled
from purerl.types import (
    Algorithm,
    Array,
    EnvironmentSpec,
    Key,
    Likelihood,
    Metrics,
    PyTree,
    Rollout,
    number,
    pytree,
    static,
)


@pytree
class LPGConfig(NetworkConfig):
    """Settings of agents that follow a learned rule."""

    num_envs: int = static(default=64, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=20, doc="steps of each environment per update", at_least=1)
    learning_rate: float = number(default=1e-3, doc="learning rate of Adam", above=0)
    learning_rate_schedule: Schedule = schedule("constant")
    prediction_coefficient: float = number(default=0.5, doc="weight of KL(y, y_hat)", at_least=0)
    entropy_coefficient: float = number(default=0.05, doc="weight of the entropy bonus", at_least=0)
    entropy_coefficient_schedule: Schedule = schedule()
    max_grad_norm: float = number(default=0.5, doc="global norm that gradients are clipped to", above=0)


class LPGAgent(NamedTuple):
    """The state of an agent that follows a learned rule."""

    params: PyTree
    opt_state: PyTree
    rule_state: PyTree
    num_updates: Array  # i32[]


def lpg(
    spec: EnvironmentSpec,
    config: LPGConfig,
    *,
    rule: Any = None,
    optimizer: Optimizer = adam_by_plan,
    network: Module | None = None,
) -> Algorithm:
    """Return an agent that follows a rule; its network is not recurrent.

    The update follows the gradient of sum_t log pi(a_t|s_t) pi_hat_t - prediction_coefficient KL(y(s_t), y_hat_t) +
    entropy bonus.

    Args:
      spec: the environment's spaces.
      config: the settings.
      rule: the rule, with parameters, `initial_carry` and `__call__` like `purerl.functional.update_rules.LPG`; by
        default one with random weights.
      optimizer: an optax optimizer such as `optax.lion`, applied to clipped gradients, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], below the heads.

    Raises:
      InputError: if a setting is out of range or the action space has no distribution.
    """
    validate(config, "lpg")
    rule = LPG.create(jax.random.key(0)) if rule is None else rule
    head, base = action_head(spec.action_space), encoder(spec.observation_space, config, network)
    layer = partial(dense, initializer=config.initializer)
    policy_head, prediction_head = layer(head.num_outputs, 0.01), layer(rule.categories, 0.01)
    optimizer_at = optimizer_of(config, 1, optimizer)

    def init(key: Key) -> LPGAgent:
        keys, features = jax.random.split(key, 3), jnp.zeros(base.size)
        params = {
            "body": base.init(keys[0]),
            "policy": init_layer(policy_head, keys[1], features),
            "prediction": init_layer(prediction_head, keys[2], features),
            "log_std": jnp.zeros(head.num_log_std),
        }
        return LPGAgent(
            params=params,
            opt_state=optimizer_at.init(params),
            rule_state=rule.initial_carry(),
            num_updates=jnp.int32(0),
        )

    def outputs(params: PyTree, observation: PyTree) -> tuple[Any, Array]:
        features, _ = base.step(params["body"], (), observation)
        scores = mask_illegal(apply(policy_head, params["policy"], features), action_mask(observation))
        policy = head.distribution(scores, params["log_std"])
        return policy, jax.nn.log_softmax(apply(prediction_head, params["prediction"], features))

    def act(agent: LPGAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        policy, _ = outputs(agent.params, observation)
        raw_action = policy.sample(seed=key) if explore else policy.mode()
        return head.to_action(raw_action), carry, {"raw_action": raw_action} if explore else ()

    def targets_of(agent: LPGAgent, rollout: Rollout) -> tuple[RuleTargets, PyTree]:
        """Return (targets, rule_state): the rule's targets for a rollout and for the agent's predictions in it."""
        policy, prediction = outputs(agent.params, rollout.observation)
        _, next_prediction = outputs(agent.params, rollout.next_observation)
        log_prob = policy.log_prob(rollout.extras["raw_action"])
        lifetime = jnp.asarray(config.total_timesteps, jnp.float32)
        progress = environment_steps(config, agent.num_updates) / lifetime
        discount = jnp.asarray(config.discount, jnp.float32)
        inputs = RuleInputs(
            reward=rollout.reward,
            done=rollout.done,
            discount=discount,
            probability=jnp.exp(log_prob),
            prediction=jnp.exp(prediction),
            next_prediction=jnp.exp(next_prediction),
            progress=progress,
            lifetime=lifetime,
        )
        return rule(agent.rule_state, inputs)

    def loss(params: PyTree, agent: LPGAgent, rollout: Rollout, targets: RuleTargets) -> tuple[Array, Metrics]:
        policy, prediction = outputs(params, rollout.observation)
        log_prob, entropy = policy.log_prob(rollout.extras["raw_action"]), policy.entropy()
        divergence = jnp.sum(jnp.exp(prediction) * (prediction - jnp.log(targets.prediction + 1e-8)), axis=-1)
        policy_loss = -masked.mean(log_prob * targets.policy, rollout.mask)
        prediction_loss = masked.mean(divergence, rollout.mask)
        entropy = masked.mean(entropy, rollout.mask)
        metrics = {"policy_loss": policy_loss, "prediction_loss": prediction_loss, "entropy": entropy}
        entropy_weight = scheduled(config, agent.num_updates).entropy_coefficient
        total = policy_loss + config.prediction_coefficient * prediction_loss - entropy_weight * entropy
        return total, metrics

    def update(agent: LPGAgent, key: Key, rollout: Rollout) -> tuple[LPGAgent, Metrics]:
        targets, rule_state = targets_of(agent, rollout)
        gradient, metrics = jax.grad(loss, has_aux=True)(agent.params, agent, rollout, targets)
        params, opt_state = apply_gradients(optimizer_at(agent.num_updates), gradient, agent.opt_state, agent.params)
        num_updates = increment(agent.num_updates)
        return LPGAgent(params=params, opt_state=opt_state, rule_state=rule_state, num_updates=num_updates), metrics

    def likelihood(agent: LPGAgent, rollout: Rollout) -> Likelihood:
        policy, _ = outputs(agent.params, rollout.observation)
        return Likelihood(log_prob=policy.log_prob(rollout.extras["raw_action"]), entropy=policy.entropy())

    return Algorithm(init=init, initial_carry=base.initial_carry, act=act, update=update, likelihood=likelihood)
