"""DQN: deep Q-learning from replay. `purerl train dqn CartPole-v1`.

Act epsilon-greedily, keep every step in a replay, and descend on the error of Q against a slowly moving target.
Source: Mnih et al. (2015), doi:10.1038/nature14236; double: van Hasselt et al. (2016), arXiv:1509.06461; dueling: Wang
et al. (2016), arXiv:1511.06581; prioritized: Schaul et al. (2016), arXiv:1511.05952; noisy: Fortunato et al. (2018),
arXiv:1706.10295. A time limit does not end the task: it bootstraps from the true successor.
"""

import jax.numpy as jnp

from purerl.algo_parts.exploration import Exploration
from purerl.algo_parts.q_learning import QConfig, network_for, outputs, q_agent
from purerl.functional.q_targets import huber
from purerl.networks.q_networks import QNetwork
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, number, pytree


@pytree
class DQNConfig(QConfig):
    """Settings of DQN."""

    huber_delta: float | None = number(default=None, doc="error where the loss turns linear; none: squared", above=0)


def dqn(
    spec: EnvironmentSpec,
    config: DQNConfig,
    *,
    network: QNetwork | None = None,
    replay: Replay | None = None,
    exploration: Exploration | None = None,
) -> Algorithm:
    r"""Return DQN for an environment with discrete actions.

        loss = l(Q(s, a) - [r + discount Q'(s', argmax_b Q*(s', b))])

    with Q' the target network, Q* = Q' (or Q itself if `double`), l half the square or Huber's function.

    Args:
      spec: the environment's spaces.
      config: the settings.
      network: Q values f32[..., num_actions]; one that fits the observations if none is given.
      replay: what was experienced; as the config says if none is given.
      exploration: epsilon-greedy as the config says if none is given.

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    q = network_for(spec, config, "dqn", network)
    q_values = lambda values: values

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key) -> tuple[Array, Array, Metrics]:
        value, next_value = outputs(q, config, q_values, params, target_params, batch, key)
        error = value - (batch.reward + batch.discount * next_value)
        metrics = {"q_value": jnp.mean(value), "td_error": jnp.mean(jnp.abs(error))}
        return huber(error, config.huber_delta), jnp.abs(error), metrics

    return q_agent(spec, config, q, q_values, loss, replay, exploration)
