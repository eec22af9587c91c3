"""The contract of a replay: every replay keeps it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.replay.base import Replay
from purerl.replay.prioritized import prioritized
from purerl.replay.sequence_storage import SequenceSizes
from purerl.replay.sequences import sequences
from purerl.replay.uniform import uniform
from tests.helpers.numbered import SPEC, rollout

SIZES = SequenceSizes(capacity=40, num_envs=2, chunk=4, burn_in=0, train=4)
CARRY = (jnp.zeros((2, 6)), jnp.zeros((2, 6)))
REPLAYS = {
    "uniform": lambda: uniform(SPEC, 40, 2, 8),
    "prioritized": lambda: prioritized(SPEC, 40, 2, 8),
    "sequences": lambda: sequences(SPEC, SIZES, CARRY, 8),
}


@pytest.mark.parametrize("kind", REPLAYS)
def test_states_keep_their_shapes_and_batches_have_weights(kind):
    replay = REPLAYS[kind]()
    assert isinstance(replay, Replay)
    shapes = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
    empty = jax.eval_shape(replay.init)
    state = jax.eval_shape(replay.add, empty, rollout(start=0, ends=np.zeros((4, 2), int)))
    batch = jax.eval_shape(replay.sample, state, jax.random.key(0))
    assert batch.weight.shape == (8,) and batch.weight.dtype == jnp.float32
    learned = jax.eval_shape(replay.update, state, batch, jnp.ones(8))
    assert shapes(empty) == shapes(state) == shapes(learned)
