"""Acting by MCTS: actions that are sampled uniformly."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.planning.acting import explore_uniformly, fixed_key
from purerl.planning.config import SearchConfig
from purerl.planning.search import SearchOutput
from purerl.prng import fast

MASK = jnp.array([True, False, True])


def test_uniform_actions_are_legal_and_marked():
    output = SearchOutput(
        action=jnp.zeros(900, jnp.int32), action_weights=jnp.full((900, 3), 1 / 3), value=jnp.zeros(900)
    )
    legal = jnp.broadcast_to(MASK, (900, 3))
    action, extras = explore_uniformly(fast(jax.random.key(0)), output, legal, SearchConfig(epsilon=0.5))
    uniform = np.asarray(extras["uniform"])
    assert 0.4 < uniform.mean() < 0.6 and set(np.asarray(action)[~uniform].tolist()) == {0}
    assert set(np.asarray(action)[uniform].tolist()) == {0, 2}
    free, _ = explore_uniformly(fast(jax.random.key(0)), output, None, SearchConfig(epsilon=1.0))
    assert set(np.asarray(free).tolist()) == {0, 1, 2}


def test_a_fixed_key_depends_on_the_kind_of_key_only():
    for kind in (lambda key: key, fast):
        one, other = (fixed_key(kind(jax.random.key(seed))) for seed in (1, 2))
        assert one.dtype == other.dtype == kind(jax.random.key(1)).dtype
        np.testing.assert_array_equal(jax.random.key_data(one), jax.random.key_data(other))
