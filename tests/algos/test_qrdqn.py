"""Distributional agents: a time limit is not an ending."""

import jax
import jax.numpy as jnp
import pytest

from purerl.algos.c51 import C51Config, c51
from purerl.algos.iqn import IQNConfig, iqn
from purerl.algos.qrdqn import QRDQNConfig, qrdqn
from purerl.algos.rainbow import RainbowConfig, rainbow
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(2,)), Discrete(n=2))


ATOMS = {"v_min": 0.0, "v_max": 10.0}


FAMILY = [
    (c51, C51Config, ATOMS),
    (iqn, IQNConfig, {"num_quantiles": 4, "num_target_quantiles": 4, "num_acting_quantiles": 4, "kappa": 0.1}),
    (qrdqn, QRDQNConfig, {"num_quantiles": 3, "kappa": 0.1}),
    (rainbow, RainbowConfig, ATOMS),
]


def small(config, **changes):
    settings = {"num_envs": 4, "rollout_length": 4, "batch_size": 64, "replay_capacity": 64, "learning_starts": 64}
    return config(**{**settings, "hidden_sizes": (16,), **changes})


@pytest.mark.long
@pytest.mark.parametrize(("factory", "config", "changes"), FAMILY, ids=["c51", "iqn", "qrdqn", "rainbow"])
def test_a_time_limit_is_not_an_ending(factory, config, changes):
    """Reward 1 forever is worth 1 / (1 - 0.8) = 5; were every second step an ending, 1.4 at the most for n = 3."""
    settings = small(
        config, discount=0.8, learning_rate=0.01, num_gradient_steps=10, target_update_interval=5, **changes
    )
    algorithm = factory(SPEC, settings)
    ends = jnp.broadcast_to((jnp.arange(4) % 2 == 1)[:, None], (4, 4))
    zeros = jnp.zeros((4, 4, 2))
    rollout = Rollout(zeros, jnp.zeros((4, 4), jnp.int32), jnp.ones((4, 4)), jnp.zeros_like(ends), ends, zeros, (), ())
    update = jax.jit(algorithm.update)
    agent = algorithm.init(jax.random.key(0))
    for i in range(60):
        agent, metrics = update(agent, jax.random.key(i), rollout)
    assert float(metrics["q_value"]) == pytest.approx(5.0, abs=0.35)
