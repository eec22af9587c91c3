"""D4PG: distributional deterministic policy gradients. `purerl train d4pg Pendulum-v1`.

Like DDPG, but the critic is a distribution of returns on fixed atoms, learned from several steps of reward.
Source: Barth-Maron et al. (2018), arXiv:1804.08617. Parallel environments replace its actors, and the replay is
uniform here, because the paper finds that priorities help little.
"""

import jax
import jax.numpy as jnp

from purerl.algos.td3 import ADAM, Returns, TD3Config, deterministic
from purerl.functional.distributional import atoms, categorical_divergence, expectation, project
from purerl.networks.modules import Module
from purerl.optim.optimizers import Optimizer
from purerl.replay.uniform import Replay
from purerl.types import Algorithm, Array, EnvironmentSpec, number, pytree, static


@pytree
class D4PGConfig(TD3Config):
    """Settings of D4PG."""

    learning_rate: float = number(default=1e-3, doc="learning rate of Adam, for both networks (paper: 1e-4)", above=0)
    num_atoms: int = static(default=51, doc="atoms of the distribution of returns", at_least=2)
    v_min: float = number(default=-100.0, doc="lowest atom; lower returns are clipped to it, so choose it for the task")
    v_max: float = number(
        default=100.0, doc="highest atom; higher returns are clipped to it, so choose it for the task"
    )
    n_step: int = static(default=5, doc="steps of reward before bootstrapping", at_least=1)
    num_critics: int = static(default=1, doc="number of critics, whose mean is the target", at_least=1)
    policy_period: int = number(
        default=1, doc="gradient steps of the critic per gradient step of the policy", at_least=1
    )
    target_noise: float = number(default=0.0, doc="standard deviation of the noise on the target action", at_least=0)
    exploration_noise: float = number(
        default=0.3, doc="standard deviation of the exploration noise, in half widths of the box", at_least=0
    )


def d4pg(
    spec: EnvironmentSpec,
    config: D4PGConfig,
    *,
    optimizer: Optimizer = ADAM,
    network: Module | None = None,
    replay: Replay | None = None,
) -> Algorithm:
    r"""Return D4PG.

        critic: -sum_j m_j log p_j(s, a),  m = the projection of scale r + discount z under p'(s', mu'(s'))
        policy: -E Z(s, mu(s))

    with z the atoms, p their probabilities and Z the mean of this distribution. With several critics, the target is the
    mean of their distributions, and the policy maximizes the first critic.

    Args:
      spec: the environment's spaces, with a Box of actions with finite bounds.
      config: the settings.
      optimizer: for actor and critics each: an optax optimizer such as `optax.lion`, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], below the policy's
        head; each critic has its own copy, followed by `hidden_sizes` on its features and the action.
      replay: a replay; by default a uniform one.

    Raises:
      InputError: if a setting is out of range or the actions are not such a box.
    """
    support = atoms("d4pg", config.num_atoms, config.v_min, config.v_max)

    def errors(outputs: Array, next_outputs: Array, reward: Array, discount: Array) -> tuple[Array, Array]:
        probability = jnp.mean(jax.nn.softmax(next_outputs), axis=0)
        target = project(reward[:, None] + discount[:, None] * support, probability, support)
        loss, divergence = jax.vmap(lambda logits: categorical_divergence(logits, target))(outputs)
        return jnp.sum(loss, axis=0), jnp.mean(divergence, axis=0)

    returns = Returns(outputs=config.num_atoms, mean=lambda logits: expectation(logits, support), errors=errors)
    return deterministic(
        spec, config, returns=returns, optimizer=optimizer, network=network, replay=replay, what="d4pg"
    )
