"""SAC: soft actor-critic, with continuous or discrete actions. `purerl train sac Pendulum-v1`.

Maximize return plus the policy's entropy: two critics learn the soft value from replay, the policy follows the smaller
of them, and the temperature that weighs entropy is learned so that the entropy stays near a target.
Source: Haarnoja et al. (2018), arXiv:1801.01290 and arXiv:1812.05905; discrete: Christodoulou (2019), arXiv:1910.07207.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.algo_parts.actor_critic_replay import ActorCriticReplayConfig, random_at_first
from purerl.algo_parts.off_policy import (
    OffPolicyAgent,
    learn_from_replay,
    move_towards,
    new_agent,
    new_statistics,
    uniform_replay,
)
from purerl.algo_parts.soft_actor_critic import squashed_policy
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.functional.distributions import Categorical
from purerl.functional.normalize import normalized
from purerl.functional.q_targets import at_action
from purerl.networks.critics import critics
from purerl.networks.modules import Module
from purerl.networks.q_networks import q_network
from purerl.networks.torsos import ACTIVATIONS, INITIALIZERS, TORSOS
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.optim.schedules import Schedule, schedule
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Discrete
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class SACConfig(ActorCriticReplayConfig):
    """Settings of SAC: all of them, those that it shares with other algorithms included."""

    num_envs: int = static(default=1, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=1, doc="steps of each environment per update", at_least=1)
    total_timesteps: int = number(
        default=500_000, doc="environment steps of the whole run; the horizon of every schedule", above=0
    )
    discount: float = number(default=0.99, doc="discount of future rewards, per step", at_least=0, at_most=1)
    initial_temperature: float = number(default=1.0, doc="weight of the entropy at first", above=0)
    target_entropy: float | None = number(
        default=None, doc="nats; none: minus the number of actions, or .9 log(legal ones)"
    )
    learning_rate: float = number(default=3e-4, doc="Adam's step size, of all parts", above=0)
    learning_rate_schedule: Schedule = schedule("constant")
    tau: float = number(default=0.005, doc="the targets' step towards the networks", above=0, at_most=1)
    batch_size: int = static(default=256, doc="transitions per gradient step", at_least=1)
    num_gradient_steps: int = static(default=1, doc="gradient steps per update", at_least=1)
    learning_starts: int = static(default=1_000, doc="steps, of random actions, before the first gradient", at_least=1)
    replay_capacity: int = static(default=100_000, doc="steps held, all environments together", at_least=1)
    n_step: int = static(default=1, doc="steps of reward before bootstrapping", at_least=1)
    network: str = static(default="auto", doc="torso", choices=TORSOS)
    hidden_sizes: tuple[int, ...] = static(default=(256, 256), doc="units of the hidden layers", at_least=1)
    activation: str = static(default="relu", doc="of the hidden layers", choices=tuple(ACTIVATIONS))
    layer_norm: bool = static(default=False, doc="normalize each hidden layer")
    normalize_observation: bool = static(default=False, doc="standardize observations by running statistics")
    reward_scale: float = number(default=1.0, doc="factor of the rewards that are learned from", above=0)
    initializer: str = static(
        default="orthogonal", doc="of dense and convolutional weights", choices=tuple(INITIALIZERS)
    )
    precision: str = static(default="float32", doc="of the network's products", choices=("float32", "bfloat16"))
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


class SoftActorCritic(NamedTuple):
    """The policy and the critics, for continuous or for discrete actions."""

    init: Callable[[Key], PyTree]  # key -> {"actor": ..., "critics": ...}
    act: Callable[[PyTree, Key, PyTree, bool], Array]  # (params, key, observation[B], explore) -> action[B]
    soft_value: Callable[[PyTree, PyTree, Key, PyTree, Array], tuple[Array, Array]]
    # (actor params, critic params, key, observation[N], temperature) -> (E min Q - temperature log pi, entropy) f32[N]
    entropy: Callable[[PyTree, Key, PyTree], Array]  # (actor params, key, observation[..., *]) -> f32[...]
    q: Callable[[PyTree, PyTree, Array], Array]  # (critic params, observation[N], action[N]) -> Q f32[num, N]
    target_entropy: Callable[[PyTree, Array], Array]
    # (observation[N], which count bool[N]) -> f32[], where the config names none


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

    With `n_step` above 1 the soft rewards of n steps stand for r: their rewards and, for each after the first, the
    entropy of today's policy there, sum_k discount^k (scale r_k + [k > 0] temperature H(pi(.|s_k))).

    Args:
      spec: the environment's spaces: discrete actions, or a Box with finite bounds.
      config: the settings.
      optimizer: of all parts together: of optax, such as `optax.lion`, or `GradientPlan` -> transformation; Adam if
        none is given.
      network: a module (observation [N, ...]) -> features f32[N, n], of flax linen, or of NNX, below the policy's head;
        a critic of continuous actions has its own, with `hidden_sizes` on its features and the action.
      replay: a uniform one if none is given.

    Raises:
      InputError: if a setting is out of range or the actions fit neither form.
    """
    validate(config, "sac")
    net = (_discrete if isinstance(spec.action_space, Discrete) else _continuous)(spec, config, network)
    buffer = replay or uniform_replay(spec, config, between=config.n_step > 1)
    descent = optimizer_of(config, config.num_gradient_steps, optimizer)

    def init(key: Key) -> OffPolicyAgent:
        params = net.init(key) | {"log_temperature": jnp.log(jnp.float32(config.initial_temperature))}
        opt_state = descent(jnp.int32(0)).init(params)
        return new_agent(params, params["critics"], opt_state, buffer, new_statistics(spec, config))

    def act(agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        action = net.act(agent.params, key, normalized(agent.observation_statistics, observation), explore)
        if explore:
            action = random_at_first(spec.action_space, config, agent, key, observation, action)
        return action, carry, ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        return learn_from_replay(agent, key, rollout, buffer, gradient_step, config)

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        # One Adam for all parts: it scales each number alone, and each loss reaches only its part of the parameters.
        gradient, (error, metrics) = jax.grad(loss, has_aux=True)(agent.params, agent.target_params, batch, key)
        params, opt_state = apply_gradients(descent(agent.num_updates), gradient, agent.opt_state, agent.params)
        target_params = move_towards(agent.target_params, params["critics"], config.tau)
        return agent._replace(params=params, target_params=target_params, opt_state=opt_state), error, metrics

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key):
        key_next, key_now = jax.random.split(key)
        temperature, sg_params = jnp.exp(params["log_temperature"]), jax.lax.stop_gradient(params)
        sg_temperature = jax.lax.stop_gradient(temperature)

        next_value, _ = net.soft_value(
            sg_params["actor"], target_params, key_next, batch.next_observation, sg_temperature
        )
        target = config.reward_scale * batch.reward + batch.discount * next_value
        if batch.between is not None:
            entropy_between = net.entropy(sg_params["actor"], jax.random.fold_in(key, 2), batch.between.observation)
            target = target + sg_temperature * jnp.sum(batch.between.discount * entropy_between, axis=0)
        td_error = net.q(params["critics"], batch.observation, batch.action) - target
        critic_loss = 0.5 * jnp.mean(batch.weight * jnp.sum(td_error**2, axis=0))

        value, entropy = net.soft_value(
            params["actor"], sg_params["critics"], key_now, batch.observation, sg_temperature
        )
        actor_loss = -jnp.mean(batch.weight * value)

        wanted = config.target_entropy
        counted = batch.weight > 0
        target_entropy = net.target_entropy(batch.observation, counted) if wanted is None else wanted
        mean_entropy = masked.mean(entropy, counted)
        entropy_gap = jax.lax.stop_gradient(mean_entropy) - target_entropy
        temperature_loss = params["log_temperature"] * entropy_gap
        metrics = {
            "critic_loss": critic_loss,
            "actor_loss": actor_loss,
            "entropy": mean_entropy,
            "temperature": temperature,
        }
        return critic_loss + actor_loss + temperature_loss, (jnp.mean(jnp.abs(td_error), axis=0), metrics)

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


