"""Masks of legal actions and global states, which are not for every network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.functional.action_masks import (
    action_mask,
    mask_illegal,
    split_mask,
    without_global_state,
    without_mask,
)
from purerl.spaces import Box, Dict, Discrete


@pytest.mark.long
def test_masks():
    observation = {"observation": jnp.ones(2), "action_mask": jnp.array([True, False])}
    seen, mask = split_mask(observation)
    assert set(seen) == {"observation"}
    scores, slope = jax.value_and_grad(lambda x: jax.nn.softmax(mask_illegal(x, mask))[0])(jnp.array([0.0, 50.0]))
    assert scores == 1.0 and np.isfinite(slope).all()
    plain = jnp.ones(3)
    assert split_mask(plain)[0] is plain and split_mask(plain)[1] is None and mask_illegal(plain, None) is plain
    assert action_mask(observation) is mask and action_mask(plain) is None


@pytest.mark.long
def test_spaces_and_observations_without_them():
    box = Box(low=0.0, high=1.0, shape=(2,))
    flags = Box(low=0.0, high=1.0, shape=(3,))
    space = Dict(spaces={"observation": box, "action_mask": flags, "global_state": box})
    assert set(without_mask(space).spaces) == {"observation", "global_state"}
    assert set(without_global_state(space).spaces) == {"observation", "action_mask"}
    assert without_mask(Discrete(n=2)) == without_global_state(Discrete(n=2)) == Discrete(n=2)
    alone = Dict(spaces={"observation": box})
    assert without_global_state(alone) is alone and without_mask(alone) is alone
    assert without_global_state({"observation": 1, "global_state": 2}) == {"observation": 1}
