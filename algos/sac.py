"""SAC: soft actor-critic, with continuous or discrete actions. `purerl train sac Pendulum-v1`.

Maximize the return plus the policy's entropy. Two critics learn the soft value from replay, the policy maximizes the
smaller of them, and the temperature, the weight of the entropy, is learned so that the entropy stays near a target.
TQC, REDQ and CrossQ are the same agent, `soft_agent`, with other critics. `sac_discrete.py` holds the differences for
discrete actions.
Source: Haarnoja et al. (2018), arXiv:1801.01290 and arXiv:1812.05905.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.algos.off_policy import (
    ActorCriticReplayConfig,
    GradientStep,
    OffPolicyAgent,
    learn_from_replay,
    new_agent,
    new_statistics,
    polyak,
    random_at_first,
    uniform_replay,
)
from purerl.algos.sac_discrete import CategoricalActorCritic, categorical_actor_critic
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.normalize import normalized
from purerl.functional.q_targets import squared_errors
from purerl.networks.critics import Critics, critics
from purerl.networks.initializers import INITIALIZERS
from purerl.networks.modules import Module
from purerl.networks.squashed_policy import SquashedPolicy, squashed_policy
from purerl.networks.torsos import ACTIVATIONS, TORSOS
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.optim.schedules import Schedule, schedule
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Discrete
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class SACConfig(ActorCriticReplayConfig):
    """Settings of SAC, including the settings of every algorithm."""

    num_envs: int = static(default=1, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=1, doc="steps of each environment per update", at_least=1)
    total_timesteps: int = number(
        default=500_000, doc="environment steps of the whole run; the horizon of every schedule", above=0
    )
    discount: float = number(default=0.99, doc="discount of future rewards, per step", at_least=0, at_most=1)
    initial_temperature: float = number(default=1.0, doc="initial temperature, the weight of the entropy", above=0)
    target_entropy: float | None = number(
        default=None, doc="target entropy, in nats; none: minus the number of actions, or 0.9 log(legal actions)"
    )
    learning_rate: float = number(default=3e-4, doc="learning rate of Adam, for all networks", above=0)
    learning_rate_schedule: Schedule = schedule("constant")
    tau: float = number(default=0.005, doc="Polyak coefficient of the target update", above=0, at_most=1)
    batch_size: int = static(default=256, doc="transitions per gradient step", at_least=1)
    num_gradient_steps: int = static(default=1, doc="gradient steps per update", at_least=1)
    learning_starts: int = static(
        default=1_000, doc="steps with random actions before the first gradient step", at_least=1
    )
    replay_capacity: int = static(default=100_000, doc="capacity of the replay, in environment steps", at_least=1)
    n_step: int = static(default=1, doc="steps of reward before bootstrapping", at_least=1)
    network: str = static(default="auto", doc="type of the torso", choices=TORSOS)
    hidden_sizes: tuple[int, ...] = static(default=(256, 256), doc="units of the hidden layers", at_least=1)
    activation: str = static(default="relu", doc="activation function of the hidden layers", choices=tuple(ACTIVATIONS))
    layer_norm: bool = static(default=False, doc="normalize each hidden layer")
    normalize_observation: bool = static(
        default=False, doc="standardize float and byte observations by running statistics"
    )
    reward_scale: float = number(default=1.0, doc="factor on the rewards in learning", above=0)
    initializer: str = static(
        default="orthogonal", doc="weight initializer for dense and convolutional layers", choices=tuple(INITIALIZERS)
    )
    precision: str = static(
        default="float32", doc="dtype of the network's matrix products", choices=("float32", "bfloat16")
    )
    prng: str = static(
        default="fast",
        doc="random number generator of environments and algorithm; fast is the fastest",
        choices=("fast", "threefry", "rbg"),
    )
    reset_policy: str = static(
        default="auto",
        doc="resets: computed ahead (prefetch), at each step (always), or sampled from a pool; auto: prefetch on a CPU",
        choices=("auto", "prefetch", "always", "pool"),
    )
    pool_size: int = static(default=1024, doc="reset states in a pool", at_least=1)


def sac(
    spec: EnvironmentSpec,
    config: SACConfig,
    *,
    optimizer: Optimizer = partial(adam_by_plan, eps=1e-8),
    network: Module | None = None,
    replay: Replay | None = None,
) -> Algorithm:
    r"""Return SAC.

        critics: (Q_i(s, a) - [scale r + discount E(min_j Q'_j(s', a') - temperature log pi(a'|s'))])^2 / 2
        actor:   -E(min_i Q_i(s, a) - temperature log pi(a|s))
        temperature: log(temperature) (entropy - target_entropy)

    With `n_step` above 1, r is the sum of the soft rewards of n steps: their rewards and, for each step after the
    first, the entropy of the current policy there, sum_k discount^k (scale r_k + [k > 0] temperature H(pi(.|s_k))).

    Args:
      spec: the environment's spaces: discrete actions, or a Box with finite bounds.
      config: the settings.
      optimizer: for all networks together: an optax optimizer such as `optax.lion`, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], below the policy's
        head; each critic of continuous actions has its own copy, followed by `hidden_sizes` on its features and the
        action.
      replay: a replay; by default a uniform one.

    Raises:
      InputError: if a setting is out of range or the actions fit neither form.
    """
    validate(config, "sac")
    discrete = isinstance(spec.action_space, Discrete)
    net = (categorical_actor_critic if discrete else squashed_actor_critic)(spec, config, network)
    buffer = replay or uniform_replay(spec, config, between=config.n_step > 1)
    optimizer_at = optimizer_of(config, config.num_gradient_steps, optimizer)

    def init(key: Key) -> OffPolicyAgent:
        params = new_params(net, config, key)
        opt_state = optimizer_at(jnp.int32(0)).init(params)
        return new_agent(params, params["critics"], opt_state, buffer, new_statistics(spec, config))

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        # One Adam for all parts: it scales each number separately, and each loss reaches only its own parameters.
        gradient, (error, metrics) = jax.grad(loss, has_aux=True)(agent.params, agent.target_params, batch, key)
        params, opt_state = apply_gradients(optimizer_at(agent.num_updates), gradient, agent.opt_state, agent.params)
        target_params = polyak(agent.target_params, params["critics"], config.tau)
        return agent._replace(params=params, target_params=target_params, opt_state=opt_state), error, metrics

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key):
        (key_next, key_now), key_between = jax.random.split(key), jax.random.fold_in(key, 2)
        fixed = jax.lax.stop_gradient(params)
        target = soft_target(net, config, fixed, target_params, batch, keys=(key_next, key_between))
        losses, error = net.errors(params["critics"], batch.observation, batch.action, target)
        critic_loss = jnp.mean(batch.weight * losses)
        policy_loss, metrics = actor_loss(params, fixed["critics"], batch, key_now, net=net, config=config)
        return critic_loss + policy_loss, (error, {"critic_loss": critic_loss} | metrics)

    return soft_agent(spec, config, net, init=init, gradient_step=gradient_step, replay=buffer)


def soft_target(
    net: "SoftActorCritic",
    config: SACConfig,
    params: PyTree,
    target_critics: PyTree,
    batch: Transitions,
    *,
    keys: tuple[Key, Key],
) -> Array:
    """Return the critics' target of N transitions, f32[N, m], by the policy in `params` and the target networks.

    `keys` are for the next actions, and for the actions between the first step and the last.
    """
    temperature = jnp.exp(params["log_temperature"])
    next_values = net.target_values(params["actor"], target_critics, keys[0], batch.next_observation, temperature)
    target = (config.reward_scale * batch.reward)[:, None] + batch.discount[:, None] * next_values
    if batch.between is not None:  # the entropies of the steps in between are rewards too
        entropy = net.entropy(params["actor"], keys[1], batch.between.observation)
        target = target + (temperature * jnp.sum(batch.between.discount * entropy, axis=0))[:, None]
    return target


def actor_loss(
    params: PyTree,
    critic_params: PyTree,
    batch: Transitions,
    key: Key,
    *,
    net: "SoftActorCritic",
    config: SACConfig,
) -> tuple[Array, Metrics]:
    """Return (the loss of the policy and of the temperature f32[], metrics) for N transitions.

    The policy follows the critics of `critic_params`; `key` is for its actions.
    """
    temperature, counted = jnp.exp(params["log_temperature"]), batch.weight > 0
    value, entropy = net.soft_value(
        params["actor"], critic_params, key, batch.observation, jax.lax.stop_gradient(temperature)
    )
    policy_loss, mean_entropy = -jnp.mean(batch.weight * value), masked.mean(entropy, counted)
    target_entropy = config.target_entropy
    if target_entropy is None:
        target_entropy = net.target_entropy(batch.observation, counted)
    temperature_loss = params["log_temperature"] * (jax.lax.stop_gradient(mean_entropy) - target_entropy)
    metrics = {"actor_loss": policy_loss, "entropy": mean_entropy, "temperature": temperature}
    return policy_loss + temperature_loss, metrics


def new_params(net: "SoftActorCritic", config: SACConfig, key: Key) -> dict[str, PyTree]:
    """Return {"actor", "critics", "log_temperature"}."""
    return net.init(key) | {"log_temperature": jnp.log(jnp.float32(config.initial_temperature))}


def soft_agent(
    spec: EnvironmentSpec,
    config: SACConfig,
    net: "SoftActorCritic",
    *,
    init: Callable[[Key], OffPolicyAgent],
    gradient_step: GradientStep[OffPolicyAgent],
    replay: Replay,
) -> Algorithm:
    """Return a soft actor-critic that learns by a gradient step: SAC and its family."""

    def act(agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        inputs = normalized(agent.observation_statistics, observation)
        action = net.act(agent.params["actor"], key, inputs, explore)
        if explore:
            action = random_at_first(spec.action_space, config, agent, key, observation, action=action)
        return action, carry, ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        return learn_from_replay(agent, key, rollout, replay=replay, gradient_step=gradient_step, config=config)

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


class SquashedActorCritic(NamedTuple):
    """A tanh-squashed normal policy and critics of actions in [-1, 1].

    The last three fields differ between SAC, TQC and REDQ: functions of the critics' outputs f32[num, N, ...].
    """

    policy: SquashedPolicy
    critics: Critics
    next_values: Callable[[Array, Key], Array]  # (target networks' outputs, key) -> values of the target f32[N, m]
    compare: Callable[[Array, Array], tuple[Array, Array]]  # (outputs, target f32[N, m]) -> (loss, |TD error|) f32[N]
    value: Callable[[Array], Array]  # outputs -> what the policy follows, f32[N]

    def init(self, key: Key) -> dict[str, PyTree]:
        """Return the parameters."""
        keys = jax.random.split(key, 3)
        return {"actor": self.policy.init(keys[0], keys[1]), "critics": self.critics.init(keys[2])}

    def act(self, actor: PyTree, key: Key, observation: PyTree, explore: bool) -> Array:
        """Return actions of the box, f32[B, n]."""
        return self.policy.act(actor, key, observation, explore)

    def soft_value(
        self, actor: PyTree, critics: PyTree, key: Key, observation: PyTree, temperature: Array
    ) -> tuple[Array, Array]:
        """Return (the value of a sampled action minus temperature log pi, its -log pi), f32[N] each."""
        policy = self.policy.distribution(actor, observation)
        sample = policy.sample(seed=key)
        log_prob = policy.log_prob(sample)
        value = self.value(self.critics.apply(critics, observation, jnp.tanh(sample)))
        return value - temperature * log_prob, -log_prob

    def target_values(self, actor: PyTree, critics: PyTree, key: Key, observation: PyTree, temperature: Array) -> Array:
        """Return the values of a sampled action by the target networks minus temperature log pi, f32[N, m]."""
        policy = self.policy.distribution(actor, observation)
        sample = policy.sample(seed=key)
        outputs = self.critics.apply(critics, observation, jnp.tanh(sample))
        return self.next_values(outputs, jax.random.fold_in(key, 1)) - (temperature * policy.log_prob(sample))[:, None]

    def errors(self, critics: PyTree, observation: PyTree, action: Array, target: Array) -> tuple[Array, Array]:
        """Return (the critics' loss, |TD error|), f32[N] each, for a target f32[N, m]."""
        return self.compare(self.critics.apply(critics, observation, self.policy.box.to_unit(action)), target)

    def entropy(self, actor: PyTree, key: Key, observation: PyTree) -> Array:
        """Return -log pi of a sampled action, f32[...]."""
        policy = self.policy.distribution(actor, observation)
        return -policy.log_prob(policy.sample(seed=key))

    def target_entropy(self, observation: PyTree, counted: Array) -> Array:
        """Return minus the size of an action, f32[]."""
        return -jnp.float32(self.policy.box.size)


SoftActorCritic = SquashedActorCritic | CategoricalActorCritic


def squashed_actor_critic(spec: EnvironmentSpec, config: SACConfig, network: Module | None) -> SquashedActorCritic:
    """Return SAC's policy and two critics for continuous actions; `network` replaces the torsos.

    Raises:
      InputError: if the actions are not a box with finite bounds.
    """
    policy = squashed_policy(spec, config, network, "sac")
    smallest = lambda outputs: jnp.min(outputs, axis=0)
    return SquashedActorCritic(
        policy=policy,
        critics=critics(spec.observation_space, policy.box.size, config, num=2, network=network),
        next_values=lambda outputs, key: smallest(outputs)[:, None],
        compare=squared_errors,
        value=smallest,
    )