def _continuous(spec: EnvironmentSpec, config: SACConfig, network: Module | None) -> SoftActorCritic:
    """Return a policy of tanh-squashed normals, and critics of actions in [-1, 1]."""
    actor = squashed_policy(spec, config, network, "sac")
    policy, box = actor.distribution, actor.box
    both = critics(spec.observation_space, box.size, config, 2, network)

    def init(key: Key) -> PyTree:
        keys = jax.random.split(key, 3)
        return {"actor": actor.init(keys[0], keys[1]), "critics": both.init(keys[2])}

    def soft_value(params: PyTree, critic_params: PyTree, key: Key, observation: PyTree, temperature: Array):
        pi = policy(params, observation)
        draw = pi.sample(seed=key)
        log_prob = pi.log_prob(draw)
        value = jnp.min(both.apply(critic_params, observation, jnp.tanh(draw)), axis=0)
        return value - temperature * log_prob, -log_prob

    def entropy(params: PyTree, key: Key, observation: PyTree) -> Array:
        pi = policy(params, observation)
        return -pi.log_prob(pi.sample(seed=key))

    def q(critic_params: PyTree, observation: PyTree, action: Array) -> Array:
        return both.apply(critic_params, observation, box.to_unit(action))

    target_entropy = lambda observation, counted: -jnp.float32(box.size)
    return SoftActorCritic(
        init=init, act=actor.act, soft_value=soft_value, entropy=entropy, q=q, target_entropy=target_entropy
    )


