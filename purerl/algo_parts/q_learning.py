"""Parts that DQN and its relatives share: settings, network, replay, exploration, and an agent from a loss."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from purerl.algo_parts.exploration import Exploration, epsilon_greedy, greedy
from purerl.algo_parts.off_policy import (
    OffPolicyAgent,
    OffPolicyConfig,
    check_batch,
    learn_from_replay,
    new_agent,
    new_statistics,
    periodic_update,
    uniform_replay,
)
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.functional.distributional import categorical_divergence, expectation, project
from purerl.functional.normalize import normalized
from purerl.functional.q_targets import at_action
from purerl.networks.modules import Module
from purerl.networks.q_networks import QNetwork, q_network
from purerl.networks.torsos import INITIALIZERS
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.optim.schedules import environment_steps
from purerl.replay.prioritized import prioritized
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Discrete
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class QConfig(OffPolicyConfig):
    """Settings of DQN and its relatives."""

    num_envs: int = static(default=10, doc="environments stepped in parallel", at_least=1)
    hidden_sizes: tuple[int, ...] = static(default=(120, 84), doc="units of the hidden layers", at_least=1)
    initializer: str = static(default="normal", doc="of dense and convolutional weights", choices=tuple(INITIALIZERS))
    max_grad_norm: float | None = number(
        default=None, doc="global norm that gradients are clipped to; none: unclipped", above=0
    )
    normalize_observation: bool = static(default=False, doc="standardize observations by running statistics")
    target_update_interval: int = number(
        default=50, doc="gradient steps between updates of the target network", at_least=1
    )
    tau: float = number(default=1.0, doc="share of the new parameters in such an update; 1: a copy", above=0, at_most=1)
    double: bool = static(default=False, doc="choose the target's action by the online network")
    dueling: bool = static(default=False, doc="value and advantage streams")
    noisy: bool = static(default=False, doc="explore by noise in the weights of the head instead of epsilon")
    priority_exponent: float | None = number(
        default=None, doc="how strongly large errors are replayed; none: uniformly", at_least=0
    )
    importance_sampling_beta: float = number(
        default=0.4, doc="exponent of the importance weights at first; rises to 1", at_least=0, at_most=1
    )
    epsilon_start: float = number(default=1.0, doc="probability of a random action at first", at_least=0, at_most=1)
    epsilon_end: float = number(default=0.05, doc="probability of a random action in the end", at_least=0, at_most=1)
    exploration_fraction: float = number(
        default=0.5, doc="share of total_timesteps over which it falls", above=0, at_most=1
    )


Loss = Callable[[PyTree, PyTree, Transitions, Key], tuple[Array, Array, Metrics]]
# (params, target_params, transitions[N], key) -> (loss f32[N], priorities f32[N], metrics)


class ValuePair(NamedTuple):
    """The two values that a loss compares, of N transitions."""

    taken: Array  # f32[N] or [N, num_atoms], of the action taken
    following: Array  # likewise, of the target network for the successor's best action; without a gradient


def value_pair(
    network: QNetwork,
    config: QConfig,
    q_values: Callable[[Array], Array],
    params: PyTree,
    target_params: PyTree,
    batch: Transitions,
    key: Key,
) -> ValuePair:
    """Return the outputs for the action taken and for the successor's best action.

    The successor's action is the best legal one for the target network, or, if `config.double`, for the online network.
    """
    noise = jax.random.split(key, 3) if config.noisy else (None, None, None)
    taken = at_action(network.apply(params, batch.observation, noise[0]), batch.action)
    following = network.apply(target_params, batch.next_observation, noise[1])
    selector = network.apply(params, batch.next_observation, noise[2]) if config.double else following
    best = jnp.argmax(mask_illegal(q_values(selector), action_mask(batch.next_observation)), axis=-1)
    return ValuePair(taken, jax.lax.stop_gradient(at_action(following, best)))


def q_agent(
    spec: EnvironmentSpec,
    config: QConfig,
    network: QNetwork,
    q_values: Callable[[Array], Array],
    loss: Loss,
    replay: Replay | None = None,
    exploration: Exploration | None = None,
    optimizer: Optimizer = adam_by_plan,
) -> Algorithm:
    """Return the algorithm of a loss: DQN's, whose file shows it in plain sight, for any outputs of the network.

    Args:
      spec: the environment's spaces.
      config: the settings.
      network: its outputs are f32[..., num_actions] or [..., num_actions, num_atoms].
      q_values: such outputs -> Q values f32[..., num_actions].
      loss: per transition, from parameters, target parameters, transitions and a key.
      replay: of transitions; as the config says if none is given.
      exploration: of the actions in training; as the config says if none is given.
      optimizer: as for `dqn`.

    Raises:
      InputError: if the sizes of the replay do not fit one another or the memory there is.
    """
    buffer = replay or replay_of(spec, config)
    explore_by = exploration or exploration_of(config)
    descent = optimizer_of(config, config.num_gradient_steps, optimizer)

    def init(key: Key) -> OffPolicyAgent:
        params = network.init(key)
        opt_state = descent(jnp.int32(0)).init(params)
        return new_agent(params, params, opt_state, buffer, new_statistics(spec, config))

    def act(
        agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool
    ) -> tuple[Array, PyTree, PyTree]:
        key_noise, key_explore = jax.random.split(key) if explore else (key, key)
        seen = normalized(agent.observation_statistics, observation)
        q = q_values(noisy_apply(network, agent.params, seen, key_noise if config.noisy and explore else None))
        choose = explore_by if explore else greedy
        num_steps = environment_steps(config, agent.num_updates)
        return choose(key_explore, q, action_mask(observation), num_steps), carry, ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        return learn_from_replay(agent, key, rollout, buffer, gradient_step, config)

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        gradient_of = jax.value_and_grad(mean_loss, has_aux=True)
        (mean, (td_error, metrics)), gradient = gradient_of(agent.params, agent.target_params, batch, key)
        params, opt_state = apply_gradients(descent(agent.num_updates), gradient, agent.opt_state, agent.params)
        target_params = periodic_update(
            agent.target_params, params, agent.num_gradient_steps, config.target_update_interval, config.tau
        )
        agent = agent._replace(params=params, target_params=target_params, opt_state=opt_state)
        return agent, td_error, metrics | {"loss": mean}

    def mean_loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key):
        losses, td_error, metrics = loss(params, target_params, batch, key)
        return jnp.mean(batch.weight * losses), (td_error, metrics)

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


def noisy_apply(network: QNetwork, params: PyTree, observation: PyTree, key: Key | None) -> Array:
    """Return a network's outputs for [B] observations, each with its own noise; without noise where there is no key.

    Environments that share a state then explore apart.
    """
    if key is None:
        return network.apply(params, observation, None)
    keys = jax.random.split(key, jax.tree.leaves(observation)[0].shape[0])
    return jax.vmap(network.apply, (None, 0, 0))(params, observation, keys)


def categorical_agent(
    spec: EnvironmentSpec,
    config: QConfig,
    network: QNetwork,
    support: Array,
    replay: Replay | None = None,
    exploration: Exploration | None = None,
    optimizer: Optimizer = adam_by_plan,
) -> Algorithm:
    """Return the algorithm whose Q is the mean of a distribution on atoms: C51 and Rainbow.

    Args:
      spec, config, replay, exploration, optimizer: as for `q_agent`.
      network: logits f32[..., num_actions, num_atoms].
      support: the atoms, f32[num_atoms].
    """
    q_values = lambda logits: expectation(logits, support)

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key) -> tuple[Array, Array, Metrics]:
        taken, following = value_pair(network, config, q_values, params, target_params, batch, key)
        moved = batch.reward[:, None] + batch.discount[:, None] * support
        target = project(moved, jax.nn.softmax(following), support)
        cross_entropy, divergence = categorical_divergence(taken, target)
        metrics = {"q_value": jnp.mean(expectation(taken, support)), "td_error": jnp.mean(divergence)}
        return cross_entropy, jax.lax.stop_gradient(divergence), metrics

    return q_agent(spec, config, network, q_values, loss, replay, exploration, optimizer)


def atoms(what: str, num_atoms: int, v_min: Array | float, v_max: Array | float) -> Array:
    """Return the atoms of a distribution of returns, evenly spaced from v_min to v_max: f32[num_atoms].

    Raises:
      InputError: if v_min is not below v_max, where their values are known.
    """
    known = not isinstance(v_min, Tracer) and not isinstance(v_max, Tracer)
    if known and not np.all(np.asarray(v_min) < np.asarray(v_max)):
        raise InputError(f"{what}: v_min {v_min} must be below v_max {v_max}")
    return jnp.linspace(v_min, v_max, num_atoms, dtype=jnp.float32)


def network_for(
    spec: EnvironmentSpec, config: QConfig, what: str, network: QNetwork | Module | None, num_atoms: int | None = None
) -> QNetwork:
    """Return `network` if it is one, else the one that the config describes, with `num_atoms` numbers per action.

    A module stands below its head.

    Raises:
      InputError: if the actions are not discrete, or the settings contradict one another.
    """
    validate(config, what)
    size = num_actions(spec, what)
    if isinstance(network, QNetwork):
        return network
    return q_network(spec.observation_space, size, config, num_atoms, config.dueling, config.noisy, network)


def num_actions(spec: EnvironmentSpec, what: str) -> int:
    """Return how many actions there are.

    Raises:
      InputError: if they are not discrete.
    """
    if not isinstance(spec.action_space, Discrete):
        raise InputError(f"{what}: needs discrete actions, one of n; this environment's are {spec.action_space}")
    return spec.action_space.n


def exploration_of(config: QConfig) -> Exploration:
    """Return the exploration that the config describes: by the network's noise, or epsilon-greedy."""
    return greedy if config.noisy else epsilon_greedy(config)


def replay_of(spec: EnvironmentSpec, config: QConfig) -> Replay:
    """Return the replay that the config describes: uniform or prioritized.

    Raises:
      InputError: if its sizes do not fit one another or the memory there is.
    """
    if config.priority_exponent is None:
        return uniform_replay(spec, config)
    check_batch(config)
    return prioritized(
        spec,
        config.replay_capacity,
        config.num_envs,
        config.batch_size,
        config.discount,
        config.n_step,
        exponent=config.priority_exponent,
        correction=config.importance_sampling_beta,
        correction_steps=config.total_timesteps,
    )
