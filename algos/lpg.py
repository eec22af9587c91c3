"""LPG: an agent whose update is what a learned rule says. `purerl evolve lpg --tasks Catch`.

The agent has a policy and a prediction y(s), a distribution that means whatever the rule makes of it. A rule reads a
rollout and gives each step a weight for its action and a target for its prediction.
Source: Oh et al. (2020), arXiv:2007.08794.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.algo_parts.optimizers import adam, descend, gradient_plan
from purerl.algo_parts.update_rules import LPG, Seen
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.distributions import action_head
from purerl.networks.encoder import NetworkConfig, body
from purerl.networks.torsos import apply, dense
from purerl.networks.torsos import init as init_layer
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class LPGConfig(NetworkConfig):
    """Settings of agents that follow a learned rule."""

    num_envs: int = static(default=64, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=20, doc="steps of each environment per update", at_least=1)
    learning_rate: float = number(default=1e-3, doc="Adam's step size", above=0)
    anneal_learning_rate: bool = static(default=False, doc="lower it linearly to 0 over total_timesteps")
    prediction_coefficient: float = number(default=0.5, doc="weight of KL(y, y_hat)", at_least=0)
    entropy_coefficient: float = number(default=0.05, doc="weight of the entropy bonus", at_least=0)
    max_grad_norm: float = number(default=0.5, doc="global norm that gradients are clipped to", above=0)


class LPGAgent(NamedTuple):
    """All that such an agent knows."""

    params: PyTree
    opt_state: PyTree
    rule_state: PyTree
    updates: Array  # i32[]


def lpg(spec: EnvironmentSpec, config: LPGConfig, *, rule: Any = None) -> Algorithm:
    """Return an agent that follows a rule; without memory.

    The step is along grad sum_t log pi(a_t|s_t) pi_hat_t - prediction_coefficient KL(y(s_t), y_hat_t) + entropy bonus.

    Args:
      spec: the environment's spaces.
      config: the settings.
      rule: with parameters, `initial_carry` and `__call__` as `purerl.algo_parts.update_rules.LPG`; one with random
        weights, which teaches nothing, if none is given.

    Raises:
      InputError: if a setting is out of range, a memory is asked for or the action space has no distribution.
    """
    validate(config, "lpg")
    if config.rnn != "none":
        raise InputError(f"lpg: rnn is {config.rnn}; it must be none: the agent has no memory")
    rule = LPG.create(jax.random.key(0)) if rule is None else rule
    head, base = action_head(spec.action_space), body(spec.observation_space, config)
    layer = partial(dense, initializer=config.initializer)
    policy_head, prediction_head = layer(head.num_outputs, 0.01), layer(rule.categories, 0.01)
    plan = gradient_plan(config, 1)
    optimizer = adam(plan.learning_rate, plan.max_grad_norm)

    def init(key: Key) -> LPGAgent:
        keys, features = jax.random.split(key, 3), jnp.zeros(base.size)
        params = {
            "body": base.init(keys[0]),
            "policy": init_layer(policy_head, keys[1], features),
            "prediction": init_layer(prediction_head, keys[2], features),
            "free": jnp.zeros(head.num_free),
        }
        return LPGAgent(params, optimizer.init(params), rule.initial_carry(), jnp.int32(0))

    def outputs(params: PyTree, observation: PyTree) -> tuple[Any, Array]:
        features, _ = base.step(params["body"], (), observation)
        policy = head.distribution(apply(policy_head, params["policy"], features), params["free"])
        return policy, jax.nn.log_softmax(apply(prediction_head, params["prediction"], features))

    def act(agent: LPGAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        policy, _ = outputs(agent.params, observation)
        raw_action = policy.sample(seed=key) if explore else policy.mode()
        return head.to_action(raw_action), carry, {"raw_action": raw_action} if explore else ()

    def loss(params: PyTree, agent: LPGAgent, rollout: Rollout) -> tuple[Array, tuple[PyTree, Metrics]]:
        policy, prediction = outputs(params, rollout.observation)
        _, following = outputs(params, rollout.next_observation)
        log_prob, entropy = policy.log_prob(rollout.extras["raw_action"]), policy.entropy()
        lifetime = jnp.asarray(config.total_timesteps, jnp.float32)
        progress = agent.updates.astype(jnp.float32) * config.steps_per_update / lifetime
        discount = jnp.asarray(config.discount, jnp.float32)
        seen = Seen(
            rollout.reward, rollout.done, discount, jnp.exp(log_prob), jnp.exp(prediction), jnp.exp(following),
            progress, lifetime,
        )  # fmt: skip
        targets, rule_state = rule(agent.rule_state, jax.lax.stop_gradient(seen))
        divergence = jnp.sum(jnp.exp(prediction) * (prediction - jnp.log(targets.prediction + 1e-8)), axis=-1)
        policy_term = -masked.mean(log_prob * targets.policy, rollout.mask)
        prediction_term = masked.mean(divergence, rollout.mask)
        entropy = masked.mean(entropy, rollout.mask)
        metrics = {"policy_loss": policy_term, "prediction_loss": prediction_term, "entropy": entropy}
        total = policy_term + config.prediction_coefficient * prediction_term - config.entropy_coefficient * entropy
        return total, (rule_state, metrics)

    def update(agent: LPGAgent, key: Key, rollout: Rollout) -> tuple[LPGAgent, Metrics]:
        gradient, (rule_state, metrics) = jax.grad(loss, has_aux=True)(agent.params, agent, rollout)
        params, opt_state = descend(optimizer, gradient, agent.opt_state, agent.params)
        return LPGAgent(params, opt_state, rule_state, agent.updates + 1), metrics

    return Algorithm(init, base.initial_carry, act, update)
