"""IQN: the distribution of returns by quantiles at random levels. `purerl train iqn CartPole-v1`.

Like QR-DQN, but the level of a quantile is an input of the network, so it learns the complete quantile function.
Source: Dabney et al. (2018), arXiv:1806.06923. A time limit does not end the task.
"""

import jax
import jax.numpy as jnp

from purerl.algos.dqn import QConfig, q_agent
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional.action_masks import action_mask
from purerl.functional.distributional import midpoints, quantile_huber
from purerl.functional.exploration import Exploration
from purerl.functional.q_targets import at_action, at_best
from purerl.networks.modules import Module
from purerl.networks.q_networks import QNetwork, QuantileNetwork, num_actions, quantile_network
from purerl.optim.optimizers import Optimizer, adam_by_plan
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, PyTree, number, pytree, static


@pytree
class IQNConfig(QConfig):
    """Settings of IQN."""

    num_quantiles: int = static(default=64, doc="quantile levels sampled for each prediction", at_least=1)
    num_target_quantiles: int = static(default=64, doc="quantile levels sampled for each target", at_least=1)
    num_acting_quantiles: int = static(
        default=32, doc="evenly spaced quantile levels, over which Q is the mean", at_least=1
    )
    embedding_size: int = static(default=64, doc="cosines that encode a quantile level", at_least=1)
    kappa: float = number(default=1.0, doc="error above which the loss is linear", above=0)


def iqn(
    spec: EnvironmentSpec,
    config: IQNConfig,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: QuantileNetwork | Module | None = None,
    replay: Replay | None = None,
    exploration: Exploration | None = None,
) -> Algorithm:
    r"""Return IQN for an environment with discrete actions.

        loss = sum_i mean_j |tau_i - 1{u_ij < 0}| H(u_ij),  u_ij = r + discount theta'_tau'_j(s', b) - theta_tau_i(s, a)

    with tau and tau' sampled uniformly from [0, 1], theta' the target network's quantiles and b the action whose mean
    is highest. Actions are chosen by the mean of the quantiles in the middle of equal parts of [0, 1].

    Args:
      spec, config, optimizer, replay, exploration: as for `dqn`.
      network: as for `dqn`; or a complete `QuantileNetwork`.

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    validate(config, "iqn")
    if not config.hidden_sizes:
        raise InputError("iqn: hidden_sizes is empty; a level is joined with features, so at least one layer is needed")
    size = num_actions(spec, "iqn")
    net = network
    if not isinstance(net, QuantileNetwork):
        net = quantile_network(
            spec.observation_space,
            size,
            config,
            embedding_size=config.embedding_size,
            dueling=config.dueling,
            noisy=config.noisy,
            network=net,
        )

    def evenly(params: PyTree, observation: PyTree, noise: Key | None = None) -> Array:
        return net.at(params, observation, midpoints(config.num_acting_quantiles), noise)

    q_values = lambda quantiles: jnp.mean(quantiles, axis=-1)

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key):
        key_tau, key_next, key_noise = jax.random.split(key, 3)
        noise = jax.random.split(key_noise, 3) if config.noisy else (None, None, None)
        tau = jax.random.uniform(key_tau, (*batch.reward.shape, config.num_quantiles))
        quantiles = at_action(net.at(params, batch.observation, tau, noise[0]), batch.action)

        selector = params if config.double else target_params
        q = q_values(evenly(selector, batch.next_observation, noise[1]))
        next_tau = jax.random.uniform(key_next, (*batch.reward.shape, config.num_target_quantiles))
        next_quantiles = net.at(target_params, batch.next_observation, next_tau, noise[2])
        next_best = at_best(next_quantiles, q, action_mask(batch.next_observation))
        targets = jax.lax.stop_gradient(batch.reward[:, None] + batch.discount[:, None] * next_best)

        error = jnp.abs(q_values(targets) - q_values(quantiles))
        metrics = {"q_value": jnp.mean(quantiles), "td_error": jnp.mean(error)}
        return jnp.mean(batch.weight * quantile_huber(quantiles, targets, config.kappa, tau)), (error, metrics)

    return q_agent(
        spec,
        config,
        network=QNetwork(init=net.init, apply=evenly),
        loss=loss,
        q_values=q_values,
        replay=replay,
        exploration=exploration,
        optimizer=optimizer,
    )
