"""SPO: sequential Monte Carlo policy optimization. `purerl train spo CartPole-v1`.

Before each action, particles start from the current state. Each acts by the policy in the environment itself and is
weighted by its advantages; from time to time the particles are resampled by their weights. The weighted first actions
are an improved policy, which the network learns within a trust region.
Source: Macfarlane et al. (2024), "SPO: sequential Monte Carlo policy optimisation", arXiv:2402.07963.
"""

import dataclasses
from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.distributions import action_head, kl_parts
from purerl.functional.returns import gae
from purerl.networks.actor_critic import NetworkFactory, PolicyAgent, actor_critic, network_of
from purerl.networks.encoder import NetworkConfig
from purerl.networks.modules import Module
from purerl.networks.torsos import ACTIVATIONS
from purerl.optim.minibatch import check_minibatches, rollout_minibatches
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.optim.schedules import Schedule, schedule
from purerl.optim.trust_region import initial_duals, positive, trust_loss
from purerl.planning.acting import fixed_key
from purerl.planning.particles import heaviest, imagine
from purerl.types import (
    Algorithm,
    Array,
    EnvironmentSpec,
    Key,
    Metrics,
    PyTree,
    Rollout,
    TimeStep,
    number,
    pytree,
    static,
)
from purerl.wrappers.situations import Model, Situation


@pytree
class SPOConfig(NetworkConfig):
    """Settings of SPO."""

    num_envs: int = static(default=32, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=32, doc="steps of each environment per update", at_least=1)
    num_particles: int = static(default=16, doc="particles simulated before each action", at_least=2)
    depth: int = static(default=4, doc="simulated actions per particle", at_least=1)
    resampling_period: int = static(
        default=2, doc="actions between two resamplings of the particles (Stoix: 4)", at_least=1
    )
    discount: float = number(default=0.99, doc="discount of future rewards, per step", at_least=0, at_most=1)
    gae_lambda: float = number(default=0.95, doc="GAE lambda of the value targets", at_least=0, at_most=1)
    num_epochs: int = static(default=4, doc="passes over each rollout", at_least=1)
    num_minibatches: int = static(default=4, doc="gradient steps per pass", at_least=1)
    learning_rate: float = number(default=1e-3, doc="learning rate of the optimizer (Stoix: 3e-4)", above=0)
    learning_rate_schedule: Schedule = schedule("linear")
    max_grad_norm: float = number(default=0.5, doc="global norm that gradients are clipped to", above=0)
    value_coefficient: float = number(default=0.5, doc="weight of the value loss", at_least=0)
    entropy_coefficient: float = number(default=0.0, doc="weight of the entropy bonus", at_least=0)
    temperature_epsilon: float = number(
        default=0.5,
        doc="bound on the KL divergence of the particles' weights from uniform weights, in nats (Stoix: 0.01)",
        above=0,
    )
    kl_epsilon: float = number(
        default=0.01, doc="bound on the KL divergence of choices or means per update, in nats", above=0
    )
    spread_kl_epsilon: float = number(
        default=1e-3, doc="bound on the KL divergence of standard deviations per update, in nats", above=0
    )
    initial_temperature: float = number(
        default=1.0, doc="initial temperature of the weights, in units of the return", above=0
    )
    initial_kl_weight: float = number(default=1.0, doc="initial weight of both KL penalties", above=0)
    dual_learning_rate: float = number(default=1e-2, doc="learning rate of the dual variables (Stoix: 1e-3)", above=0)
    activation: str = static(  # values far from 0, which advantages depend on, saturate tanh
        default="relu", doc="hidden layers' activation", choices=tuple(ACTIVATIONS)
    )
    squash_actions: bool = static(default=False, doc="squash continuous actions by tanh instead of clipping them")
    share_body: bool = static(default=False, doc="policy and value function share everything below their heads")
    rnn: ClassVar[str] = "none"
    rnn_size: ClassVar[int] = 1
    head_sizes: ClassVar[tuple[int, ...]] = ()
    plans: ClassVar[int] = 1

    @property
    def samples_per_gradient(self) -> int:
        """Environment steps in a minibatch."""
        return self.steps_per_update // self.num_minibatches


class Batch(NamedTuple):
    """The training data of each step of a rollout, [T, B, ...], or of a minibatch."""

    observation: PyTree
    first: PyTree  # [..., N, ...], the first actions of the particles, as the policy sampled them
    gain: Array  # f32[..., K, N], the particles' sums of advantages in each of K periods
    weight: Array  # f32[..., N], of the first actions
    value_target: Array  # f32, the return
    mask: Array | None  # bool, which samples count; None: all


