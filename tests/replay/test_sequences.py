"""The replay of sequences against the rollouts that were added."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.replay.sequence_storage import SequenceSizes, nbytes
from purerl.replay.sequences import sequences
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec
from tests.helpers.compiled import each_compiled
from tests.helpers.numbered import SPEC, rollout


@pytest.mark.long
def test_sequences_are_what_was_added():
    """Chunks of one environment stay in order over the ring's end, with the memory that the first began with."""
    sizes = SequenceSizes(capacity=40, num_envs=2, chunk=4, burn_in=4, train=8)
    carry = (jnp.zeros((2, 6)), jnp.zeros((2, 6)))
    held = each_compiled(sequences(SPEC, sizes, carry, 10))
    state = held.init()
    assert sizes.num_chunks == 5
    assert nbytes(SPEC, sizes, carry) == sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    for i in range(9):
        ends = np.zeros((4, 2), int)
        ends[[0, 2], 1] = 2 if i % 2 else 1
        state = held.add(state, rollout(start=100 * i, ends=ends))
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
            assert batch.truncated[:, n].reshape(3, 4)[:, 2].tolist() == cut
            # Among the trained steps: the first truncated one of each chunk, and the last one.
            follows = [0 if cut[1] else 8, 4 if cut[2] else 8, 7]
            assert batch.follows[:, n].tolist() == follows
            for k, step in enumerate(follows):
                if step < 8:
                    assert float(batch.successor[k, n, 0]) == expected[4 + step] + 0.5


@pytest.mark.long_for("0.5", "1.0")
@pytest.mark.parametrize("exponent", [1.0, 0.5])
def test_priorities_of_sequences_by_hand(exponent):
    """First from the recorded errors of the trained chunks, then as updated."""
    sizes = SequenceSizes(capacity=40, num_envs=1, chunk=2, burn_in=2, train=4)
    one = (jnp.zeros((1, 6)), jnp.zeros((1, 6)))
    held = each_compiled(sequences(SPEC, sizes, one, 4, exponent=exponent))
    state = held.init()
    for i in range(4):
        state = held.add(state, rollout(2, 1, start=10 * i))
    leaves = np.asarray(state.tree.levels[-1])
    first = 0.9 * 21 + 0.1 * np.mean([10, 11, 20, 21])
    second = 0.9 * 31 + 0.1 * np.mean([20, 21, 30, 31])
    first, second = first**exponent, second**exponent
    assert np.allclose(leaves[:4], [first, second, 0, 0], rtol=1e-5)
    batch = held.sample(state, jax.random.key(0))
    weight = np.where(np.asarray(batch.start) == 0, 1.0, (second / first) ** -0.6)
    assert np.allclose(batch.weight, weight / weight.max(), rtol=1e-5)
    state = held.update(state, batch, jnp.full(4, 7.0))
    assert np.allclose(np.asarray(state.tree.levels[-1])[np.unique(batch.start)], 7.0**exponent)


@pytest.mark.long
def test_a_sequence_of_which_nothing_is_known_gets_the_largest_priority():
    """Initially 1, then the largest of the recorded and the updated ones; if a part is known, only that part counts."""
    sizes = SequenceSizes(capacity=40, num_envs=1, chunk=2, burn_in=0, train=4)
    held = each_compiled(sequences(SPEC, sizes, (jnp.zeros((1, 6)), jnp.zeros((1, 6))), 4, exponent=1.0))
    state = held.init()
    for known in ([0, 0], [0, 0], [0, 1], [0, 0], [0, 0]):
        added = rollout(2, 1, start=10)
        added.extras["known"] = jnp.asarray(known, bool)[:, None]
        state = held.add(state, added)
    assert np.allclose(state.tree.levels[-1][:5], [1, 11, 11, 11, 0])
    state = held.update(state, held.sample(state, jax.random.key(0)), jnp.full(4, 70.0))
    added = rollout(2, 1, start=20)
    added.extras["known"] = jnp.zeros((2, 1), bool)
    assert np.allclose(held.add(state, added).tree.levels[-1][4], 70)


@pytest.mark.long
def test_stacked_frames_of_successors():
    """What follows a truncated step shows the frames before it, the first one of the episode in place of earlier."""
    space = Box(low=0, high=255, shape=(1, 3), dtype=jnp.uint8, stack=3)
    spec = EnvironmentSpec(space, Discrete(n=3))
    sizes = SequenceSizes(capacity=12, num_envs=1, chunk=4, burn_in=4, train=4)
    held = each_compiled(sequences(spec, sizes, jnp.zeros((1, 1)), 2))
    state = held.init()
    first = [0, 0, 0, 3, 4, 4, 4, 4]  # episodes of 3, 1 and more steps
    stack = lambda newest, begin: [[max(newest - back, begin) for back in (2, 1, 0)]]
    seen = [stack(t, begin) for t, begin in enumerate(first)]
    after = [stack(t + 1, begin) for t, begin in enumerate(first)]
    after[2][0][2] = 103  # the final observation does not belong to the next episode
    for part in (slice(0, 4), slice(4, 8)):
        given = rollout(4, 1)
        given = given._replace(
            observation=jnp.asarray(seen[part], jnp.uint8)[:, None],
            next_observation=jnp.asarray(after[part], jnp.uint8)[:, None],
            truncated=jnp.asarray([t in (2, 3) for t in range(8)][part])[:, None],
            carry=jnp.zeros((1, 1)),
        )
        state = held.add(state, given)
    whole = held.sample(state, jax.random.key(0))
    np.testing.assert_array_equal(whole.observation[:, 0], seen)
    assert whole.follows[:, 0].tolist() == [4, 3]
    np.testing.assert_array_equal(whole.successor[1, 0], after[7])
    other = each_compiled(sequences(spec, sizes._replace(burn_in=0, train=8), jnp.zeros((1, 1)), 2))
    late = other.sample(state, jax.random.key(0))
    assert late.follows[:, 0].tolist() == [2, 8, 7]
    np.testing.assert_array_equal(late.successor[0, 0], [[1, 2, 103]])


@pytest.mark.long
def test_an_episode_that_was_given_up_ends_before_the_next_rollout():
    """As after a resume: host environments that cannot be saved start over."""
    sizes = SequenceSizes(capacity=40, num_envs=2, chunk=4, burn_in=0, train=8)
    held = each_compiled(sequences(SPEC, sizes, (jnp.zeros((2, 6)), jnp.zeros((2, 6))), 8))
    ends = np.zeros((4, 2), int)
    ends[0, 1] = 2
    again = rollout(start=100, ends=ends)
    again = again._replace(mask=jnp.ones((4, 2), bool).at[0, 1].set(False))
    state = held.init()
    for part in (rollout(start=0), again):
        state = held.add(state, part)
    batch = held.sample(state, jax.random.key(0))
    for n in range(8):
        of = int(batch.start[n]) % 2
        assert batch.truncated[:, n].tolist() == [False, False, False, of == 1, of == 1, False, False, False]
        if of == 1:
            (k,) = np.flatnonzero(np.asarray(batch.follows[:, n]) == 3)
            assert float(batch.successor[k, n, 0]) == 7.5, "the true successor of the last step before"
