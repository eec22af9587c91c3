"""REDQ: the subset of critics and the loss by hand; the policy learns once per update."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.redq import REDQConfig, least_of_some, redq
from purerl.errors import InputError
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec
from tests.helpers import replays

OBSERVATION = Box(low=-1.0, high=1.0, shape=(2,))
SPEC = EnvironmentSpec(OBSERVATION, Box(low=-2.0, high=6.0, shape=(1,)))
SIZES = {"hidden_sizes": (8,), "batch_size": 16, "replay_capacity": 256, "learning_starts": 1}
SIZES |= {"num_envs": 4, "rollout_length": 8, "num_critics": 3, "num_gradient_steps": 1, "policy_period": 1}


def test_a_subset_is_drawn_anew_and_is_the_same_for_the_batch(key):
    values = jnp.asarray(np.random.default_rng(0).normal(size=(4, 6)), jnp.float32)
    pairs = {(i, j): np.minimum(values[i], values[j]) for i in range(4) for j in range(i + 1, 4)}
    counts = dict.fromkeys(pairs, 0)
    for i in range(200):
        least = np.asarray(least_of_some(values, 2, jax.random.fold_in(key, i)))
        counts[next(pair for pair, expected in pairs.items() if np.array_equal(least, expected))] += 1
    assert min(counts.values()) > 15  # of 33 expected
    np.testing.assert_array_equal(least_of_some(values, 4, key), jnp.min(values, axis=0))


def test_the_critics_loss_by_hand(key):
    batch = replays.batch(key, 16, discount=0.0)
    algorithm = redq(SPEC, REDQConfig(**SIZES), replay=replays.fixed(batch))
    agent = algorithm.init(key)
    _, metrics = algorithm.update(agent, key, replays.rollout())
    outputs = replays.critic_outputs(SPEC, REDQConfig(**SIZES), 3)(agent.params["critics"], batch)
    expected = 0.5 * np.mean(np.sum((np.asarray(outputs) - np.asarray(batch.reward)) ** 2, axis=0))
    assert float(metrics["critic_loss"]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("period", "moves"), [(1, True), (3, True), (4, False)])
def test_the_policy_learns_every_policy_period_steps(key, period, moves):
    config = REDQConfig(**{**SIZES, "num_gradient_steps": 3, "policy_period": period})
    algorithm = redq(SPEC, config, replay=replays.fixed(replays.batch(key, 16, discount=0.9)))
    agent = algorithm.init(key)
    learned, _ = algorithm.update(agent, key, replays.rollout())
    moved = lambda part: any(
        bool(jnp.any(new != old))
        for new, old in zip(jax.tree.leaves(learned.params[part]), jax.tree.leaves(agent.params[part]), strict=True)
    )
    assert moved("critics")
    assert (moved("actor"), moved("log_temperature")) == (moves, moves)


def test_refusals():
    with pytest.raises(InputError, match="redq: num_target_critics 4 is more than num_critics 3"):
        redq(SPEC, REDQConfig(**{**SIZES, "num_target_critics": 4}))
    with pytest.raises(InputError, match="redq: needs continuous actions"):
        redq(EnvironmentSpec(OBSERVATION, Discrete(n=2)), REDQConfig(**SIZES))
