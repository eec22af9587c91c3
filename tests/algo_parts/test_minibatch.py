"""Shuffling: every sample once per epoch, in an order that is uniform."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algo_parts.minibatch import check_minibatches, pack, permutation, rollout_minibatches, shuffled_minibatches
from purerl.algos.pqn import PQNConfig
from purerl.errors import InputError
from purerl.xla import backend


@pytest.mark.parametrize("size", [1, 2, 3, 64, 100, 4096])
def test_is_a_permutation(key, size):
    order = permutation(key, size)
    assert order.dtype == jnp.int32
    np.testing.assert_array_equal(np.sort(order), np.arange(size))


def test_all_orders_of_four_are_equally_frequent(key):
    """Chi-square over 23 degrees of freedom; 49.7 is exceeded once in a thousand."""
    orders = np.asarray(jax.vmap(lambda k: permutation(k, 4))(jax.random.split(key, 24_000)))
    counts = [(orders == order).all(1).sum() for order in itertools.permutations(range(4))]
    assert ((np.array(counts) - 1000) ** 2 / 1000).sum() < 49.7


def test_each_place_is_uniform(key):
    """Where item 0 and item 99 of 100 go: chi-square over 99 degrees of freedom, 149 at one in a thousand."""
    orders = np.asarray(jax.vmap(lambda k: permutation(k, 100))(jax.random.split(key, 10_000)))
    for item in (0, 99):
        counts = np.bincount(np.argmax(orders == item, axis=1), minlength=100)
        assert ((counts - 100) ** 2 / 100).sum() < 149


def test_every_sample_once_per_epoch(key):
    batch = {"index": jnp.arange(24), "square": jnp.arange(24) ** 2}

    def step(loop_carry, minibatch):
        count, orders = loop_carry
        assert minibatch["index"].shape == (6,)
        fits = jnp.all(minibatch["square"] == minibatch["index"] ** 2)
        orders = jax.lax.dynamic_update_slice(orders, minibatch["index"], (count * 6,))
        return (count + 1, orders), {"fits": fits.astype(jnp.float32), "count": count.astype(jnp.float32)}

    loop_carry = (jnp.int32(0), jnp.zeros(72, jnp.int32))
    (count, orders), metrics = shuffled_minibatches(step, loop_carry, batch, key, num_epochs=3, num_minibatches=4)
    assert count == 12
    epochs = np.asarray(orders).reshape(3, 24)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(24), (3, 1)))
    assert not (epochs[0] == epochs[1]).all() and not (epochs[0] == np.arange(24)).all()
    assert metrics["fits"] == 1.0 and metrics["count"] == 5.5  # means over the steps


@pytest.mark.parametrize("sequences", [False, True])
def test_a_rollout_is_cut_into_samples_or_whole_sequences(key, sequences):
    """4 steps of 6 environments in two minibatches: step and environment of what each saw."""
    config = PQNConfig(num_envs=6, rollout_length=4, num_epochs=1, num_minibatches=2)
    time, env = jnp.meshgrid(jnp.arange(4), jnp.arange(6), indexing="ij")
    carry = jnp.arange(6) if sequences else ()

    def step(loop_carry, batch, carry):
        number, seen = loop_carry
        if sequences:
            assert batch["time"].shape == (4, 3)
            fits = jnp.all(batch["env"] == carry) & jnp.all(batch["time"] == jnp.arange(4)[:, None])
        else:
            assert batch["time"].shape == (12,)
            fits = jnp.array(True)
        seen = seen.at[batch["time"], batch["env"]].add(1 + 10 * number)
        return (number + 1, seen), {"fits": fits.astype(jnp.float32)}

    loop_carry = (jnp.int32(0), jnp.zeros((4, 6), jnp.int32))
    batch = {"time": time.astype(jnp.int32), "env": env.astype(jnp.int32)}
    (_, seen), metrics = rollout_minibatches(step, loop_carry, batch, carry, key, config, sequences)
    assert sorted(np.asarray(seen).ravel()) == [1] * 12 + [11] * 12 and metrics["fits"] == 1.0
    assert (np.asarray(seen) == np.asarray(seen)[0]).all() == sequences


def test_minibatches_that_do_not_divide_are_refused():
    config = PQNConfig(num_envs=6, rollout_length=4, num_minibatches=8)
    check_minibatches(config, False, "pqn")
    with pytest.raises(InputError, match="pqn: num_minibatches 8 does not divide num_envs = 6"):
        check_minibatches(config, True, "pqn")


def test_a_packed_tree_comes_back():
    tree = {"w": jnp.arange(6.0).reshape(2, 3), "n": jnp.int32(-7), "b": (jnp.ones(2), jnp.array(True))}
    with backend.traced_for("gpu"):
        packed, unpack = pack(tree)
        assert packed[0].shape == (9,)
        back = unpack(packed)
    assert jax.tree.structure(back) == jax.tree.structure(tree)
    for x, y in zip(jax.tree.leaves(back), jax.tree.leaves(tree), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)
    nothing = {"n": jnp.array(True)}
    with backend.traced_for("gpu"):
        assert pack(nothing)[1](pack(nothing)[0]) == nothing
    with backend.traced_for("cpu"):
        assert pack(tree)[0] is tree
