"""The replay of sequences against the rollouts that were added."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from purerl.replay.sequences import SequenceSizes, nbytes, sequences
from tests.helpers.numbered import SPEC, rollout


def test_sequences_are_what_was_added():
    """Chunks of one environment stay in order over the ring's end, with the memory that the first began with."""
    sizes = SequenceSizes(capacity=40, num_envs=2, chunk=4, burn_in=4, train=8)
    carry = (jnp.zeros((2, 6)), jnp.zeros((2, 6)))
    held = sequences(SPEC, sizes, carry, 10)
    state = held.init()
    add = jax.jit(held.add)
    assert sizes.num_chunks == 5
    assert nbytes(SPEC, sizes, carry) == sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    for i in range(9):
        ends = np.zeros((4, 2), int)
        ends[2, 1] = 2 if i % 2 else 0
        state = add(state, rollout(start=100 * i, ends=ends))
        starts = np.flatnonzero(np.asarray(state.tree.levels[-1]))
        assert len(starts) == 2 * max(0, min(i + 1, 5) - 2)
        if not len(starts):
            continue
        batch = held.sample(state, jax.random.key(i))
        assert set(np.asarray(batch.start)) <= set(starts)
        for n in range(10):
            first = int(batch.reward[0, n]) // 100
            env = int(batch.start[n]) % 2
            expected = np.concatenate([100 * (first + c) + 2 * np.arange(4) + env for c in range(3)])
            assert batch.reward[:, n].tolist() == expected.tolist()
            assert batch.observation[:, n, 0].tolist() == expected.tolist()
            assert float(batch.carry[0][n, 0]) == 100 * first
            cut = [env == 1 and (first + c) % 2 == 1 for c in range(3)]
            after = [100 * (first + c) + 2 * (2 if cut[c] else 3) + env + 0.5 for c in range(3)]
            assert batch.successor[:, n, 0].tolist() == after
            assert batch.truncated[:, n].reshape(3, 4)[:, 2].tolist() == cut


def test_priorities_of_sequences_by_hand():
    """First from the recorded errors of the trained chunks, then as updated."""
    sizes = SequenceSizes(capacity=40, num_envs=1, chunk=2, burn_in=2, train=4)
    one = (jnp.zeros((1, 6)), jnp.zeros((1, 6)))
    held = sequences(SPEC, sizes, one, 4, exponent=1.0)
    state = held.init()
    for i in range(4):
        state = held.add(state, rollout(2, 1, start=10 * i))
    leaves = np.asarray(state.tree.levels[-1])
    first = 0.9 * 21 + 0.1 * np.mean([10, 11, 20, 21])
    second = 0.9 * 31 + 0.1 * np.mean([20, 21, 30, 31])
    assert np.allclose(leaves[:4], [first, second, 0, 0], rtol=1e-5)
    batch = held.sample(state, jax.random.key(0))
    weight = np.where(np.asarray(batch.start) == 0, 1.0, (second / first) ** -0.6)
    assert np.allclose(batch.weight, weight / weight.max(), rtol=1e-5)
    state = held.update(state, batch, jnp.full(4, 7.0))
    assert np.allclose(np.asarray(state.tree.levels[-1])[np.unique(batch.start)], 7.0)
