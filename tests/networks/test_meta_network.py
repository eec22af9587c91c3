"""The meta-network: what its targets depend on. `test_disco_rule.py` holds its numbers."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.networks import meta_network
from purerl.networks.meta_network import Heads, MetaInputs, MetaSizes, MetaState
from tests.helpers.disco_inputs import SMALL

WEIGHTS = meta_network.random_weights(jax.random.key(0), MetaSizes(**SMALL))
T, B, A, M = 6, 3, 4, SMALL["predictions"]


def seen():
    random = np.random.default_rng(0)
    normal = lambda *shape: jnp.asarray(random.normal(size=shape), jnp.float32)
    heads = lambda: Heads(policy=normal(T + 1, B, A), y=normal(T + 1, B, M), z=normal(T + 1, B, A, M))
    done = jnp.zeros((T, B), bool).at[2, 0].set(True)
    return MetaInputs(
        action=jnp.asarray(random.integers(A, size=(T, B)), jnp.int32),
        reward=normal(T, B),
        terminated=done,
        done=done,
        mask=jnp.ones((T, B), bool).at[:, 2].set(False),
        follows=jnp.full((1, B), T - 1),
        behavior=normal(T, B, A),
        agent=heads(),
        target=heads(),
        value=normal(T + 1, B),
        advantage=normal(T, B),
        standardized_advantage=normal(T, B),
        q_value=normal(T, B, A),
        action_advantage=normal(T, B, A),
        standardized_action_advantage=normal(T, B, A),
    )


def test_it_reads_backwards_and_not_over_an_ending():
    apply = jax.jit(lambda inputs: meta_network.apply(WEIGHTS, MetaState(*jnp.ones((2, 4))), inputs))
    inputs = seen()
    before, state = apply(inputs)
    after, _ = apply(inputs._replace(reward=inputs.reward.at[4].add(3.0)))
    for name in before._fields:
        moved = np.abs(np.asarray(getattr(after, name) - getattr(before, name))).max(-1) > 1e-7
        assert moved[:5, 1].all() and not moved[5].any(), "the past sees it, the future does not"
        assert moved[3:5, 0].all() and not moved[:3, 0].any(), "nor does another episode"
    _, same = apply(inputs._replace(reward=inputs.reward.at[:, 2].add(3.0)))
    jax.tree.map(np.testing.assert_array_equal, state, same)  # the change is in steps that do not count
