"""C51: its loss by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.c51 import C51Config, c51
from purerl.errors import InputError
from purerl.networks.q_networks import QNetwork
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(2,)), Discrete(n=2))


def small(config, **changes):
    settings = {"num_envs": 4, "rollout_length": 4, "batch_size": 64, "replay_capacity": 64, "learning_starts": 64}
    return config(**{**settings, "hidden_sizes": (16,), **changes})


@pytest.mark.long
def test_categorical_loss_by_hand():
    """Two atoms, 0 and 1; the target moves all mass to reward + discount z."""
    logits = jnp.array([[[0.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 0.0]]])  # [state, action, atom]
    table = QNetwork(
        lambda key: logits, lambda params, observation, noise=None: params[observation[..., 0].astype(jnp.int32)]
    )
    batch = Transitions(
        jnp.array([[0.0, 0.0]]),
        jnp.array([1]),
        jnp.array([0.25]),
        jnp.array([0.5]),
        jnp.array([[1.0, 0.0]]),
        jnp.ones(1),
        jnp.zeros(1, jnp.int32),
    )
    memory = Replay(lambda: (), lambda s, _: s, lambda s, _: batch, lambda s, *_: s)
    config = small(C51Config, num_atoms=2, v_min=0.0, v_max=1.0)
    algorithm = c51(SPEC, config, network=table, replay=memory)
    agent = algorithm.init(jax.random.key(0))._replace(num_updates=jnp.int32(100))
    never = jnp.zeros((4, 4), bool)
    rollout = Rollout(jnp.zeros((4, 4, 2)), jnp.zeros((4, 4), jnp.int32), jnp.zeros((4, 4)), never, never, None, (), ())
    _, metrics = algorithm.update(agent, jax.random.key(0), rollout)
    # In state 1 action 1 is better (mean 0.5 against 0.12): mass 1/2 at 0.25 and 1/2 at 0.75, so m = (1/2, 1/2).
    log_p = -np.log1p(np.exp([1.0, -1.0]))
    assert float(metrics["loss"]) == pytest.approx(-0.5 * log_p.sum(), rel=1e-5)
    assert float(metrics["td_error"]) == pytest.approx(-0.5 * log_p.sum() - np.log(2), rel=1e-4)


def test_refuses_an_empty_support():
    with pytest.raises(InputError, match=r"v_min 1\.0 must be below v_max 1\.0"):
        c51(SPEC, small(C51Config, v_min=1.0, v_max=1.0))
