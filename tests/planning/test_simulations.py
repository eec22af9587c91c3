"""The loop of simulations against mctx's own: the same trees, node by node."""

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

from purerl.planning import search as searches
from purerl.planning.config import SearchConfig
from purerl.planning.search import recurrent_output, root_output, search

TREES, ACTIONS = 5, 4


def expand(params, key, action, node):
    """A world of waves: where an action leads, what it gives and how the network sees it; some ways end."""
    node = jnp.sin(3.0 * node @ params["turn"][0] + params["turn"][1][action])
    over = node[:, 0] > 0.8
    reward = node[:, 1] + 0.1 * jax.random.normal(key, (TREES,))
    discount = jnp.where(over, 0.0, jnp.where(node[:, 2] > 0.0, 0.97, -0.97))
    return recurrent_output(reward, discount, params["peak"] * node @ params["policy"], node[:, 3]), node


@pytest.fixture
def world():
    keys = jax.random.split(jax.random.key(0), 4)
    normal = jax.random.normal
    params = {
        "turn": (normal(keys[0], (4, 4)), normal(keys[1], (ACTIONS, 4))),
        "policy": normal(keys[2], (4, ACTIONS)),
        "peak": jnp.float32(1.0),
    }
    return params, normal(keys[3], (TREES, 4))


def grown(monkeypatch, own, config, params, node, legal):
    """Return (what a search found, its tree), with the loop here or with mctx's."""
    trees = []

    def kept(policy):
        def call(*args, **more):
            output = policy(*args, **(more if own else {**more, "loop_fn": jax.lax.fori_loop}))
            trees.append(output.search_tree)
            return output

        return call

    def run(key, params, node):
        trees.clear()
        root = root_output(node @ params["policy"], node[:, 0], node)
        output = search(config, key, params=params, root=root, recurrent_fn=expand, legal_actions=legal)
        return output, trees[0]

    with monkeypatch.context() as patch:
        for name in ("gumbel_muzero_policy", "muzero_policy"):
            patch.setattr(searches.mctx, name, kept(getattr(mctx, name)))
        return jax.jit(run)(jax.random.key(7), params, node)


@pytest.mark.long_for(
    *(
        "gumbel-None-0.3",
        "gumbel-2-0.3",
        "gumbel-None-8.0",
        "puct-None-0.3",
        "puct-None-8.0",
        "puct-2-0.3",
        "puct-2-8.0",
    )
)
@pytest.mark.parametrize("peak", [0.3, 8.0])  # broad trees, and ones that go deep
@pytest.mark.parametrize("max_depth", [None, 2])
@pytest.mark.parametrize("kind", ["gumbel", "puct"])
def test_the_same_trees_grow(world, monkeypatch, kind, max_depth, peak):
    params, node = world
    params["peak"] = jnp.float32(peak)
    config = SearchConfig(search=kind, num_simulations=24, max_depth=max_depth, max_considered_actions=3)
    legal = jnp.ones((TREES, ACTIONS), bool).at[0, 1].set(False).at[3, 2:].set(False)
    (found, tree), (expected, other) = (grown(monkeypatch, own, config, params, node, legal) for own in (True, False))
    for name in ("node_visits", "parents", "action_from_parent", "children_index", "children_visits"):
        np.testing.assert_array_equal(getattr(tree, name), getattr(other, name), err_msg=name)
    for a, b in zip(jax.tree.leaves((found, tree)), jax.tree.leaves((expected, other)), strict=True):
        np.testing.assert_allclose(np.asarray(a, np.float32), np.asarray(b, np.float32), rtol=1e-5, atol=1e-6)
    visits = np.asarray(tree.node_visits)
    assert (visits[:, 0] == 25).all() and not np.asarray(tree.children_visits)[0, 0, 1]
    if max_depth is not None:
        assert visits[:, 1:].max() > 1 and (visits == 0).any()  # at the greatest depth a node is visited again
