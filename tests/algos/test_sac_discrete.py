"""Discrete SAC: the target entropy, and rows of the replay that hold no transition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.sac import SACConfig, sac
from purerl.spaces import Box, Dict, Discrete
from purerl.types import EnvironmentSpec, Rollout

OBSERVATION = Box(low=-1.0, high=1.0, shape=(2,))
SMALL = SACConfig(
    hidden_sizes=(8,), batch_size=16, replay_capacity=256, learning_starts=1, num_envs=4, rollout_length=8
)


def fill(action):
    """Return a rollout of 8 steps of 4 environments in one state, with reward 1."""
    never, zeros = jnp.zeros((8, 4), bool), jnp.zeros((8, 4, 2))
    return Rollout(zeros, action, jnp.ones((8, 4)), never, never, zeros, (), ())


@pytest.mark.long
def test_the_target_entropy_is_of_legal_actions(key):
    """Three of nine actions are legal: a temperature that asks for more than log 3 would grow without end."""
    mask = Box(low=0, high=1, shape=(9,), dtype=jnp.bool_)
    space = Dict(spaces={"observation": OBSERVATION, "action_mask": mask})
    algorithm = sac(EnvironmentSpec(space, Discrete(n=9)), SMALL)
    legal = jnp.arange(9) < 3
    seen = {"observation": jnp.zeros((8, 4, 2)), "action_mask": jnp.broadcast_to(legal, (8, 4, 9))}
    rollout = fill(jnp.zeros((8, 4), jnp.int32))._replace(observation=seen, next_observation=seen)
    agent, metrics = jax.jit(algorithm.update)(algorithm.init(key), key, rollout)
    assert float(metrics["entropy"]) == pytest.approx(np.log(3), rel=0.05)
    assert float(agent.params["log_temperature"]) < 0.0, "it falls, as the policy is wide enough"


@pytest.mark.long
def test_rows_without_a_transition_count_for_no_entropy(key):
    """Where rings fill unevenly, a drawn row may hold nothing: no observation, and a mask without a legal action."""
    mask = Box(low=0, high=1, shape=(9,), dtype=jnp.bool_)
    space = Dict(spaces={"observation": OBSERVATION, "action_mask": mask})
    algorithm = sac(EnvironmentSpec(space, Discrete(n=9)), SMALL)
    legal = jnp.broadcast_to(jnp.arange(9) < 3, (8, 4, 9))
    seen = {"observation": jnp.zeros((8, 4, 2)), "action_mask": legal}
    rollout = fill(jnp.zeros((8, 4), jnp.int32))._replace(observation=seen, next_observation=seen)
    agent, update = algorithm.init(key), jax.jit(algorithm.update)
    active = jnp.arange(8)[:, None] < jnp.array([8, 1, 1, 1])  # three environments give hardly any transition
    for i in range(4):
        agent, metrics = update(agent, jax.random.fold_in(key, i), rollout._replace(mask=active))
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((agent.params, metrics)))
    assert float(metrics["entropy"]) == pytest.approx(np.log(3), rel=0.1)
