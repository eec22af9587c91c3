"""GRU and LSTM: flax's cells in values, gradients and parameters; a sequence at once equals step by step."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.networks.gated_rnn import GRU, LSTM

T, B, M, N = 9, 3, 5, 4
THEIRS = {GRU: nn.GRUCell, LSTM: nn.OptimizedLSTMCell}


@pytest.fixture(params=THEIRS, ids=lambda cls: cls.__name__)
def layer(request, key):
    """Return (our layer, flax's, parameters without zeros, inputs [T, B, M], done [T, B])."""
    ours, theirs = request.param(N), THEIRS[request.param](N)
    x = jax.random.normal(key, (T, B, M))
    params = theirs.init(key, theirs.initialize_carry(key, (B, M)), x[0])
    params = jax.tree.map(lambda leaf: leaf + 0.1 * jax.random.normal(jax.random.key(leaf.size), leaf.shape), params)
    return ours, theirs, params, x, jax.random.uniform(jax.random.key(1), (T, B)) < 0.3


def by_steps(cell, params, carry, x, done):
    """Return (the state after each step, outputs) of a cell that takes steps."""

    def advance(carry, at):
        after, output = cell.apply(params, carry, at[0])
        return jax.tree.map(lambda leaf: jnp.where(at[1][:, None], 0.0, leaf), after), (after, output)

    return jax.lax.scan(advance, carry, (x, done))[1]


def at_once(cell, params, carry, x, done):
    return cell.apply(params, carry, x, done, method=cell.unroll)


@pytest.mark.long_for("GRU", "LSTM")
def test_parameters_are_flaxs(layer, key):
    ours, theirs, _, x, _ = layer
    carry = theirs.initialize_carry(key, (B, M))
    made, expected = ours.init(key, carry, x[0]), theirs.init(key, carry, x[0])
    assert jax.tree.structure(made) == jax.tree.structure(expected)
    for leaf, other in zip(jax.tree.leaves(made), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(leaf, other)


@pytest.mark.long_for("GRU-at_once", "GRU-by_steps", "LSTM-at_once", "LSTM-by_steps")
@pytest.mark.parametrize("way", [by_steps, at_once])
def test_values_and_gradients_are_flaxs(layer, way):
    ours, theirs, params, x, done = layer
    start = jax.tree.map(lambda leaf: leaf + 0.3, theirs.initialize_carry(jax.random.key(0), (B, M)))

    def loss(function, cell):
        def of(params, carry, x):
            after, outputs = function(cell, params, carry, x, done)
            return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(after)) + jnp.sum(outputs**2), outputs

        return jax.value_and_grad(of, argnums=(0, 1, 2), has_aux=True)(params, start, x)

    found, expected = loss(way, ours), loss(by_steps, theirs)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for leaf, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=1e-4, atol=1e-5)


@pytest.mark.long_for("GRU")
def test_nothing_is_seen_across_an_ending(layer):
    ours, theirs, params, x, _ = layer
    done = jnp.zeros((T, B), bool).at[4].set(True)
    first = theirs.initialize_carry(jax.random.key(0), (B, M))
    slope = jax.grad(lambda x: jnp.sum(at_once(ours, params, first, x, done)[1][5:] ** 2))(x)
    assert not np.any(slope[:5]) and np.all(np.any(np.asarray(slope[5:]) != 0, axis=(1, 2)))
