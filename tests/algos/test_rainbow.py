"""Rainbow: vmapped seeds equal solo runs."""

import jax
import numpy as np
import pytest

from purerl import make, make_train
from purerl.algos.rainbow import RainbowConfig, rainbow


def small(config, **changes):
    settings = {"num_envs": 4, "rollout_length": 4, "batch_size": 64, "replay_capacity": 64, "learning_starts": 64}
    return config(**{**settings, "hidden_sizes": (16,), **changes})


@pytest.mark.slow
def test_vmapped_rainbow_equals_solo_runs():
    config = small(RainbowConfig, rollout_length=2, num_atoms=5, v_min=0.0, v_max=50.0)
    train = make_train(rainbow, make("CartPole-v1"), config, total_timesteps=8 * 12)
    keys = jax.random.split(jax.random.key(3), 2)
    together, _ = jax.jit(jax.vmap(train))(keys)
    alone, _ = jax.jit(train)(keys[1])
    assert int(alone.agent.num_gradient_steps) == 5
    for one, many in zip(jax.tree.leaves(alone.agent), jax.tree.leaves(together.agent), strict=True):
        assert np.allclose(one, many[1], atol=1e-4)
