"""What the methods of an evolution share."""

import jax.numpy as jnp
import numpy as np

from purerl.evolution.method import flatten
from purerl.functional.drifts import DPO, ClipDrift
from purerl.functional.objectives import Drifting, Mixture


def test_only_floats_are_evolved():
    mixture = Mixture(members=(Drifting(drift=DPO()), Drifting(drift=ClipDrift())), index=jnp.int32(1))
    vector, tree = flatten(mixture)
    np.testing.assert_allclose(vector, [2.0, 0.6, 0.2])
    back = tree(vector + 1.0)
    assert back.index.dtype == jnp.int32 and int(back.index) == 1
    np.testing.assert_allclose([back.members[0].drift.beta, back.members[1].drift.epsilon], [1.6, 1.2])
