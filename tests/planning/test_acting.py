"""Acting by MCTS: actions that are sampled uniformly."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.planning.acting import explore_uniformly, fixed_key
from purerl.prng import fast
from purerl.spaces import Box, Dict, Discrete

MASK = jnp.array([True, False, True])


def test_uniform_actions_are_legal_and_marked():
    def explore(space, observation, epsilon, action=jnp.zeros(900, jnp.int32)):
        do = jax.jit(lambda key, action: explore_uniformly(key, action, space, observation, epsilon))
        return jax.device_get(do(fast(jax.random.key(0)), action))

    masked = {"observation": jnp.zeros((900, 1)), "action_mask": jnp.broadcast_to(MASK, (900, 3))}
    action, uniform = explore(Discrete(n=3), masked, 0.5)
    assert 0.4 < uniform.mean() < 0.6 and set(action[~uniform].tolist()) == {0}
    assert set(action[uniform].tolist()) == {0, 2}
    assert set(explore(Discrete(n=3), jnp.zeros((900, 1)), 1.0)[0].tolist()) == {0, 1, 2}

    box = {"push": Box(low=-1.0, high=3.0, shape=(2,))}
    still = {"push": jnp.full((900, 2), 0.5)}
    action, uniform = explore(Dict(spaces=box), jnp.zeros((900, 1)), 0.5, still)
    assert np.all(action["push"][~uniform] == 0.5)
    np.testing.assert_allclose(action["push"][uniform].mean(axis=0), 1.0, atol=0.15)
    np.testing.assert_allclose(action["push"][uniform].std(axis=0), 4 / 12**0.5, rtol=0.1)


def test_a_fixed_key_depends_on_the_kind_of_key_only():
    for kind in (lambda key: key, fast):
        one, other = (fixed_key(kind(jax.random.key(seed))) for seed in (1, 2))
        assert one.dtype == other.dtype == kind(jax.random.key(1)).dtype
        np.testing.assert_array_equal(jax.random.key_data(one), jax.random.key_data(other))
