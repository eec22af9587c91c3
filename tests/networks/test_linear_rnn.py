"""Linear recurrent layers: a sequence at once equals step by step, and each layer equals its equation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.networks.linear_rnn import LINEAR_RNNS, LRU, MinGRU

T, B, N = 11, 3, 4


@pytest.fixture(params=LINEAR_RNNS)
def layer(request, key):
    """Return (the layer, its parameters, inputs [T, B, 5], done [T, B])."""
    cell = LINEAR_RNNS[request.param](N)
    x = jax.random.normal(key, (T, B, 5))
    params = cell.init(key, cell.initialize_carry(key, (B, 5)), x[0])
    return cell, params, x, jax.random.uniform(jax.random.key(1), (T, B)) < 0.3


@pytest.mark.long
def test_unrolled_as_step_by_step(layer):
    cell, params, x, done = layer
    first = jax.random.normal(jax.random.key(2), cell.initialize_carry(jax.random.key(0), (B, 5)).shape)
    after, outputs = cell.apply(params, first, x, done, method=cell.unroll)
    carry = first
    for t in range(T):
        carry, output = cell.apply(params, carry, x[t])
        np.testing.assert_allclose(outputs[t], output, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(after[t], carry, rtol=1e-4, atol=1e-5)
        carry = jnp.where(done[t][:, None], 0.0, carry)
    assert outputs.shape == (T, B, N) and outputs.dtype == after.dtype == jnp.float32


@pytest.mark.long_for("lru", "mingru")
def test_nothing_is_seen_across_an_ending(layer):
    """What happened before an ending changes neither outputs nor gradients after it."""
    cell, params, x, _ = layer
    done = jnp.zeros((T, B), bool).at[4].set(True)
    first = cell.initialize_carry(jax.random.key(0), (B, 5))
    late = lambda x: jnp.sum(cell.apply(params, first, x, done, method=cell.unroll)[1][5:] ** 2)
    slope = jax.grad(late)(x)
    assert not np.any(slope[:5]) and np.all(np.any(np.asarray(slope[5:]) != 0, axis=(1, 2)))


@pytest.mark.long
def test_gradients_of_long_sequences_are_finite(layer):
    cell, params, _, _ = layer
    x, done = jnp.ones((500, 1, 5)), jnp.zeros((500, 1), bool)
    first = cell.initialize_carry(jax.random.key(0), (1, 5))
    loss = lambda params: jnp.mean(cell.apply(params, first, x, done, method=cell.unroll)[1] ** 2)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.grad(loss)(params)))


def dense(params, name, x):
    return x @ np.asarray(params[name]["kernel"]) + np.asarray(params[name].get("bias", 0.0))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def block(params, gates, x, carry, product):
    """Return (state, output) of a step, by NumPy."""
    u = dense(params, "enter", x)
    a, b = gates((u - u.mean()) / np.sqrt(u.var() + 1e-6))
    state = product(a, carry) + b
    y = np.asarray(jax.nn.gelu(jnp.asarray(dense(params, "mix", state), jnp.float32)))
    return state, u + y * sigmoid(dense(params, "open", y))


def compare(cell, params, x, carry, expected):
    found = cell.apply({"params": params}, jnp.asarray(carry, jnp.float32), jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-3, atol=1e-5)


@pytest.mark.long
def test_mingru_by_hand(key):
    cell, x, carry = MinGRU(N), np.linspace(-1, 1, 5), np.linspace(0, 1, N)
    params = cell.init(key, jnp.zeros(N), jnp.zeros(5))["params"]

    def gates(x):
        z = sigmoid(dense(params, "gate", x))
        return 1 - z, z * dense(params, "candidate", x)

    compare(cell, params, x, carry, block(params, gates, x, carry, np.multiply))


@pytest.mark.long
def test_lru_by_hand(key):
    cell, x, carry = LRU(N), np.linspace(-1, 1, 5), np.linspace(-1, 1, 2 * N)
    params = cell.init(key, jnp.zeros(2 * N), jnp.zeros(5))["params"]
    eigenvalue = np.exp(-np.exp(np.asarray(params["nu"])) + 1j * np.exp(np.asarray(params["theta"])))
    assert np.all(np.abs(eigenvalue) < 0.999)
    whole = lambda halves: halves[:N] + 1j * halves[N:]
    halves = lambda whole: np.concatenate([whole.real, whole.imag])

    def gates(x):
        return halves(eigenvalue), halves(np.sqrt(1 - np.abs(eigenvalue) ** 2) * whole(dense(params, "write", x)))

    product = lambda a, b: halves(whole(a) * whole(b))
    compare(cell, params, x, carry, block(params, gates, x, carry, product))
