"""REDQ: an ensemble of critics that learns many times per step. `purerl train redq Pendulum-v1`.

Like SAC, but with many critics and many gradient steps per environment step. Each target uses a few random critics. The
ensemble keeps the bias small that so many gradient steps would otherwise accumulate.
Source: Chen et al. (2021), arXiv:2101.05982. With `layer_norm`, two critics perform similarly, as in DroQ,
Hiraoka et al. (2022), arXiv:2110.02034, which also has dropout.
"""

from functools import partial

import jax
import jax.numpy as jnp
import optax

from purerl.algos.off_policy import OffPolicyAgent, new_agent, new_statistics, polyak, uniform_replay
from purerl.algos.sac import (
    SACConfig,
    SquashedActorCritic,
    actor_loss,
    new_params,
    soft_agent,
    soft_target,
)
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional.q_targets import squared_errors
from purerl.networks.critics import critics
from purerl.networks.modules import Module
from purerl.networks.squashed_policy import squashed_policy
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, number, pytree, static
from purerl.xla.trees import where
from purerl.xla.vmap_cond import any_member


@pytree
class DelayedConfig(SACConfig):
    """Settings of a soft agent whose policy learns less often than its critics."""

    policy_period: int = number(
        default=1, doc="gradient steps of the critics per gradient step of the policy", at_least=1
    )


@pytree
class REDQConfig(DelayedConfig):
    """Settings of REDQ."""

    learning_starts: int = static(
        default=1_000, doc="steps with random actions before the first gradient step (paper: 5,000)", at_least=1
    )
    replay_capacity: int = static(
        default=100_000, doc="capacity of the replay, in environment steps (paper: 1,000,000)", at_least=1
    )
    num_critics: int = static(default=10, doc="number of critics; the policy maximizes their mean", at_least=1)
    num_target_critics: int = static(default=2, doc="random critics per target", at_least=1)
    num_gradient_steps: int = static(default=20, doc="gradient steps per update", at_least=1)
    policy_period: int = number(
        default=20, doc="gradient steps of the critics per gradient step of the policy", at_least=1
    )


def redq(
    spec: EnvironmentSpec,
    config: REDQConfig,
    *,
    optimizer: Optimizer = partial(adam_by_plan, eps=1e-8),
    network: Module | None = None,
    replay: Replay | None = None,
) -> Algorithm:
    r"""Return REDQ.

        critics: (Q_i(s, a) - [scale r + discount (min_{j in M} Q'_j(s', a') - temperature log pi(a'|s'))])^2 / 2
        policy:  -E(mean_i Q_i(s, a) - temperature log pi(a|s)), every policy_period-th gradient step

    with M `num_target_critics` random target networks, which change with each gradient step.

    Args:
      spec: the environment's spaces, with a Box of actions with finite bounds.
      config: the settings.
      optimizer: for actor and critics each: an optax optimizer such as `optax.lion`, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], below the policy's
        head; each critic has its own copy, followed by `hidden_sizes` on its features and the action.
      replay: a replay; by default a uniform one.

    Raises:
      InputError: if the settings contradict one another or the actions are not such a box.
    """
    validate(config, "redq")
    if config.num_target_critics > config.num_critics:
        raise InputError(
            f"redq: num_target_critics {config.num_target_critics} is more than num_critics {config.num_critics}"
        )
    policy = squashed_policy(spec, config, network, "redq")
    net = SquashedActorCritic(
        policy=policy,
        critics=critics(spec.observation_space, policy.box.size, config, num=config.num_critics, network=network),
        next_values=lambda outputs, key: least_of_some(outputs, config.num_target_critics, key)[:, None],
        compare=squared_errors,
        value=lambda outputs: jnp.mean(outputs, axis=0),
    )
    return ensemble_agent(spec, config, net, optimizer, replay)


def least_of_some(values: Array, number: int, key: Key) -> Array:
    """Return the minimum over `number` of the critics' values f32[num, N], the same critics for all N: f32[N]."""
    order = jnp.argsort(jax.random.uniform(key, values.shape[:1]))
    return jnp.min(values[order[:number]], axis=0)


