"""A few hundred random steps of every environment have not changed.

The numbers in tests/golden/steps.json are from code that passed all longer tests, including those against the
environments' own packages and slow references. Any change of the dynamics changes them. If the change is intended, run

    PURERL_WRITE_GOLDEN=1 uv run pytest -n 0 tests/envs/test_steps.py
"""

import jax
import numpy as np
import pytest

from purerl import make, vectorize
from purerl.catalog.environments import ENVIRONMENTS
from tests.helpers import golden

NUM_STEPS, NUM_EXACT = 300, 25  # numbers that are not whole may drift apart on another machine after some steps


@pytest.fixture(scope="module")
def known():
    yield from golden.file("steps.json")


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_steps(name, known):
    env = make(name)
    vector = vectorize(env, 4, "always")

    @jax.jit
    def play(key):
        def step(state, key):
            actions = jax.vmap(env.action_space.sample)(jax.random.split(key, 4))
            state, _, timestep = vector.step(key, state, actions)
            return state, timestep._replace(info={})

        state, first = vector.reset(key)
        return first, jax.lax.scan(step, state, jax.random.split(key, NUM_STEPS))[1]

    first, steps = play(jax.random.key(0))
    leaves = jax.tree.leaves_with_path({"first": first, **steps._asdict()})
    arrays = {jax.tree_util.keystr(path): np.asarray(x) for path, x in leaves if x.size}
    whole = all((x == np.round(x)).all() for x in arrays.values())
    golden.check(known, name, {at: x if whole or "first" in at else x[:NUM_EXACT] for at, x in arrays.items()})


SLOW = [*(f"{game}-MinAtar" for game in ("Asterix", "Freeway", "Seaquest", "SpaceInvaders")), "Spread", "TagContinuous"]
UNLIMITED = [
    *("Catch", "DeepSea", "DiscountingChain", "MemoryChain", "SimpleBandit", "UmbrellaChain"),
    *("BernoulliBandit", "GaussianBandit", "MatrixGame", "Autoencode", "RepeatPrevious"),
]  # they have no time limit, or always end after the same number of steps


@pytest.mark.long_for(*SLOW)
@pytest.mark.parametrize("name", [name for name in ENVIRONMENTS if name not in UNLIMITED])
def test_a_time_limit_truncates(name):
    """The first step ends no task; a limit of one step is a truncation."""
    env = make(name, time_limit=1)
    state, _ = env.reset(jax.random.key(0))
    timestep = env.step(jax.random.key(1), state, env.action_space.zeros())[1]
    assert timestep.truncated and not timestep.terminated


def test_no_limit_is_left_out():
    assert [name for name in UNLIMITED if hasattr(make(name), "time_limit")] == []
