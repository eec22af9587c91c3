"""TD3 and DDPG: deterministic policy gradients. `purerl train td3 Pendulum-v1`, `purerl train ddpg Pendulum-v1`.

A critic learns the value of the policy's actions from replay, and the policy maximizes the critic. TD3 extends DDPG: it
uses the minimum of two critics, adds noise to the target action, and updates the policy less often.
Source: Fujimoto et al. (2018), arXiv:1802.09477; Lillicrap et al. (2016), arXiv:1509.02971.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from purerl.algos.off_policy import (
    ActorCriticReplayConfig,
    OffPolicyAgent,
    learn_from_replay,
    new_agent,
    new_statistics,
    polyak,
    uniform_replay,
)
from purerl.fields import validate
from purerl.functional.action_masks import without_global_state
from purerl.functional.normalize import normalized
from purerl.functional.q_targets import squared_errors
from purerl.functional.unit_box import unit_box
from purerl.networks.critics import critics
from purerl.networks.encoder import encoder
from purerl.networks.modules import Module
from purerl.networks.torsos import apply, dense
from purerl.networks.torsos import init as init_module
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.optim.schedules import updates_of
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static
from purerl.xla.trees import where
from purerl.xla.vmap_cond import any_member


@pytree
class TD3Config(ActorCriticReplayConfig):
    """Settings of TD3."""

    learning_rate: float = number(default=1e-3, doc="learning rate of Adam, for actor and critics", above=0)
    exploration_noise: float = number(
        default=0.1, doc="standard deviation of the exploration noise, in half widths of the box", at_least=0
    )
    num_critics: int = static(default=2, doc="number of critics, whose minimum is used", at_least=1)
    policy_period: int = number(
        default=2, doc="gradient steps of the critics per gradient step of the policy", at_least=1
    )
    target_noise: float = number(default=0.2, doc="standard deviation of the noise on the target action", at_least=0)
    target_noise_clip: float = number(default=0.5, doc="clip range of the noise on the target action", at_least=0)


@pytree
class DDPGConfig(TD3Config):
    """Settings of DDPG."""

    num_critics: int = static(default=1, doc="number of critics, whose minimum is used", at_least=1)
    policy_period: int = number(
        default=1, doc="gradient steps of the critic per gradient step of the policy", at_least=1
    )
    target_noise: float = number(default=0.0, doc="standard deviation of the noise on the target action", at_least=0)


class CriticErrors(Protocol):
    """`Returns.errors`."""

    def __call__(self, outputs: Array, next_outputs: Array, reward: Array, discount: Array, /) -> tuple[Array, Array]:
        """Return (the critics' loss f32[N], |TD error| f32[N]).

        Args:
          outputs: the outputs of the critics, f32[num, N, ...].
          next_outputs: the outputs of the target critics at the next observation and action, f32[num, N, ...].
          reward, discount: f32[N].
        """
        ...


class Returns(NamedTuple):
    """The way in which the critics' outputs f32[num, N, ...] describe returns."""

    outputs: int | None  # numbers of a critic for a pair; None: one, without an axis
    mean: Callable[[Array], Array]  # outputs[...] -> Q f32[...]
    errors: CriticErrors


ADAM = partial(adam_by_plan, eps=1e-8)


def td3(
    spec: EnvironmentSpec,
    config: TD3Config,
    *,
    optimizer: Optimizer = ADAM,
    network: Module | None = None,
    replay: Replay | None = None,
) -> Algorithm:
    r"""Return TD3.

        critics: (Q_i(s, a) - [scale r + discount min_j Q'_j(s', clip(mu'(s') + clip(noise)))])^2 / 2
        policy:  -Q_1(s, mu(s)), every policy_period-th step

    Actions are in units of the box: [-1, 1].

    Args:
      spec: the environment's spaces, with a Box of actions with finite bounds.
      config: the settings.
      optimizer: for actor and critics each: an optax optimizer such as `optax.lion`, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], below the policy's
        head; each critic has its own copy, followed by `hidden_sizes` on its features and the action.
      replay: a replay; by default a uniform one.

    Raises:
      InputError: if a setting is out of range or the actions are not such a box.
    """
    return deterministic(
        spec, config, returns=SMALLEST, optimizer=optimizer, network=network, replay=replay, what="td3"
    )


def ddpg(
    spec: EnvironmentSpec,
    config: DDPGConfig,
    *,
    optimizer: Optimizer = ADAM,
    network: Module | None = None,
    replay: Replay | None = None,
) -> Algorithm:
    """Return DDPG: TD3 with one critic, without target noise, and with a policy step at every critic step."""
    return deterministic(
        spec, config, returns=SMALLEST, optimizer=optimizer, network=network, replay=replay, what="ddpg"
    )


def smoothed(action: Array, key: Key, noise: Array | float, noise_clip: Array | float) -> Array:
    """Return the target action with clipped normal noise, inside [-1, 1]; f32[..., n]."""
    clipped = jnp.clip(noise * jax.random.normal(key, action.shape), -noise_clip, noise_clip)
    return jnp.clip(action + clipped, -1.0, 1.0)


def _squared(outputs: Array, next_outputs: Array, reward: Array, discount: Array) -> tuple[Array, Array]:
    return squared_errors(outputs, (reward + discount * jnp.min(next_outputs, axis=0))[:, None])


SMALLEST = Returns(outputs=None, mean=lambda outputs: outputs, errors=_squared)  # the minimum over critics


def deterministic(
    spec: EnvironmentSpec,
    config: TD3Config,
    *,
    returns: Returns,
    optimizer: Optimizer,
    network: Module | None,
    replay: Replay | None,
    what: str,
) -> Algorithm:
    """Return an algorithm whose deterministic policy maximizes the first critic; arguments as for `td3`.

    Args:
      returns: how the critics learn.
      what: the algorithm, for errors.
    """
    validate(config, what)
    box = unit_box(spec.action_space, what)
    observed = without_global_state(spec.observation_space)
    base, head = encoder(observed, config, network), dense(box.size, 0.01, initializer=config.initializer)
    q = critics(
        spec.observation_space,
        box.size,
        config,
        num=config.num_critics,
        network=network,
        outputs=returns.outputs,
    )
    buffer = replay or uniform_replay(spec, config)
    optimizer_at = optimizer_of(config, config.num_gradient_steps, optimizer)  # for actor and critics each

    def init(key: Key) -> OffPolicyAgent:
        keys = jax.random.split(key, 3)
        actor = {"body": base.init(keys[0]), "head": init_module(head, keys[1], jnp.zeros(base.size))}
        params = {"actor": actor, "critics": q.init(keys[2])}
        opt_state = {part: optimizer_at(jnp.int32(0)).init(params[part]) for part in params}
        return new_agent(params, params, opt_state, buffer, new_statistics(spec, config))

    def policy(params: PyTree, observation: PyTree) -> Array:
        features, _ = base.step(params["body"], (), without_global_state(observation))
        return jnp.tanh(apply(head, params["head"], features))

    def act(agent: OffPolicyAgent, _: PyTree, key: Key, observation: PyTree, explore: bool):
        unit = policy(agent.params["actor"], normalized(agent.observation_statistics, observation))
        if explore:
            key_noise, key_random = jax.random.split(key)
            noisy = unit + config.exploration_noise * jax.random.normal(key_noise, unit.shape)
            random = jax.random.uniform(key_random, unit.shape, jnp.float32, -1.0, 1.0)
            started = agent.num_updates >= updates_of(config, config.learning_starts)
            unit = jnp.where(started, jnp.clip(noisy, -1.0, 1.0), random)
        return box.from_unit(unit), (), ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        return learn_from_replay(agent, key, rollout, replay=buffer, gradient_step=gradient_step, config=config)

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        optimizer, params, opt_state = optimizer_at(agent.num_updates), agent.params, agent.opt_state
        (critic_term, td_error), gradient = jax.value_and_grad(critic_loss, has_aux=True)(
            params["critics"], agent.target_params, batch, key
        )
        critics, critics_opt = apply_gradients(optimizer, gradient, opt_state["critics"], params["critics"])

        def improve(params: PyTree, target_params: PyTree, opt_state: PyTree) -> tuple[tuple, Array]:
            actor_term, gradient = jax.value_and_grad(actor_loss)(params["actor"], params["critics"], batch)
            actor, actor_opt = apply_gradients(optimizer, gradient, opt_state["actor"], params["actor"])
            params = params | {"actor": actor}
            target_params = polyak(target_params, params, config.tau)
            return (params, target_params, opt_state | {"actor": actor_opt}), actor_term

        def wait(params: PyTree, target_params: PyTree, opt_state: PyTree) -> tuple[tuple, Array]:
            return (params, target_params, opt_state), actor_loss(params["actor"], params["critics"], batch)

        due = (agent.num_gradient_steps + 1) % config.policy_period == 0
        learner = (params | {"critics": critics}, agent.target_params, opt_state | {"critics": critics_opt})
        improved, actor_term = jax.lax.cond(any_member(due), improve, wait, *learner)
        params, target_params, opt_state = where(due, improved, learner)
        agent = agent._replace(params=params, target_params=target_params, opt_state=opt_state)
        return agent, td_error, {"critic_loss": critic_term, "actor_loss": actor_term}

    def critic_loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key) -> tuple[Array, Array]:
        next_action = policy(target_params["actor"], batch.next_observation)
        next_action = smoothed(next_action, key, config.target_noise, config.target_noise_clip)
        next_outputs = jax.lax.stop_gradient(q.apply(target_params["critics"], batch.next_observation, next_action))
        outputs = q.apply(params, batch.observation, box.to_unit(batch.action))
        loss, error = returns.errors(outputs, next_outputs, config.reward_scale * batch.reward, batch.discount)
        return jnp.mean(batch.weight * loss), error

    def actor_loss(params: PyTree, critic_params: PyTree, batch: Transitions) -> Array:
        value = returns.mean(q.apply(critic_params[:1], batch.observation, policy(params, batch.observation))[0])
        return -jnp.mean(batch.weight * value)

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)
