"""What agents share that learn Q values of discrete actions from replay: acting, and descending on a loss."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.algo_parts.exploration import EpsilonGreedy, Exploration, greedy
from purerl.algo_parts.off_policy import (
    OffPolicyAgent,
    OffPolicyConfig,
    begin_agent,
    check_batch,
    learner,
    move_towards,
    step_size,
    uniform_replay,
)
from purerl.algo_parts.optimizers import adam, descend
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional.q_targets import chosen
from purerl.networks.q_networks import QNetwork, q_network
from purerl.networks.torsos import INITIALIZERS, mask_illegal, split_mask
from purerl.replay.prioritized import prioritized
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Discrete
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, number, pytree, static


@pytree
class QConfig(OffPolicyConfig):
    """What the configs of DQN and its relatives share."""

    num_envs: int = static(default=10, doc="environments stepped in parallel", at_least=1)
    hidden_sizes: tuple[int, ...] = static(default=(120, 84), doc="units of the hidden layers", at_least=1)
    initializer: str = static(default="normal", doc="of dense and convolutional weights", choices=tuple(INITIALIZERS))
    max_grad_norm: float | None = number(
        default=None, doc="global norm that gradients are clipped to; none: unclipped", above=0
    )
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
# (params, target_params, transitions[N], key) -> (loss f32[N], what priorities are made of f32[N], metrics)


class Outputs(NamedTuple):
    """What a network says of transitions."""

    taken: Array  # f32[N] or [N, num_atoms], of the action taken
    following: Array  # likewise, of the target network for the successor's best action


def outputs(
    network: QNetwork,
    config: QConfig,
    q_values: Callable[[Array], Array],
    params: PyTree,
    target_params: PyTree,
    batch: Transitions,
    key: Key,
) -> Outputs:
    """Return the two outputs that every loss compares; the successor's are fixed for its gradient.

    The successor's action is the best legal one for the target network, or, if `config.double`, for the online network.
    """
    noise = jax.random.split(key, 3) if config.noisy else (None, None, None)
    taken = chosen(network.apply(params, batch.observation, noise[0]), batch.action)
    following = network.apply(target_params, batch.next_observation, noise[1])
    judge = network.apply(params, batch.next_observation, noise[2]) if config.double else following
    best = jnp.argmax(mask_illegal(q_values(judge), split_mask(batch.next_observation)[1]), axis=-1)
    return Outputs(taken, jax.lax.stop_gradient(chosen(following, best)))


def q_agent(
    spec: EnvironmentSpec,
    config: QConfig,
    network: QNetwork,
    q_values: Callable[[Array], Array],
    loss: Loss,
    replay: Replay | None = None,
    exploration: Exploration | None = None,
) -> Algorithm:
    """Return the algorithm that a loss makes.

    Args:
      spec: the environment's spaces.
      config: the settings.
      network: its outputs are f32[..., num_actions] or [..., num_actions, num_atoms].
      q_values: such outputs -> Q values f32[..., num_actions].
      loss: per transition, from parameters, target parameters, transitions and a key.
      replay: what was experienced; as the config says if none is given.
      exploration: how to act in training; as the config says if none is given.

    Raises:
      InputError: if the sizes of the replay do not fit one another or the memory there is.
    """
    buffer = replay or replay_of(spec, config)
    explore_by = exploration or (greedy if config.noisy else epsilon_greedy(config))
    optimizer = adam(step_size(config), config.max_grad_norm)

    def init(key: Key) -> OffPolicyAgent:
        params = network.init(key)
        return begin_agent(params, params, optimizer.init(params), buffer)

    def act(
        agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool
    ) -> tuple[Array, PyTree, PyTree]:
        key_noise, key_explore = jax.random.split(key)
        q = q_values(network.apply(agent.params, observation, key_noise if config.noisy and explore else None))
        choose = explore_by if explore else greedy
        return choose(key_explore, q, split_mask(observation)[1], agent.num_steps), carry, ()

    def mean_loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key):
        losses, td_error, metrics = loss(params, target_params, batch, key)
        return jnp.mean(batch.weight * losses), (td_error, metrics)

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        gradient_of = jax.value_and_grad(mean_loss, has_aux=True)
        (mean, (td_error, metrics)), gradient = gradient_of(agent.params, agent.target_params, batch, key)
        params, opt_state = descend(optimizer, gradient, agent.opt_state, agent.params)
        due = (agent.num_gradient_steps + 1) % config.target_update_interval == 0
        rate = jnp.where(due, config.tau, 0.0)
        target_params = move_towards(agent.target_params, params, rate)
        agent = agent._replace(params=params, target_params=target_params, opt_state=opt_state)
        return agent, td_error, metrics | {"loss": mean}

    return Algorithm(init, lambda num_envs: (), act, learner(config, buffer, gradient_step))


def network_for(
    spec: EnvironmentSpec, config: QConfig, what: str, network: QNetwork | None, num_atoms: int | None = None
) -> QNetwork:
    """Return `network` if it is given, else the one that the config describes, with `num_atoms` numbers per action.

    Raises:
      InputError: if the actions are not discrete, or the settings contradict one another.
    """
    validate(config, what)
    if not isinstance(spec.action_space, Discrete):
        raise InputError(f"{what}: needs discrete actions, one of n; this environment's are {spec.action_space}")
    if config.rnn != "none":
        raise InputError(f"{what}: rnn is '{config.rnn}', but it has no memory; r2d2 and pqn have")
    if network is not None:
        return network
    size = spec.action_space.n
    return q_network(spec.observation_space, size, config, num_atoms, config.dueling, config.noisy)


def epsilon_greedy(config: QConfig) -> EpsilonGreedy:
    """Return the exploration that the config describes."""
    steps = config.exploration_fraction * config.total_timesteps
    return EpsilonGreedy(start=config.epsilon_start, end=config.epsilon_end, steps=steps)


def replay_of(spec: EnvironmentSpec, config: QConfig) -> Replay:
    """Return the replay that the config describes.

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
