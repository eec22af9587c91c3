"""Values along replayed sequences; R2D2's loss and a recurrent team's hold the rest, by hand."""

import jax.numpy as jnp
import numpy as np

from purerl.algo_parts.sequence_learning import with_successors


def test_true_successors_stand_where_they_follow():
    along = jnp.arange(8.0).reshape(4, 2)
    successor = jnp.array([[10.0, 11.0], [20.0, 21.0]])
    follows = jnp.array([[1, 4], [3, 3]])  # 4: of no step
    found = with_successors(along, successor, follows)
    np.testing.assert_array_equal(found, [[2, 3], [10, 5], [6, 7], [20, 21]])
