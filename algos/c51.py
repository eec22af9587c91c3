"""C51: the distribution of returns on fixed atoms. `purerl train c51 CartPole-v1`.

Like DQN, but Q is the mean of a learned distribution. Its target is the shifted distribution of the next state,
projected onto the atoms.
Source: Bellemare, Dabney and Munos (2017), arXiv:1707.06887. A time limit does not end the task.
"""

import jax
import jax.numpy as jnp

from purerl.algos.dqn import QConfig, network_for, q_agent, taken_and_next
from purerl.functional.distributional import atoms, categorical_divergence, expectation, project
from purerl.functional.exploration import Exploration
from purerl.networks.modules import Module
from purerl.networks.q_networks import QNetwork
from purerl.optim.optimizers import Optimizer, adam_by_plan
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, EnvironmentSpec, Key, PyTree, number, pytree, static


@pytree
class C51Config(QConfig):
    """Settings of C51."""

    num_atoms: int = static(
        default=51, doc="atoms of the distribution of returns (paper: 51; CleanRL: 101)", at_least=2
    )
    v_min: float = number(
        default=-100.0, doc="the lowest atom; lower returns are clipped to it (paper: -10 on Atari; CleanRL: -100)"
    )
    v_max: float = number(
        default=100.0, doc="the highest atom; higher returns are clipped to it (paper: 10 on Atari; CleanRL: 100)"
    )


def c51(
    spec: EnvironmentSpec,
    config: C51Config,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: QNetwork | Module | None = None,
    replay: Replay | None = None,
    exploration: Exploration | None = None,
) -> Algorithm:
    r"""Return C51 for an environment with discrete actions.

        loss = -sum_j m_j log p_j(s, a),  m = the projection of r + discount z under p'(s', argmax_b Q'(s', b))

    Args:
      spec, config, optimizer, replay, exploration: as for `dqn`.
      network: as for `dqn`; a complete `QNetwork` returns logits f32[..., num_actions, num_atoms].

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    return categorical_agent(
        spec, config, optimizer=optimizer, network=network, replay=replay, exploration=exploration, what="c51"
    )


def categorical_agent(
    spec: EnvironmentSpec,
    config: C51Config,
    *,
    optimizer: Optimizer,
    network: QNetwork | Module | None,
    replay: Replay | None,
    exploration: Exploration | None,
    what: str,
) -> Algorithm:
    """Return the agent of C51 and Rainbow, whose Q is the mean of a distribution on atoms; `what` is for errors."""
    net = network_for(spec, config, what, network, config.num_atoms)
    support = atoms(what, config.num_atoms, config.v_min, config.v_max)
    q_values = lambda logits: expectation(logits, support)

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key):
        taken, next_best = taken_and_next(net, params, target_params, batch, key, config=config, q_values=q_values)
        shifted = batch.reward[:, None] + batch.discount[:, None] * support
        target = project(shifted, jax.nn.softmax(next_best), support)
        cross_entropy, divergence = categorical_divergence(taken, target)
        metrics = {"q_value": jnp.mean(q_values(taken)), "td_error": jnp.mean(divergence)}
        return jnp.mean(batch.weight * cross_entropy), (jax.lax.stop_gradient(divergence), metrics)

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
