"""Uniform replay: which transitions are sampled, and how often."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from purerl.errors import InputError
from purerl.prng import fast
from purerl.replay import storage, transitions, uniform
from tests.helpers.steps import CAPACITY, DISCOUNT, LENGTH, NUM_ENVS, SPEC, Slow, make_rollout

add = jax.jit(storage.add, donate_argnums=0)
gather = jax.jit(transitions.gather, static_argnames=("n_step", "between"))
draw = jax.jit(uniform.draw, static_argnames="batch_size")


def test_draws_are_uniform_over_transitions():
    """Truncations leave rows where nothing starts; the others must be drawn equally often (chi-square)."""
    rng = np.random.default_rng(0)
    slow = Slow(NUM_ENVS, storage.num_rows(CAPACITY, NUM_ENVS))
    state = storage.create(SPEC, CAPACITY, NUM_ENVS)
    for i in range(9):
        rollout = make_rollout(rng.choice([0, 0, 1, 2], size=(LENGTH, NUM_ENVS)), i * LENGTH * NUM_ENVS)
        slow.add(rollout)
        state = add(state, rollout)
    places = draw(state, fast(jax.random.key(1)), batch_size=50_000)
    starts = np.asarray(state.flag).ravel() != storage.NO_START
    assert starts.sum() == len(slow.transitions(1)) < starts.size - NUM_ENVS
    counts = np.bincount(np.asarray(places), minlength=starts.size)
    void = counts[~starts].sum() / counts.sum()
    assert void < 1.5 * np.mean(~starts) ** uniform.TRIES
    assert chisquare(counts[starts]).pvalue > 1e-3


def test_draws_from_a_part_that_is_filled():
    state = add(storage.create(SPEC, 10_000, NUM_ENVS), make_rollout(np.zeros((LENGTH, NUM_ENVS), int), 0))
    places = draw(state, fast(jax.random.key(1)), batch_size=512)
    batch = gather(state, places, 1.0, DISCOUNT)
    found = np.unique(np.asarray(places)[np.asarray(batch.weight) > 0])
    assert sorted(found) == [0, 1, 2, 3, 4, 5]
    assert np.mean(np.asarray(batch.weight)) > 0.95


def test_scaled_words_are_floor_of_the_exact_product():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, 1000, dtype=np.uint64)
    for n in (1, 7, 2**16, 1_000_003, 2**32 - 1):
        exact = (words * np.uint64(n)) >> np.uint64(32)
        ours = uniform.scaled(jnp.asarray(words.astype(np.uint32)), jnp.uint32(n))
        assert np.array_equal(np.asarray(ours), exact.astype(np.uint32))


def test_sampling_costs_the_same_at_any_capacity():
    """The compiled program's arithmetic does not depend on the capacity."""

    def flops(capacity):
        state = jax.eval_shape(partial(storage.create, SPEC, capacity, NUM_ENVS))
        sample = uniform.uniform(SPEC, capacity, NUM_ENVS, batch_size=64).sample
        cost = jax.jit(sample).lower(state, fast(jax.random.key(0))).compile().cost_analysis()
        return cost["flops"]

    assert flops(1_000_000) == flops(1_000)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            {"capacity": 100, "num_envs": 2, "batch_size": 128},
            "batch_size 128 is larger than .* capacity 100",
        ),
        ({"capacity": 100, "num_envs": 10, "batch_size": 8, "n_step": 11}, "n_step 11 is larger than"),
        ({"capacity": 10**13, "num_envs": 10, "batch_size": 8}, "MB; there are"),
    ],
)
def test_refuses_sizes_that_cannot_be(sizes, message):
    with pytest.raises(InputError, match=message):
        uniform.uniform(SPEC, **sizes)


@pytest.mark.long
def test_earlier_names():
    """What the module held before it became several is still found in it."""
    assert uniform.Between is transitions.Between and uniform.Transitions is transitions.Transitions
    for name in ("Storage", "add", "create", "nbytes", "num_rows", "write", "GOING", "TERMINATED", "NO_START"):
        assert getattr(uniform, name) is getattr(storage, name)
    with pytest.raises(AttributeError, match="no attribute nothing"):
        uniform.nothing  # noqa: B018
