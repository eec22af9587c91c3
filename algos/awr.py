"""AWR: advantage-weighted regression, from replay. `purerl train awr CartPole-v1`.

Two regressions on samples of the replay: the value function on returns, and the policy on the actions taken, each
weighted by the exponential of its advantage. There is no ratio and no target policy, so old samples stay useful.
Source: Peng et al. (2019), arXiv:1910.00177. Returns span n steps here, not complete trajectories.
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp

from purerl.algos.off_policy import (
    OffPolicyAgent,
    OffPolicyConfig,
    learn_from_replay,
    new_agent,
    new_statistics,
    polyak,
    uniform_replay,
)
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.normalize import normalized
from purerl.networks.actor_critic import ActorCriticConfig, Network, actor_critic, networks_for
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class AWRConfig(OffPolicyConfig):
    """Settings of AWR."""

    num_envs: int = static(default=8, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=4, doc="steps of each environment per update", at_least=1)
    share_body: bool = static(default=False, doc="policy and value function share everything below their heads")
    learning_rate: float = number(default=1e-3, doc="learning rate of Adam", above=0)
    temperature: float = number(
        default=1.0,
        doc="temperature of the weights, in units of the advantage (authors' code: 1; paper: 0.05, for raw advantages)",
        above=0,
    )
    normalize_advantage: bool = static(
        default=True,
        doc="divide each batch's advantages by their standard deviation (authors' code: over all samples; paper: no)",
    )
    max_weight: float = number(default=20.0, doc="largest weight of a sample", above=0)
    value_coefficient: float = number(default=0.5, doc="weight of the value loss", at_least=0)
    entropy_coefficient: float = number(default=0.01, doc="weight of the entropy bonus", at_least=0)
    max_grad_norm: float = number(default=0.5, doc="global norm that gradients are clipped to", above=0)
    tau: float = number(default=0.01, doc="Polyak coefficient of the target update", above=0, at_most=1)
    n_step: int = static(default=8, doc="steps of reward before bootstrapping", at_least=1)
    batch_size: int = static(default=256, doc="transitions per gradient step", at_least=1)
    num_gradient_steps: int = static(default=2, doc="gradient steps per update", at_least=1)
    replay_capacity: int = static(default=20_000, doc="capacity of the replay, in environment steps", at_least=1)
    learning_starts: int = static(default=1_000, doc="environment steps before the first gradient step", at_least=1)
    normalize_observation: bool = static(
        default=False, doc="standardize float and byte observations by running statistics"
    )
    reward_scale: float = number(default=1.0, doc="factor on the rewards in learning", above=0)


def awr(
    spec: EnvironmentSpec,
    config: AWRConfig,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: Network | None = None,
    replay: Replay | None = None,
) -> Algorithm:
    r"""Return AWR for an environment with discrete, multi-discrete, continuous or dict actions.

        loss = -min(exp(A / temperature), max_weight) log pi(a|s) + c_v (V(s) - R)^2 / 2 - c_e H
        R = scale (r_0 + ... + discount^{n-1} r_{n-1}) + discount^n V'(s_n),  A = R - V'(s)

    with V' the target network. The action is the one that the environment received, clipped to its bounds.

    Args:
      spec: the environment's spaces.
      config: the settings.
      optimizer: an optax optimizer such as `optax.lion`, applied to clipped gradients, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], to which heads are
        added, or a function (observation space, action head, config) -> the policy and the value function;
        `actor_critic` by default.
      replay: a replay; by default a uniform one.

    Raises:
      InputError: if a setting is out of range or the action space has no distribution.
    """
    validate(config, "awr")
    shared = {f.name for f in dataclasses.fields(ActorCriticConfig)} & {f.name for f in dataclasses.fields(config)}
    networks = ActorCriticConfig(**{name: getattr(config, name) for name in shared})
    head, net = networks_for(spec, networks, actor_critic if network is None else network)
    buffer = replay or uniform_replay(spec, config)
    optimizer_at = optimizer_of(config, config.num_gradient_steps, optimizer)

    def init(key: Key) -> OffPolicyAgent:
        params = net.init(key)
        return new_agent(params, params, optimizer_at.init(params), buffer, new_statistics(spec, config))

    def act(agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        policy, _ = net.policy(agent.params, (), normalized(agent.observation_statistics, observation))
        return head.to_action(policy.sample(seed=key) if explore else policy.mode()), carry, ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        return learn_from_replay(agent, key, rollout, replay=buffer, gradient_step=gradient_step, config=config)

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        gradient, (error, metrics) = jax.grad(loss, has_aux=True)(agent.params, agent.target_params, batch)
        params, opt_state = apply_gradients(optimizer_at(agent.num_updates), gradient, agent.opt_state, agent.params)
        target_params = polyak(agent.target_params, params, config.tau)
        return agent._replace(params=params, target_params=target_params, opt_state=opt_state), error, metrics

    def loss(params: PyTree, target_params: PyTree, batch: Transitions) -> tuple[Array, tuple[Array, Metrics]]:
        mean, target_value = lambda x: jnp.mean(batch.weight * x), partial(net.value, target_params, ())
        target = config.reward_scale * batch.reward + batch.discount * target_value(batch.next_observation)
        weight = weights(target - target_value(batch.observation), batch.weight > 0, config)
        policy, _ = net.policy(params, (), batch.observation)
        td_error = net.value(params, (), batch.observation) - target
        entropy = mean(policy.entropy())
        metrics = {
            "policy_loss": -mean(weight * policy.log_prob(batch.action)),
            "value_loss": 0.5 * mean(td_error**2),
            "entropy": entropy,
            "weight": jnp.mean(weight),
        }
        total = metrics["policy_loss"] + config.value_coefficient * metrics["value_loss"]
        return total - config.entropy_coefficient * entropy, (jnp.abs(td_error), metrics)

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


def weights(advantage: Array, counted: Array, config: AWRConfig) -> Array:
    """Return the weights of a batch's samples, f32[N], from advantages f32[N] and which of them count, bool[N]."""
    if config.normalize_advantage:
        advantage = advantage / (masked.std(advantage, counted) + 1e-8)
    return jnp.minimum(jnp.exp(advantage / config.temperature), config.max_weight)
