"""The program of a generation: its first call starts the search, and a checkpoint's shapes are known before it."""

import jax
import numpy as np
import pytest

from purerl.devices.sharding import place
from purerl.evolution.plan import make_plan
from purerl.evolution.program import blank, compile_generation, template
from purerl.prng import is_key
from purerl.settings.options import EvolveOptions

SMALL = {"num_envs": 2, "rollout_length": 4, "num_minibatches": 1, "num_epochs": 1, "hidden_sizes": (4,)}


@pytest.fixture(scope="module")
def plan():
    options = EvolveOptions(population=2, generations=2, devices=1, seed=5)
    return make_plan("kl", ["Catch"], options, SMALL | {"total_timesteps": 16})


def test_blank_states_have_the_shapes_of_a_checkpoint(plan):
    shapes = template(plan, frames=3)
    start = blank(shapes)
    kind = lambda x: (x.shape, x.dtype)
    assert jax.tree.map(kind, start) == jax.tree.map(kind, shapes)
    assert start.frames.shape == (3, 1) and start.frame_at.tolist() == [-1, -1, -1]
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(start.state) if not is_key(leaf))


@pytest.mark.long
def test_the_first_call_starts_and_the_second_goes_on(plan):
    advance = compile_generation(plan)
    evolution = plan.method(1)
    state = place(blank(template(plan, 2)).state, plan.mesh)
    first, told = advance(state, np.uint32(5))
    assert int(first.generation) == 1 and told.fitness.shape == (1, 2)
    np.testing.assert_array_equal(told.mean, evolution.center(jax.jit(evolution.init)(jax.random.key(5))))
    second, told = advance(first, np.uint32(77))  # the seed does not matter any more
    assert int(second.generation) == 2
    np.testing.assert_array_equal(told.mean, evolution.center(first))
