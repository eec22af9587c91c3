"""QR-DQN: the distribution of returns by its quantiles. `purerl train qrdqn CartPole-v1`.

Like DQN, but Q is the mean of learned quantiles, which are regressed on the quantiles of the next state.
Source: Dabney et al. (2018), arXiv:1710.10044. A time limit does not end the task.
"""

import jax.numpy as jnp

from purerl.algos.dqn import QConfig, network_for, q_agent, taken_and_next
from purerl.functional.distributional import quantile_huber
from purerl.functional.exploration import Exploration
from purerl.networks.modules import Module
from purerl.networks.q_networks import QNetwork
from purerl.optim.optimizers import Optimizer, adam_by_plan
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, EnvironmentSpec, Key, PyTree, number, pytree, static


@pytree
class QRDQNConfig(QConfig):
    """Settings of QR-DQN."""

    num_quantiles: int = static(default=51, doc="quantiles of the distribution of returns", at_least=1)
    kappa: float = number(default=1.0, doc="error above which the loss is linear", above=0)


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
      spec, config, optimizer, replay, exploration: as for `dqn`.
      network: as for `dqn`; a complete `QNetwork` returns quantiles f32[..., num_actions, num_quantiles].

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    net = network_for(spec, config, "qrdqn", network, config.num_quantiles)
    q_values = lambda quantiles: jnp.mean(quantiles, axis=-1)

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key):
        quantiles, next_best = taken_and_next(net, params, target_params, batch, key, config=config, q_values=q_values)
        targets = batch.reward[:, None] + batch.discount[:, None] * next_best
        error = jnp.abs(jnp.mean(targets, axis=-1) - q_values(quantiles))
        metrics = {"q_value": jnp.mean(quantiles), "td_error": jnp.mean(error)}
        return jnp.mean(batch.weight * quantile_huber(quantiles, targets, config.kappa)), (error, metrics)

    return q_agent(
        spec,
        config,
        network=net,
        loss=loss,
        q_values=q_values,
        replay=replay,
        exploration=exploration,
        optimizer=optimizer,
    )
