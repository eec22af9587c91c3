"""Candidate actions of discrete and of sampled policies."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.functional.distributions import Categorical, Joint, Normal
from purerl.planning.candidates import candidate_actions, log_probs, take_actions
from purerl.planning.config import SearchConfig


def test_every_action_of_a_categorical_policy_is_a_candidate():
    logits = jnp.array([[0.5, -1.0, 2.0], [0.0, 1.0, -1e9]])
    candidates = candidate_actions(Categorical(logits), jax.random.key(0), SearchConfig())
    assert candidates.prior_logits is logits and candidates.actions == ()
    assert take_actions(candidates.actions, jnp.array([2, 0])).tolist() == [2, 0]
    np.testing.assert_allclose(log_probs(Categorical(logits), ()), jax.nn.log_softmax(logits), rtol=1e-6)


@pytest.mark.long
def test_candidates_of_other_policies_are_samples():
    mean, log_std = jnp.array([[1.0, -2.0], [0.0, 4.0]]), jnp.array([0.5, -1.0])
    policy = Joint({"move": Normal(mean, log_std), "kind": Categorical(jnp.array([[0.0, 1.0], [3.0, 0.0]]))})
    candidates = candidate_actions(
        policy, jax.random.key(0), dataclasses.replace(SearchConfig(), num_sampled_actions=4000)
    )
    move, kind = candidates.actions["move"], candidates.actions["kind"]
    assert move.shape == (2, 4000, 2) and kind.shape == (2, 4000) and not candidates.prior_logits.any()
    np.testing.assert_allclose(move.mean(axis=1), mean, atol=0.15)
    np.testing.assert_allclose(move.std(axis=1), np.exp([[0.5, -1.0]] * 2), rtol=0.1)
    np.testing.assert_allclose(kind.mean(axis=1), [1 / (1 + np.exp(-1)), 1 / (1 + np.exp(3))], atol=0.05)
    chosen = take_actions(candidates.actions, jnp.array([7, 3]))
    assert jax.tree.all(
        jax.tree.map(lambda x, y: (x == jnp.stack([y[0, 7], y[1, 3]])).all(), chosen, candidates.actions)
    )
    each = log_probs(policy, candidates.actions)
    assert each.shape == (2, 4000)
    alone = Normal(mean[1], log_std).log_prob(move[1, 9]) + Categorical(jnp.array([3.0, 0.0])).log_prob(kind[1, 9])
    np.testing.assert_allclose(each[1, 9], alone, rtol=1e-5)
    best = candidate_actions(policy, jax.random.key(0), SearchConfig(), best=True)
    np.testing.assert_array_equal(best.actions["move"][:, 0], mean)
    assert best.actions["kind"][:, 0].tolist() == [1, 0] and best.actions["move"].shape == (2, 16, 2)