def ensemble_agent(
    spec: EnvironmentSpec,
    config: DelayedConfig,
    net: SquashedActorCritic,
    optimizer: Optimizer,
    replay: Replay | None,
) -> Algorithm:
    """Return the agent of REDQ and TQC: a soft agent whose policy has its own optimizer and learns less often."""
    buffer = replay or uniform_replay(spec, config, between=config.n_step > 1)
    optimizer_at = optimizer_of(config, config.num_gradient_steps, optimizer)  # for actor and critics each

    def init(key: Key) -> OffPolicyAgent:
        params, start = new_params(net, config, key), optimizer_at(jnp.int32(0)).init
        opt_state = {"actor": start(actor_part(params)), "critics": start(params["critics"])}
        return new_agent(params, params["critics"], opt_state, buffer, new_statistics(spec, config))

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        optimizer, (key_critics, key_actor) = optimizer_at(agent.num_updates), jax.random.split(key)
        keys = (key_critics, jax.random.fold_in(key_critics, 2))
        target = soft_target(net, config, agent.params, agent.target_params, batch, keys=keys)
        (loss, error), gradient = jax.value_and_grad(critic_loss, has_aux=True)(agent.params["critics"], target, batch)
        networks, critics_opt = apply_gradients(
            optimizer, gradient, agent.opt_state["critics"], agent.params["critics"]
        )
        agent = agent._replace(
            params=agent.params | {"critics": networks},
            target_params=polyak(agent.target_params, networks, config.tau),
            opt_state=agent.opt_state | {"critics": critics_opt},
        )
        agent, metrics = actor_step(agent, networks, batch, key_actor, net=net, config=config, optimizer=optimizer)
        return agent, error, {"critic_loss": loss} | metrics

    def critic_loss(params: PyTree, target: Array, batch: Transitions) -> tuple[Array, Array]:
        losses, error = net.errors(params, batch.observation, batch.action, target)
        return jnp.mean(batch.weight * losses), error

    return soft_agent(spec, config, net, init=init, gradient_step=gradient_step, replay=buffer)


def actor_part(params: PyTree) -> PyTree:
    """Return the parameters that the policy's optimizer updates."""
    return {name: params[name] for name in ("actor", "log_temperature")}


def actor_step(
    agent: OffPolicyAgent,
    critic_params: PyTree,
    batch: Transitions,
    key: Key,
    *,
    net: SquashedActorCritic,
    config: DelayedConfig,
    optimizer: optax.GradientTransformation,
) -> tuple[OffPolicyAgent, Metrics]:
    """Take a gradient step of policy and temperature if it is due; return (the agent, metrics).

    Args:
      agent: with an opt_state for the `actor_part`, under "actor".
      critic_params: the parameters of the critics that the policy follows.
      batch: N transitions.
      key: for the actions.
      net: the policy and the critics.
      config: the settings.
      optimizer: the optimizer of this update.
    """
    loss = lambda params: actor_loss(params, critic_params, batch, key, net=net, config=config)

    def improve(params: PyTree, opt_state: PyTree) -> tuple[tuple[PyTree, PyTree], Metrics]:
        gradient, metrics = jax.grad(loss, has_aux=True)(params)
        return apply_gradients(optimizer, gradient, opt_state, params), metrics

    def wait(params: PyTree, opt_state: PyTree) -> tuple[tuple[PyTree, PyTree], Metrics]:
        return (params, opt_state), loss(params)[1]

    due = (agent.num_gradient_steps + 1) % config.policy_period == 0
    learner = (actor_part(agent.params), agent.opt_state["actor"])
    improved, metrics = jax.lax.cond(any_member(due), improve, wait, *learner)
    actor, opt_state = where(due, improved, learner)
    return agent._replace(params=agent.params | actor, opt_state=agent.opt_state | {"actor": opt_state}), metrics
