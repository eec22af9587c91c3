"""Munchausen DQN: adds the agent's own log-policy to the reward. `purerl train munchausen CartPole-v1`.

DQN with a soft target, which adds the log-probability of the action under the target network's Boltzmann policy to the
reward. This keeps successive policies close to one another and widens the gap between the best action and the rest.
Source: Vieillard, Pietquin and Geist (2020), arXiv:2007.14430. A time limit does not end the task.
"""

import jax
import jax.numpy as jnp

from purerl.algos.dqn import QConfig, network_for, q_agent
from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.functional.exploration import Exploration
from purerl.functional.q_targets import at_action, huber
from purerl.networks.modules import Module
from purerl.networks.q_networks import QNetwork
from purerl.optim.optimizers import Optimizer, adam_by_plan
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, PyTree, number, pytree


@pytree
class MunchausenConfig(QConfig):
    """Settings of Munchausen DQN."""

    temperature: float = number(default=0.03, doc="softmax temperature, in units of Q; near 0 recovers DQN", above=0)
    munchausen_scale: float = number(default=0.9, doc="weight of the log-policy in the reward", at_least=0, at_most=1)
    log_policy_clip: float = number(
        default=-1.0, doc="lower bound of temperature x log-policy in the reward", at_most=0
    )
    huber_delta: float | None = number(
        default=None, doc="error above which the loss is linear; none: squared loss", above=0
    )


def munchausen(
    spec: EnvironmentSpec,
    config: MunchausenConfig,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: QNetwork | Module | None = None,
    replay: Replay | None = None,
    exploration: Exploration | None = None,
) -> Algorithm:
    r"""Return Munchausen DQN for an environment with discrete actions.

        loss = l(Q(s, a) - [r + scale clip(T log pi(a|s), c, 0) + discount sum_b pi(b|s') (Q'(s', b) - T log pi(b|s'))])

    with Q' the target network, pi = softmax(Q' / T) over legal actions (at s' of Q itself if `double`), T the
    temperature and l half the square or Huber's function. With `n_step` above 1, r is the sum of n rewards, and only
    the first of the n actions adds its log-policy to the reward.

    Args:
      spec, config, optimizer, replay, exploration: as for `dqn`.
      network: as for `dqn`; a complete `QNetwork` returns Q values f32[..., num_actions].

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    net = network_for(spec, config, "munchausen", network)

    def log_policy(q: Array, observation: PyTree) -> Array:
        return jax.nn.log_softmax(mask_illegal(q, action_mask(observation)) / config.temperature)

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key):
        noise = jax.random.split(key, 4) if config.noisy else (None,) * 4
        q = at_action(net.apply(params, batch.observation, noise[0]), batch.action)

        before = net.apply(target_params, batch.observation, noise[1])
        bonus = config.temperature * at_action(log_policy(before, batch.observation), batch.action)
        bonus = config.munchausen_scale * jnp.clip(bonus, config.log_policy_clip, 0.0)

        next_q = net.apply(target_params, batch.next_observation, noise[2])
        selector = net.apply(params, batch.next_observation, noise[3]) if config.double else next_q
        log_pi = log_policy(selector, batch.next_observation)
        next_value = jnp.sum(jnp.exp(log_pi) * (next_q - config.temperature * log_pi), axis=-1)

        target = jax.lax.stop_gradient(batch.reward + bonus + batch.discount * next_value)
        error = jnp.abs(q - target)
        metrics = {"q_value": jnp.mean(q), "td_error": jnp.mean(error), "log_policy_reward": jnp.mean(bonus)}
        return jnp.mean(batch.weight * huber(q - target, config.huber_delta)), (error, metrics)

    return q_agent(spec, config, network=net, loss=loss, replay=replay, exploration=exploration, optimizer=optimizer)