def spo(
    spec: EnvironmentSpec,
    config: SPOConfig,
    *,
    model: Model | None = None,
    optimizer: Optimizer = adam_by_plan,
    network: NetworkFactory | Module = actor_critic,
) -> Algorithm:
    r"""Return SPO for an environment with discrete, multi-discrete, continuous or dict actions.

        loss = -sum_n w_n log pi(a_n|s) + T (epsilon_T + sum_k log mean_n exp(g_kn / T)) + c_v (V - R)^2 / 2
               + sum_j [c_j (epsilon_j - sg KL_j) + sg(c_j) KL_j],  w = softmax_n(g_Kn / T)

    a_n: the first action of particle n; g_kn: the sum of its advantages r + discount V(s') - V(s) in period k, after
    which the particles are resampled by softmax(g_k / T); T: the temperature; KL_j: the divergence of the policy from
    the one that acted, in its choices or means and in its standard deviations; c_j: their weights; sg stops gradients.
    The action is sampled by w; in evaluation it is the one with the largest weight.

    Args:
      spec: the environment's spaces.
      config: the settings.
      model: the environment's step; the loop passes it. Without it, or if `act` gets an observation only, the agent
        acts by the policy of its network.
      optimizer: for the network and the dual variables: an optax optimizer such as `optax.lion`, applied to clipped
        gradients, or a function `GradientPlan` -> optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], to which heads are
        added, or a function (observation space, action head, config) -> the policy and the value function.

    Raises:
      InputError: if the settings contradict one another or the action space has no distribution.
    """
    validate(config, "spo")
    check_minibatches(config, False, "spo")
    if config.depth % config.resampling_period:
        raise InputError(f"spo: resampling_period {config.resampling_period} does not divide depth {config.depth}")
    head = action_head(spec.action_space, config.squash_actions)
    net = network_of(network)(spec.observation_space, head, config)  # type: ignore[arg-type]
    rates = {"network": config, "duals": dataclasses.replace(config, learning_rate=config.dual_learning_rate)}
    steps = config.num_epochs * config.num_minibatches
    optimizers = {part: optimizer_of(given, steps, optimizer) for part, given in rates.items()}

    def init(key: Key) -> PolicyAgent:
        params = {"network": net.init(key), "duals": initial_duals(config)}
        return PolicyAgent(
            params=params,
            opt_state={part: optimizer_at.init(params[part]) for part, optimizer_at in optimizers.items()},
            num_updates=jnp.int32(0),
            observation_statistics=None,
            return_scale=None,
            value_statistics=None,
        )

    def act(agent: PolicyAgent, carry: PyTree, key: Key, situation: PyTree, explore: bool):
        params, temperature = agent.params["network"], positive(agent.params["duals"]).temperature
        if model is None or not isinstance(situation, Situation):  # nothing to plan in
            policy, _ = net.policy(params, (), situation)
            return head.to_action(policy.sample(seed=key) if explore else policy.mode()), carry, ()
        key = key if explore else fixed_key(key)  # in evaluation the same situation gives the same action
        key_particles, key_choice = jax.random.split(key)
        first, gain = imagine(
            key_particles,
            situation,
            policy=lambda observation: net.policy(params, (), observation)[0],
            value=lambda observation: net.value(params, (), observation),
            step=partial(step, model),
            temperature=temperature,
            config=config,
        )
        last = gain[:, -1] / temperature
        chosen = jax.random.categorical(key_choice, last, axis=-1) if explore else heaviest(first, jax.nn.softmax(last))
        raw_action = jax.tree.map(lambda x: jax.vmap(lambda row, i: row[i])(x, chosen), first)
        return head.to_action(raw_action), carry, {"first": first, "gain": gain} if explore else ()

    def step(model: Model, key: Key, situation: Situation, raw_action: PyTree) -> TimeStep:
        return model(key, situation, head.to_action(raw_action))

    def targets(params: PyTree, rollout: Rollout) -> tuple[Batch, Array]:
        now, then = rollout.observation.observation, rollout.next_observation.observation
        value, next_value = net.value(params["network"], (), now), net.value(params["network"], (), then)
        advantage = gae(
            rollout.reward,
            value,
            next_value,
            terminated=rollout.terminated,
            done=rollout.done,
            discount=config.discount,
            gae_lambda=config.gae_lambda,
        )
        gain = rollout.extras["gain"]
        batch = Batch(
            observation=now,
            first=rollout.extras["first"],
            gain=gain,
            weight=jax.nn.softmax(gain[..., -1, :] / positive(params["duals"]).temperature),
            value_target=value + advantage,
            mask=rollout.mask,
        )
        return batch, value

    def total_loss(acted: PyTree, params: PyTree, batch: Batch, carry: PyTree) -> tuple[Array, Metrics]:
        policy, _ = net.policy(params["network"], (), batch.observation)
        old_policy, _ = net.policy(acted, (), batch.observation)
        duals, mean = positive(params["duals"]), partial(masked.mean, mask=batch.mask)
        axis = batch.weight.ndim - 1
        log_prob = jax.vmap(policy.log_prob, axis, -1)(batch.first)
        policy_loss = -mean(jnp.sum(batch.weight * log_prob, axis=-1))
        log_mean = jax.nn.logsumexp(batch.gain / duals.temperature, axis=-1) - jnp.log(float(config.num_particles))
        temperature_loss = duals.temperature * (config.temperature_epsilon + mean(jnp.sum(log_mean, axis=-1)))
        value_loss = 0.5 * mean((net.value(params["network"], (), batch.observation) - batch.value_target) ** 2)
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
        total = policy_loss + temperature_loss + trust_loss(duals, kl, spread_kl, config)
        return total + config.value_coefficient * value_loss - config.entropy_coefficient * entropy, metrics

    def update(agent: PolicyAgent, key: Key, rollout: Rollout) -> tuple[PolicyAgent, Metrics]:
        batch, value = targets(agent.params, rollout)
        loss = partial(total_loss, agent.params["network"])

        def gradient_step(learner: tuple[PyTree, PyTree], minibatch: Batch, carry: PyTree):
            gradient, metrics = jax.grad(loss, has_aux=True)(learner[0], minibatch, carry)
            stepped = {
                part: apply_gradients(
                    optimizer_at(agent.num_updates), gradient[part], learner[1][part], learner[0][part]
                )
                for part, optimizer_at in optimizers.items()
            }
            params, opt_state = ({part: both[i] for part, both in stepped.items()} for i in range(2))
            return (params, opt_state), metrics

        learner = (agent.params, agent.opt_state)
        (params, opt_state), metrics = rollout_minibatches(gradient_step, learner, batch=batch, key=key, config=config)
        metrics["explained_variance"] = masked.explained_variance(value, batch.value_target, batch.mask)
        return agent.stepped(params, opt_state), metrics

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)
