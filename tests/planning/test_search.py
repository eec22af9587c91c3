"""MCTS on a tree that NumPy can enumerate, and the names of the module before it became several."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.planning import acting, candidates, search
from purerl.planning.config import SearchConfig

REWARDS = np.array([[0.1, 0.5, 0.3], [0.9, 0.2, 0.4]], np.float32)


def recurrent_fn(params, key, action, embedding):
    """Return a reward that depends on the action; after one step all is 0."""
    reward = jnp.where(embedding == 0, params[jnp.arange(2), action], 0.0)
    zeros = jnp.zeros_like(reward)
    return search.recurrent_output(reward, zeros, jnp.zeros((2, 3)), zeros), embedding + 1


def test_the_value_is_over_tried_actions():
    """One simulation tries one action of three: its reward is the value, whatever weight the others have."""
    root = search.root_output(jnp.zeros((2, 3)), jnp.full(2, 9.0), jnp.zeros(2, jnp.int32))
    run = lambda key: search.search(
        SearchConfig(num_simulations=1), key, params=jnp.asarray(REWARDS), root=root, recurrent_fn=recurrent_fn
    )
    output = jax.jit(run)(jax.random.key(0))
    np.testing.assert_allclose(output.value, REWARDS[np.arange(2), output.action], rtol=1e-5)
    assert np.all(output.action_weights[np.arange(2), output.action] < 0.6), "others have weight"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gumbel", "puct"])
@pytest.mark.parametrize("run", [search.search, search.greedy_search])
def test_a_bandit(run, kind):
    """The value is the mean reward under the improved policy, and a greedy search finds the best legal action."""
    config = SearchConfig(search=kind, num_simulations=100)
    root = search.root_output(jnp.zeros((2, 3)), jnp.zeros(2), jnp.zeros(2, jnp.int32))
    legal = jnp.array([[True, True, True], [False, True, True]])
    inputs = {"params": jnp.asarray(REWARDS), "root": root, "recurrent_fn": recurrent_fn, "legal_actions": legal}
    output = jax.jit(lambda key: run(config, key, **inputs))(jax.random.key(0))
    weights = np.asarray(output.action_weights)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-5)
    assert weights[1, 0] == 0 and output.action.dtype == jnp.int32
    np.testing.assert_allclose(output.value, (weights * REWARDS).sum(axis=1), rtol=1e-4)
    if run is search.greedy_search:
        assert output.action.tolist() == [1, 2]


def test_earlier_names():
    assert search.SearchConfig is SearchConfig and search.Found is search.SearchOutput
    assert search.offer is candidates.candidate_actions and search.act_by_search is acting.act_by_search
    for name in search._EARLIER:
        assert callable(getattr(search, name))
    with pytest.raises(AttributeError, match="no attribute nothing"):
        search.nothing  # noqa: B018
