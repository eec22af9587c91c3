"""QR-DQN: the distribution of returns by its quantiles. `purerl train qrdqn CartPole-v1`.

As DQN, but Q is the mean of learned quantiles, regressed on those of the successor.
Source: Dabney et al. (2018), arXiv:1710.10044. A time limit does not end the task.
"""

import jax.numpy as jnp

from purerl.algo_parts.exploration import Exploration
from purerl.algo_parts.q_learning import QConfig, network_for, q_agent, value_pair
from purerl.functional.distributional import quantile_huber
from purerl.networks.modules import Module
from purerl.networks.q_networks import QNetwork
from purerl.optim.optimizers import Optimizer, adam_by_plan
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, number, pytree, static


@pytree
class QRDQNConfig(QConfig):
    """Settings of QR-DQN."""

    num_quantiles: int = static(default=51, doc="quantiles of the distribution of returns", at_least=1)
    kappa: float = number(default=1.0, doc="error where the loss turns linear", above=0)


def qrdqn(
    spec: EnvironmentSpec,
    config: QRDQNConfig,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: QNetwork | Module | None = None,
    replay: Replay | None = None,
    exploration: Exploration | None = None,
) -> Algorithm:
    r"""Return QR-DQN for an environment with discrete actions.

        loss = sum_i mean_j |tau_i - 1{u_ij < 0}| H(u_ij),  u_ij = r + discount theta'_j(s', b) - theta_i(s, a)

    with theta' the target network's quantiles and b the action whose mean is highest.

    Args:
      spec: the environment's spaces.
      config: the settings.
      optimizer: of optax, such as `optax.lion`, behind a clip of the norm, or `GradientPlan` -> transformation; Adam if
        none is given.
      network: a module (observation [N, ...]) -> features f32[N, n] below the head, of flax linen, or of NNX; or the
        whole `QNetwork`, quantiles f32[..., num_actions, num_quantiles]; one that fits if none is given.
      replay: of transitions; as the config says if none is given.
      exploration: epsilon-greedy as the config says if none is given.

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    q = network_for(spec, config, "qrdqn", network, config.num_quantiles)
    q_values = lambda quantiles: jnp.mean(quantiles, axis=-1)

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key) -> tuple[Array, Array, Metrics]:
        quantiles, following = value_pair(q, config, q_values, params, target_params, batch, key)
        targets = batch.reward[:, None] + batch.discount[:, None] * following
        error = jnp.abs(jnp.mean(targets, axis=-1) - q_values(quantiles))
        metrics = {"q_value": jnp.mean(quantiles), "td_error": jnp.mean(error)}
        return quantile_huber(quantiles, targets, config.kappa), error, metrics

    return q_agent(spec, config, q, q_values, loss, replay, exploration, optimizer)
