"""The ring of a replay: its size, what it overwrites, and rollouts that are cut."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.replay import storage
from purerl.replay.uniform import stacks
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout
from tests.helpers.steps import LENGTH, NUM_ENVS, SPEC, make_rollout

add = jax.jit(storage.add, donate_argnums=0)


@pytest.mark.long
def test_a_cut_is_no_ending():
    """Steps in rollouts that are cut before they are full are held as if in one rollout, stacks of frames, too."""
    space = Box(low=0, high=9, shape=(1, 2), dtype=jnp.uint8, stack=2)
    depth = stacks(spec := EnvironmentSpec(space, Discrete(n=3)))
    ends = np.array([[0, 0], [0, 2], [0, 0], [0, 0], [1, 0], [0, 0]])
    frame, episode = np.arange(1, 8), np.zeros((7, 2), int)
    episode[1:] = np.cumsum(ends > 0, axis=0)
    older = np.where(
        episode[:-1] == np.concatenate([episode[:1] - 1, episode[:-2]]), frame[:6, None] - 1, frame[:6, None]
    )
    after = np.broadcast_to(frame[1:, None], (6, 2))
    pair = lambda old, new: jnp.asarray(np.stack([old, new], axis=-1)[:, :, None], jnp.uint8)
    whole = Rollout(
        observation=pair(older, np.broadcast_to(frame[:6, None], (6, 2))),
        action=jnp.asarray(np.arange(12).reshape(6, 2) % 3, jnp.int32),
        reward=jnp.asarray(np.arange(12.0).reshape(6, 2), jnp.float32),
        terminated=jnp.asarray(ends == 1),
        truncated=jnp.asarray(ends == 2),
        next_observation=pair(after - 1, after),
        extras=(),
        carry=(),
    )

    def part(begin, num):
        rows = np.minimum(begin + np.arange(4), 5)
        counts = np.broadcast_to(np.arange(4)[:, None] < num, (4, 2))
        given = jax.tree.map(lambda x: x[rows], whole)
        cut = jnp.asarray((np.arange(4) == num - 1)[:, None] & (ends[rows] == 0))
        ended = {"terminated": given.terminated & counts, "truncated": given.truncated & counts | cut}
        return given._replace(**ended, mask=jnp.asarray(counts), cut=cut)

    once = storage.add(storage.create(spec, 40, 2), whole, depth)
    parts = storage.create(spec, 40, 2)
    for begin, num in ((0, 1), (1, 2), (3, 0), (3, 3)):
        parts = storage.add(parts, part(begin, num), depth)
    jax.tree.map(np.testing.assert_array_equal, once, parts)


def test_keeps_dtypes_and_stores_each_observation_once():
    state = storage.create(SPEC, 1000, 10)
    assert state.observation["frame"].dtype == jnp.uint8 and state.observation["seen"].dtype == jnp.bool_
    each = 101 * 10 * (3 + 4 + 4 + 1)  # and the heads of ten environments, and how much is filled
    assert storage.nbytes(SPEC, 1000, 10) == each + 4 * 10 + 4 == sum(leaf.nbytes for leaf in jax.tree.leaves(state))


@pytest.mark.long
def test_is_changed_in_place():
    """A donated storage keeps its memory, and a scan over additions needs no second one."""
    capacity = 100_000
    state = storage.create(SPEC, capacity, NUM_ENVS)
    rollout = make_rollout(np.zeros((LENGTH, NUM_ENVS), int), 0)
    place = state.reward.unsafe_buffer_pointer()
    state = add(state, rollout)
    assert state.reward.unsafe_buffer_pointer() == place
    many = jax.jit(
        lambda s: jax.lax.scan(lambda s, _: (storage.add(s, rollout), None), s, None, 10)[0], donate_argnums=0
    )
    needed = many.lower(state).compile().memory_analysis()
    assert needed.temp_size_in_bytes < storage.nbytes(SPEC, capacity, NUM_ENVS) / 10


@pytest.mark.long
def test_refuses_rollouts_that_do_not_fit():
    with pytest.raises(InputError, match="must hold at least"):
        add(storage.create(SPEC, 8, NUM_ENVS), make_rollout(np.zeros((LENGTH, NUM_ENVS), int), 0))
