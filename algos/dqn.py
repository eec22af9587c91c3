"""DQN: deep Q-learning from replay. `purerl train dqn CartPole-v1`.

Act epsilon-greedily, store every step in a replay, and reduce the error of Q against a slowly moving target. C51,
QR-DQN, IQN, Munchausen DQN and Rainbow are the same agent, `q_agent`, with other losses.
Source: Mnih et al. (2015), doi:10.1038/nature14236; double: van Hasselt et al. (2016), arXiv:1509.06461; dueling: Wang
et al. (2016), arXiv:1511.06581; prioritized: Schaul et al. (2016), arXiv:1511.05952; noisy: Fortunato et al. (2018),
arXiv:1706.10295. A time limit does not end the task: the target bootstraps from the final observation.
"""

from collections.abc import Callable
from typing import Protocol

import jax
import jax.numpy as jnp
import optax

from purerl.algos.off_policy import (
    GradientStep,
    OffPolicyAgent,
    OffPolicyConfig,
    learn_from_replay,
    new_agent,
    new_statistics,
    polyak,
    prioritized_replay,
    uniform_replay,
)
from purerl.errors import InputError, check_arguments, told
from purerl.fields import validate
from purerl.functional.action_masks import action_mask
from purerl.functional.exploration import Exploration, epsilon_greedy, greedy
from purerl.functional.normalize import normalized
from purerl.functional.q_targets import at_action, at_best, huber
from purerl.networks.initializers import INITIALIZERS
from purerl.networks.modules import Module
from purerl.networks.q_networks import QNetwork, noisy_apply, num_actions, q_network
from purerl.networks.torsos import ACTIVATIONS, TORSOS
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.optim.schedules import Schedule, environment_steps, schedule
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class QConfig(OffPolicyConfig):
    """Settings of DQN and its family, including the settings of every algorithm."""

    num_envs: int = static(default=10, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=1, doc="steps of each environment per update", at_least=1)
    total_timesteps: int = number(
        default=500_000, doc="environment steps of the whole run; the horizon of every schedule", above=0
    )
    discount: float = number(default=0.99, doc="discount of future rewards, per step", at_least=0, at_most=1)
    learning_rate: float = number(default=2.5e-4, doc="learning rate of Adam", above=0)
    learning_rate_schedule: Schedule = schedule("constant")
    max_grad_norm: float | None = number(
        default=None, doc="global norm that gradients are clipped to; none: unclipped", above=0
    )
    batch_size: int = static(default=128, doc="transitions per gradient step", at_least=1)
    num_gradient_steps: int = static(default=1, doc="gradient steps per update", at_least=1)
    learning_starts: int = static(default=10_000, doc="environment steps before the first gradient step", at_least=1)
    replay_capacity: int = static(default=10_000, doc="capacity of the replay, in environment steps", at_least=1)
    target_update_interval: int = number(
        default=50, doc="gradient steps between updates of the target network", at_least=1
    )
    tau: float = number(
        default=1.0, doc="Polyak coefficient of the target update; 1 copies the network", above=0, at_most=1
    )
    n_step: int = static(default=1, doc="steps of reward before bootstrapping", at_least=1)
    double: bool = static(default=False, doc="choose the target's action by the online network")
    dueling: bool = static(default=False, doc="value and advantage streams")
    noisy: bool = static(default=False, doc="explore by noisy weights in the head instead of epsilon")
    priority_exponent: float | None = number(
        default=None, doc="exponent of the priorities; none: uniform replay", at_least=0
    )
    importance_sampling_beta: float = number(
        default=0.4, doc="initial exponent of the importance weights; rises to 1", at_least=0, at_most=1
    )
    epsilon_start: float = number(default=1.0, doc="initial probability of a random action", at_least=0, at_most=1)
    epsilon_end: float = number(default=0.05, doc="final probability of a random action", at_least=0, at_most=1)
    exploration_fraction: float = number(
        default=0.5, doc="fraction of total_timesteps over which epsilon falls", above=0, at_most=1
    )
    network: str = static(default="auto", doc="type of the torso", choices=TORSOS)
    hidden_sizes: tuple[int, ...] = static(default=(120, 84), doc="units of the hidden layers", at_least=1)
    activation: str = static(default="relu", doc="activation function of the hidden layers", choices=tuple(ACTIVATIONS))
    layer_norm: bool = static(default=False, doc="normalize each hidden layer")
    normalize_observation: bool = static(
        default=False, doc="standardize float and byte observations by running statistics"
    )
    initializer: str = static(
        default="normal", doc="weight initializer for dense and convolutional layers", choices=tuple(INITIALIZERS)
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


@pytree
class DQNConfig(QConfig):
    """Settings of DQN."""

    huber_delta: float | None = number(
        default=None, doc="error above which the loss is linear; none: squared loss", above=0
    )


def dqn(
    spec: EnvironmentSpec,
    config: DQNConfig,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: QNetwork | Module | None = None,
    replay: Replay | None = None,
    exploration: Exploration | None = None,
) -> Algorithm:
    r"""Return DQN for an environment with discrete actions.

        loss = l(Q(s, a) - [r + discount Q'(s', argmax_b Q*(s', b))])

    with Q' the target network, Q* = Q' (or Q itself if `double`), l half the square or Huber's function.

    Args:
      spec: the environment's spaces.
      config: the settings.
      optimizer: an optax optimizer such as `optax.lion`, applied to clipped gradients, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], below the head; or a
        complete `QNetwork` that returns Q values f32[..., num_actions]; by default one that fits the observations.
      replay: a replay of transitions; by default the one that the config describes.
      exploration: by default epsilon-greedy, with the settings of the config.

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    net = network_for(spec, config, "dqn", network)

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key):
        q, next_value = taken_and_next(net, params, target_params, batch, key, config=config)
        target = batch.reward + batch.discount * next_value  # the discount is 0 where the task ended
        td_error = q - target
        error = jnp.abs(td_error)
        metrics = {"q_value": jnp.mean(q), "td_error": jnp.mean(error)}
        return jnp.mean(batch.weight * huber(td_error, config.huber_delta)), (error, metrics)

    return q_agent(spec, config, network=net, loss=loss, replay=replay, exploration=exploration, optimizer=optimizer)


def taken_and_next(
    network: QNetwork,
    params: PyTree,
    target_params: PyTree,
    batch: Transitions,
    key: Key,
    *,
    config: QConfig,
    q_values: Callable[[Array], Array] = lambda outputs: outputs,
) -> tuple[Array, Array]:
    """Return the outputs for the action taken and, by the target network, for the best next action.

    The target network itself chooses that action, or, if `config.double`, the online network.

    Args:
      network: a network with outputs f32[N, num_actions] or [N, num_actions, num_atoms].
      params, target_params: the parameters of the online network and of the target network.
      batch: N transitions.
      key: for noisy networks.
      config: the settings.
      q_values: the outputs -> Q values f32[N, num_actions].

    Returns:
      Both f32[N] or [N, num_atoms]; no gradient flows through the second.
    """
    noise = jax.random.split(key, 3) if config.noisy else (None, None, None)
    taken = at_action(network.apply(params, batch.observation, noise[0]), batch.action)
    next_outputs = network.apply(target_params, batch.next_observation, noise[1])
    selector = network.apply(params, batch.next_observation, noise[2]) if config.double else next_outputs
    next_best = at_best(next_outputs, q_values(selector), action_mask(batch.next_observation))
    return taken, jax.lax.stop_gradient(next_best)


class QLoss(Protocol):
    """The loss of a value-based agent."""

    def __call__(
        self, params: PyTree, target_params: PyTree, batch: PyTree, key: Key, /
    ) -> tuple[Array, tuple[Array, Metrics]]:
        """Return (the loss f32[], (priorities f32[N], metrics)) of a batch of N samples; `key` is for noise."""
        ...


def q_agent(
    spec: EnvironmentSpec,
    config: QConfig,
    *,
    network: QNetwork,
    loss: QLoss,
    q_values: Callable[[Array], Array] = lambda outputs: outputs,
    replay: Replay | None = None,
    exploration: Exploration | None = None,
    optimizer: Optimizer = adam_by_plan,
) -> Algorithm:
    """Return a value-based agent that minimizes a loss: DQN and its family.

    Args:
      spec: the environment's spaces.
      config: the settings.
      network: a network with outputs f32[..., num_actions] or [..., num_actions, num_atoms].
      loss: the loss that a gradient step minimizes.
      q_values: the network's outputs -> Q values f32[..., num_actions].
      replay: a replay of transitions; by default the one that the config describes.
      exploration: by default as the config describes.
      optimizer: as for `dqn`.

    Raises:
      InputError: if the sizes of the replay do not fit one another or the available memory.
    """
    if replay is not None and not isinstance(replay, Replay):
        raise InputError(
            f"replay is {told(replay)}; it must be a purerl.replay.base.Replay, such as the result of uniform_replay"
        )
    if exploration is not None:
        check_arguments(exploration, "exploration", "key, q_values, action_mask, num_steps")
    buffer = replay or replay_of(spec, config)
    explore_by = exploration or (greedy if config.noisy else epsilon_greedy(config))
    optimizer_at = optimizer_of(config, config.num_gradient_steps, optimizer)
    gradient_step = q_gradient_step(loss, optimizer_at, config.target_update_interval, config.tau)

    def init(key: Key) -> OffPolicyAgent:
        params = network.init(key)
        opt_state = optimizer_at(jnp.int32(0)).init(params)
        return new_agent(params, params, opt_state, buffer, new_statistics(spec, config))

    def act(agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        key_noise, key_explore = jax.random.split(key) if explore else (key, key)
        inputs = normalized(agent.observation_statistics, observation)
        q = q_values(noisy_apply(network, agent.params, inputs, key_noise if config.noisy and explore else None))
        choose = explore_by if explore else greedy
        num_steps = environment_steps(config, agent.num_updates)
        return choose(key_explore, q, action_mask(observation), num_steps), carry, ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        return learn_from_replay(agent, key, rollout, replay=buffer, gradient_step=gradient_step, config=config)

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


def q_gradient_step(
    loss: QLoss,
    optimizer_at: Callable[[Array], optax.GradientTransformation],
    interval: Array | int,
    tau: Array | float = 1.0,
) -> GradientStep[OffPolicyAgent]:
    """Return a function that takes a gradient step; every `interval` steps the target network moves by `tau`.

    Args:
      loss: the loss of the online network, given the target network.
      optimizer_at: updates so far, i32[] -> optimizer.
      interval: gradient steps between two updates of the target network.
      tau: Polyak coefficient of such an update; 1 copies the online network.
    """

    def gradient_step(agent: OffPolicyAgent, batch: PyTree, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        (mean, (priority, metrics)), gradient = jax.value_and_grad(loss, has_aux=True)(
            agent.params, agent.target_params, batch, key
        )
        params, opt_state = apply_gradients(optimizer_at(agent.num_updates), gradient, agent.opt_state, agent.params)
        due = (agent.num_gradient_steps + 1) % interval == 0
        target_params = polyak(agent.target_params, params, jnp.where(due, tau, 0.0))
        agent = agent._replace(params=params, target_params=target_params, opt_state=opt_state)
        return agent, priority, metrics | {"loss": mean}

    return gradient_step


def network_for(
    spec: EnvironmentSpec, config: QConfig, what: str, network: QNetwork | Module | None, num_atoms: int | None = None
) -> QNetwork:
    """Return `network` if it is a `QNetwork`; otherwise the config's network, with `num_atoms` outputs per action.

    A module replaces the torso.

    Raises:
      InputError: if the actions are not discrete, or the settings contradict one another.
    """
    validate(config, what)
    size = num_actions(spec, what)
    if isinstance(network, QNetwork):
        return network
    return q_network(
        spec.observation_space,
        size,
        config,
        num_atoms=num_atoms,
        dueling=config.dueling,
        noisy=config.noisy,
        network=network,
    )


def replay_of(spec: EnvironmentSpec, config: QConfig) -> Replay:
    """Return the replay that a config describes, uniform or prioritized.

    Raises:
      InputError: if its sizes do not fit one another or the available memory.
    """
    if config.priority_exponent is None:
        return uniform_replay(spec, config)
    return prioritized_replay(spec, config, config.priority_exponent, config.importance_sampling_beta)
