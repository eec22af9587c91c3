"""DQN: deep Q-learning from replay. `purerl train dqn CartPole-v1`.

Act epsilon-greedily, store every step in a replay, and reduce the error of Q against a slowly moving target.
Source: Mnih et al. (2015), doi:10.1038/nature14236; double: van Hasselt et al. (2016), arXiv:1509.06461; dueling: Wang
et al. (2016), arXiv:1511.06581; prioritized: Schaul et al. (2016), arXiv:1511.05952; noisy: Fortunato et al. (2018),
arXiv:1706.10295. A time limit does not end the task: it bootstraps from the true successor.
"""

import jax
import jax.numpy as jnp

from purerl.algo_parts.exploration import Exploration, greedy
from purerl.algo_parts.off_policy import OffPolicyAgent, learn_from_replay, new_agent, new_statistics, periodic_update
from purerl.algo_parts.q_learning import QConfig, exploration_of, network_for, noisy_apply, replay_of
from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.functional.normalize import normalized
from purerl.functional.q_targets import at_action, huber
from purerl.networks.modules import Module
from purerl.networks.q_networks import QNetwork
from purerl.networks.torsos import ACTIVATIONS, INITIALIZERS, TORSOS
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.optim.schedules import Schedule, environment_steps, schedule
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class DQNConfig(QConfig):
    """Settings of DQN: all of them, those that it shares with other algorithms included."""

    num_envs: int = static(default=10, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=1, doc="steps of each environment per update", at_least=1)
    total_timesteps: int = number(
        default=500_000, doc="environment steps of the whole run; the horizon of every schedule", above=0
    )
    discount: float = number(default=0.99, doc="discount of future rewards, per step", at_least=0, at_most=1)
    learning_rate: float = number(default=2.5e-4, doc="Adam's step size", above=0)
    learning_rate_schedule: Schedule = schedule("constant")
    max_grad_norm: float | None = number(
        default=None, doc="global norm that gradients are clipped to; none: unclipped", above=0
    )
    batch_size: int = static(default=128, doc="transitions per gradient step", at_least=1)
    num_gradient_steps: int = static(default=1, doc="gradient steps per update", at_least=1)
    learning_starts: int = static(default=10_000, doc="environment steps before the first gradient step", at_least=1)
    replay_capacity: int = static(default=10_000, doc="steps held, all environments together", at_least=1)
    target_update_interval: int = number(
        default=50, doc="gradient steps between updates of the target network", at_least=1
    )
    tau: float = number(default=1.0, doc="share of the new parameters in such an update; 1: a copy", above=0, at_most=1)
    huber_delta: float | None = number(default=None, doc="error where the loss turns linear; none: squared", above=0)
    n_step: int = static(default=1, doc="steps of reward before bootstrapping", at_least=1)
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
    network: str = static(default="auto", doc="torso", choices=TORSOS)
    hidden_sizes: tuple[int, ...] = static(default=(120, 84), doc="units of the hidden layers", at_least=1)
    activation: str = static(default="relu", doc="of the hidden layers", choices=tuple(ACTIVATIONS))
    layer_norm: bool = static(default=False, doc="normalize each hidden layer")
    normalize_observation: bool = static(default=False, doc="standardize observations by running statistics")
    initializer: str = static(default="normal", doc="of dense and convolutional weights", choices=tuple(INITIALIZERS))
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
      optimizer: of optax, such as `optax.lion`, behind a clip of the norm, or `GradientPlan` -> transformation; Adam if
        none is given.
      network: a module (observation [N, ...]) -> features f32[N, n] below the head, of flax linen, or of NNX; or the
        whole `QNetwork`, Q values f32[..., num_actions]; one that fits the observations if none is given.
      replay: of transitions; as the config says if none is given.
      exploration: epsilon-greedy as the config says if none is given.

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    net = network_for(spec, config, "dqn", network)
    buffer = replay or replay_of(spec, config)
    explore_by = exploration or exploration_of(config)
    descent = optimizer_of(config, config.num_gradient_steps, optimizer)

    def init(key: Key) -> OffPolicyAgent:
        params = net.init(key)
        opt_state = descent(jnp.int32(0)).init(params)
        return new_agent(params, params, opt_state, buffer, new_statistics(spec, config))

    def act(agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        key_noise, key_explore = jax.random.split(key) if explore else (key, key)
        seen = normalized(agent.observation_statistics, observation)
        q = noisy_apply(net, agent.params, seen, key_noise if config.noisy and explore else None)
        choose = explore_by if explore else greedy
        num_steps = environment_steps(config, agent.num_updates)
        return choose(key_explore, q, action_mask(observation), num_steps), carry, ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        return learn_from_replay(agent, key, rollout, buffer, gradient_step, config)

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        (mean, (error, metrics)), gradient = jax.value_and_grad(loss, has_aux=True)(
            agent.params, agent.target_params, batch, key
        )
        params, opt_state = apply_gradients(descent(agent.num_updates), gradient, agent.opt_state, agent.params)
        target_params = periodic_update(
            agent.target_params, params, agent.num_gradient_steps, config.target_update_interval, config.tau
        )
        agent = agent._replace(params=params, target_params=target_params, opt_state=opt_state)
        return agent, error, metrics | {"loss": mean}

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key):
        noise = jax.random.split(key, 3) if config.noisy else (None, None, None)
        q = at_action(net.apply(params, batch.observation, noise[0]), batch.action)
        next_q = net.apply(target_params, batch.next_observation, noise[1])
        selector = net.apply(params, batch.next_observation, noise[2]) if config.double else next_q
        best = jnp.argmax(mask_illegal(selector, action_mask(batch.next_observation)), axis=-1)
        next_value = jax.lax.stop_gradient(at_action(next_q, best))
        target = batch.reward + batch.discount * next_value  # the discount is 0 where the task ended
        td_error = q - target
        error = jnp.abs(td_error)
        metrics = {"q_value": jnp.mean(q), "td_error": jnp.mean(error)}
        return jnp.mean(batch.weight * huber(td_error, config.huber_delta)), (error, metrics)

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)