def _discrete(spec: EnvironmentSpec, config: SACConfig, network: Module | None) -> SoftActorCritic:
    """Return a categorical policy, and critics with a value per action, over which expectations are exact."""
    assert isinstance(spec.action_space, Discrete)
    size = spec.action_space.n
    q_of_all = q_network(spec.observation_space, size, config, network=network)

    def init(key: Key) -> PyTree:
        keys = jax.random.split(key, 3)
        return {"actor": q_of_all.init(keys[0]), "critics": (q_of_all.init(keys[1]), q_of_all.init(keys[2]))}

    def policy(params: PyTree, observation: PyTree) -> Categorical:
        return Categorical(mask_illegal(q_of_all.apply(params, observation, None), action_mask(observation)))

    def act(params: PyTree, key: Key, observation: PyTree, explore: bool) -> Array:
        pi = policy(params["actor"], observation)
        return pi.sample(seed=key) if explore else pi.mode()

    def values(critic_params: PyTree, observation: PyTree) -> Array:
        return jnp.stack([q_of_all.apply(part, observation, None) for part in critic_params])

    def soft_value(params: PyTree, critic_params: PyTree, key: Key, observation: PyTree, temperature: Array):
        pi = policy(params, observation)
        log_probs = jax.nn.log_softmax(pi.logits)
        value = jnp.min(values(critic_params, observation), axis=0) - temperature * log_probs
        return jnp.sum(jnp.exp(log_probs) * value, axis=-1), pi.entropy()

    def q(critic_params: PyTree, observation: PyTree, action: Array) -> Array:
        of_all = values(critic_params, observation)
        return at_action(of_all, jnp.broadcast_to(action, of_all.shape[:-1]))

    def entropy(params: PyTree, key: Key, observation: PyTree) -> Array:
        return policy(params, observation).entropy()

    def target_entropy(observation: PyTree, counted: Array) -> Array:
        mask = action_mask(observation)  # more than the log of the number of legal actions cannot be reached
        if mask is None:
            return 0.9 * jnp.log(jnp.float32(size))
        legal = jnp.sum(mask, axis=-1, dtype=jnp.float32)  # 0 where a drawn row holds no transition
        return 0.9 * masked.mean(jnp.log(jnp.maximum(legal, 1.0)), counted)

    return SoftActorCritic(
        init=init, act=act, soft_value=soft_value, entropy=entropy, q=q, target_entropy=target_entropy
    )
