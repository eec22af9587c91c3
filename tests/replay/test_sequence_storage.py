"""The storage of a sequence replay: its sizes in memory, and the truncated steps that it keeps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.replay.sequence_storage import SequenceSizes, create, first_steps, nbytes
from tests.helpers.numbered import SPEC

SIZES = SequenceSizes(capacity=40, num_envs=2, chunk=4, burn_in=4, train=8)
CARRY = (jnp.zeros((2, 6)), jnp.zeros((2, 6)))


def test_sizes_in_chunks():
    assert (SIZES.length, SIZES.cuts, SIZES.num_chunks) == (3, 1, 5)
    assert SIZES._replace(capacity=41, chunk=16).num_chunks == 2


def test_its_size_in_bytes():
    state = create(SPEC, SIZES, CARRY)
    assert nbytes(SPEC, SIZES, CARRY) == sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    assert state.reward.shape == (5, 2, 4) and state.carry[0].shape == (5, 2, 6)


@pytest.mark.long
def test_the_first_steps_at_which_something_is_true():
    here = jnp.array([[0, 1, 0, 1, 1], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1]], bool).T
    np.testing.assert_array_equal(first_steps(here, 2), [[1, 5, 4], [3, 5, 5]])
