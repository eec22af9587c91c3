"""Transitions of n steps against a plain list of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerl.replay import storage
from purerl.replay.transitions import gather, observations
from tests.helpers.steps import CAPACITY, DISCOUNT, LENGTH, NUM_ENVS, SPEC, Slow, make_rollout

add = jax.jit(storage.add, donate_argnums=0)
gather = jax.jit(gather, static_argnames=("n_step", "between"))


def everything(state, n_step):
    """All that a draw could find, in the form of `Slow.transitions`."""
    num_envs = state.flag.shape[1]
    places = jnp.arange(state.flag.size, dtype=jnp.int32)
    batch = jax.tree.map(np.asarray, gather(state, places, 1.0, DISCOUNT, n_step=n_step, between=True))
    found = {}
    for i in np.flatnonzero(batch.weight):
        key = (*batch.observation["frame"][i].tolist(), i % num_envs)
        assert key not in found
        assert batch.observation["seen"][i] == (key[0] % 2 == 0)
        after = tuple(batch.next_observation["frame"][i].tolist()) if batch.discount[i] else None
        seen = zip(batch.between.discount, batch.between.observation["frame"], strict=True) if n_step > 1 else ()
        found[key] = (
            int(batch.action[i]),
            round(float(batch.reward[i]), 4),
            round(float(batch.discount[i]), 4),
            after,
            tuple((round(float(factor[i]), 4), *frame[i].tolist()) for factor, frame in seen if factor[i]),
        )
    return found


AWAY = 3  # a step that does not count, if it follows an ending or another such step


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([0, 0, 0, 1, 2, AWAY]), min_size=6, max_size=6), min_size=1, max_size=12),
    st.sampled_from([1, 3]),
)
def test_holds_what_a_list_of_transitions_holds(rollouts, n_step):
    slow = Slow(NUM_ENVS, storage.num_rows(CAPACITY, NUM_ENVS))
    state = storage.create(SPEC, CAPACITY, NUM_ENVS)
    before = np.ones(NUM_ENVS, int)
    for i, codes in enumerate(rollouts):
        ends = np.array(codes).reshape(LENGTH, NUM_ENVS)
        for t in range(LENGTH):
            ends[t] = np.where((ends[t] == AWAY) & (before == 0), 0, ends[t])
            before = ends[t]
        rollout = make_rollout(ends, i * LENGTH * NUM_ENVS)._replace(mask=jnp.asarray(ends != AWAY))
        slow.add(rollout)
        state = add(state, rollout)
    assert everything(state, n_step) == slow.transitions(n_step)


@pytest.mark.long
def test_observations_keep_the_axes_of_their_indices():
    state = add(storage.create(SPEC, CAPACITY, NUM_ENVS), make_rollout(np.zeros((LENGTH, NUM_ENVS), int), 0))
    index = jnp.array([[0, 1, 2], [3, 4, 5]])
    assert observations(state, index)["frame"][..., 0].tolist() == index.tolist()
