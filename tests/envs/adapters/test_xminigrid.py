"""XLand-MiniGrid's environments step as the suite says, and worlds are data."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.spaces import Discrete
from tests.helpers import suites

pytestmark = pytest.mark.suites

xminigrid = pytest.importorskip("xminigrid", reason="it is not installed: pip install 'purerl[xminigrid]'")

WORLD = "xminigrid/XLand-MiniGrid-R1-9x9"


@pytest.mark.parametrize("name", ["MiniGrid-EmptyRandom-5x5", "MiniGrid-DoorKey-5x5", "XLand-MiniGrid-R4-9x9"])
def test_steps_as_the_suite_does(name, side_by_side):
    env = purerl.make(f"xminigrid/{name}", time_limit=25)
    out = side_by_side(env, *suites.xminigrid(name, 25), num_envs=32, steps=27)
    assert out.ours.truncated[out.running].any()
    if "Empty" in name:
        done = out.ours.terminated & out.running
        assert done.any() and (out.ours.reward[done] > 0.1).all()
    assert len(np.unique(out.first, axis=0)) > 4, "episodes have starts of their own"


def ruleset(tile):
    """Hold a tile: the goal "agent holds it", no rule, and the tile in the grid."""
    from xminigrid.core.constants import TILES_REGISTRY
    from xminigrid.core.goals import AgentHoldGoal
    from xminigrid.core.rules import EmptyRule

    tile = TILES_REGISTRY[tile]
    return {"goal": AgentHoldGoal(tile).encode(), "rules": EmptyRule().encode()[None], "init_tiles": tile[None]}


def test_worlds_are_data():
    """Two worlds in one program: a ball's and a key's, of which each grid shows its own."""
    with jax.numpy_dtype_promotion("standard"):
        given = [ruleset((3, 1)), ruleset((7, 2))]
    rules = jax.tree.map(lambda *x: jnp.stack(x), *given)
    base = purerl.make(WORLD, ruleset=given[0])
    start = lambda rules: dataclasses.replace(base, ruleset=rules).reset(jax.random.key(0))[0].grid
    grids = np.asarray(jax.jit(jax.vmap(start))(rules))
    assert [(grids[i, ..., 0] == tile).sum() for i, tile in enumerate((3, 7))] == [1, 1]
    assert [(grids[i, ..., 0] == tile).sum() for i, tile in enumerate((7, 3))] == [0, 0]


def test_spaces():
    env = purerl.make("xminigrid/MiniGrid-Empty-5x5")
    assert env.action_space == Discrete(n=6)
    assert (env.observation_space.shape, env.observation_space.dtype) == ((7, 7, 2), np.int8)
    assert env.time_limit == xminigrid.make("MiniGrid-Empty-5x5")[1].max_steps
    shown = purerl.make("xminigrid/MiniGrid-Empty-5x5", one_hot=True)
    numbers, bits = (np.asarray(one.reset(jax.random.key(3))[1]) for one in (env, shown))
    np.testing.assert_array_equal(bits[..., :13].argmax(-1), numbers[..., 0])
    np.testing.assert_array_equal(bits[..., 13:].argmax(-1), numbers[..., 1])
    assert shown.observation_space.contains(bits) and (bits.sum(-1) == 2).all()


def test_what_is_refused(refused):
    assert "did you mean 'MiniGrid-Empty-5x5'" in refused("xminigrid/MiniGrid-Emty-5x5")
    assert "did you mean 'one_hot'" in refused("xminigrid/MiniGrid-Empty-5x5", onehot=True)
    assert "time_limit" in refused("xminigrid/MiniGrid-Empty-5x5", time_limit=0)
    assert "ruleset" in refused("xminigrid/MiniGrid-Empty-5x5", ruleset={})
    assert "must have the arrays goal, init_tiles, rules" in refused(WORLD, ruleset={"goal": [0]})
    assert "goal [n]" in refused(WORLD, ruleset={"goal": [[0]], "rules": [[0]], "init_tiles": [[0, 0]]})
