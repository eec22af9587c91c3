"""The inner loop: complete training runs of candidates in parallel, and their scores."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.devices.sharding import make_mesh
from purerl.evolution import inner_loop
from purerl.evolution.inner_loop import Task, in_chunks, lifetimes, score
from purerl.loop.metrics import TrainMetrics
from tests.helpers.evolutions import CONFIG, ENV, LEARNER, TASK, TREE, VECTOR


@pytest.fixture(scope="module")
def fitness():
    """Three candidates, one lifetime each: (candidates f32[3, n], keys [3, 1]) -> f32[3, 1], compiled once."""
    return jax.jit(lambda candidates, keys: lifetimes(LEARNER, TASK, TREE, candidates, keys, "auc"))


@pytest.mark.long
def test_common_random_numbers(fitness):
    """Candidates that are all the same go the same way with common random numbers, and each its own with fresh ones."""
    same = jnp.broadcast_to(VECTOR, (3, VECTOR.size))
    common = jnp.broadcast_to(jax.random.split(jax.random.key(0), 1), (3, 1))
    assert np.ptp(fitness(same, common)) == 0.0
    assert np.ptp(fitness(same, jax.random.split(jax.random.key(0), (3, 1)))) > 0.0


@pytest.mark.long
def test_a_diverged_candidate_is_nan(fitness):
    candidates = jnp.broadcast_to(VECTOR, (3, VECTOR.size)).at[1].set(jnp.nan)
    found = fitness(candidates, jax.random.split(jax.random.key(0), (3, 1)))
    np.testing.assert_array_equal(np.isnan(found[:, 0]), [False, True, False])


@pytest.mark.long
def test_in_chunks_is_a_map(key):
    members = jnp.arange(7.0), jax.random.split(key, 7)
    function = lambda x, k: x + jax.random.uniform(k)
    expected = jax.vmap(function)(*members)
    for chunk in (None, 1, 2, 3, 7, 100):
        np.testing.assert_allclose(in_chunks(function, members, chunk), expected, rtol=1e-6)
    np.testing.assert_allclose(
        jax.jit(lambda *m: in_chunks(function, m, 2, make_mesh(2)))(*members), expected, rtol=1e-6
    )


def test_score_by_hand():
    nan = jnp.nan
    returns = jnp.array([nan, 10.0, nan, 20.0, nan])
    metrics = TrainMetrics(episodes={"episode_return": returns}, algorithm={"policy_loss": jnp.arange(5.0)})
    assert float(score(metrics, "auc")) == (10 + 10 + 10 + 20 + 20) / 5
    assert float(score(metrics, "final")) == 20.0
    failed = metrics._replace(algorithm={"policy_loss": jnp.array([0, 0, 0, 0, nan])})
    assert np.isnan(score(failed, "auc"))
    assert np.isnan(score(metrics._replace(episodes={"episode_return": jnp.full(5, nan)}), "auc"))


@pytest.mark.long
def test_environment_fields_are_drawn_for_each_training():
    hard = Task(
        "CartPole-v1", ENV, CONFIG, 256, lambda key, env: dataclasses.replace(env, angle_limit=jnp.float32(1e-4))
    )
    keys = jax.random.split(jax.random.key(0), (1, 1))
    found = jax.jit(lambda: lifetimes(LEARNER, hard, TREE, VECTOR[None], keys, "auc"))()
    assert float(found[0, 0]) < 3.0  # the pole is never upright for long


def test_each_candidate_has_a_row_of_keys(monkeypatch):
    monkeypatch.setattr(inner_loop, "make_train", lambda algorithm, *_: lambda key: ((), algorithm))
    monkeypatch.setattr(inner_loop, "score", lambda result, kind: result[0])
    keys = jax.random.split(jax.random.key(0), (2, 3))
    found = lifetimes(lambda x: x, TASK, lambda x: x, jnp.array([[1.0], [2.0]]), keys, "auc")
    np.testing.assert_array_equal(found, [[1, 1, 1], [2, 2, 2]])
