"""Recurrences through a matrix: values equal a NumPy loop's, gradients equal JAX's own for a plain loop."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.xla.recurrence import recur

T, B, N = 7, 3, 4


def step(x, products, h):
    return jnp.tanh(x + products[0]) + 0.5 * h


def ours(kernel, bias, inputs, first, done):
    return recur(step, [(kernel, bias)], inputs, first, done)


@pytest.fixture
def given(key):
    """Return (kernel, bias, inputs, first) and done."""
    keys = jax.random.split(key, 4)
    arrays = [jax.random.normal(k, shape) for k, shape in zip(keys, ((N, N), (N,), (T, B, N), (B, N)), strict=True)]
    return arrays, jnp.zeros((T, B), bool).at[2, 0].set(True).at[5].set(True)


def plain(kernel, bias, inputs, first, done):
    def advance(h, at):
        after = step(at[0], [h @ kernel + bias], h)
        return jnp.where(at[1][:, None], 0.0, after), after

    return jax.lax.scan(advance, first, (inputs, done))[1]


def test_values_by_hand(given):
    (kernel, bias, inputs, first), done = given
    found = ours(kernel, bias, inputs, first, done)
    h = np.asarray(first)
    for t in range(T):
        h = np.tanh(np.asarray(inputs[t]) + h @ np.asarray(kernel) + np.asarray(bias)) + 0.5 * h
        np.testing.assert_allclose(found[t], h, rtol=1e-5, atol=1e-5)
        h = np.where(np.asarray(done[t])[:, None], 0.0, h)


@pytest.mark.long_for("2")
@pytest.mark.parametrize("seeds", [0, 2])
def test_gradients(given, seeds):
    arrays, done = given
    weights = jax.random.normal(jax.random.key(9), (T, B, N))
    slopes = []
    for function in (ours, plain):
        gradient = jax.grad(lambda *args, f=function: jnp.sum(f(*args, done) * weights), argnums=(0, 1, 2, 3))
        if seeds:
            slopes.append(jax.vmap(gradient)(*(jnp.stack([x * (i + 1) for i in range(seeds)]) for x in arrays)))
        else:
            slopes.append(gradient(*arrays))
    for found, expected in zip(*slopes, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def dots_inside_loops(jaxpr, inside=False):
    """Return how many products the bodies of loops hold."""
    count = 0
    for equation in jaxpr.eqns:
        count += inside and equation.primitive.name == "dot_general"
        looped = inside or equation.primitive.name in ("scan", "while")
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            count += dots_inside_loops(inner, looped)
    return count


@pytest.mark.long
def test_a_step_has_one_product_each_way(given):
    """The gradient of the kernel is not a part of the loop."""
    arrays, done = given
    counts = [
        dots_inside_loops(
            jax.make_jaxpr(jax.grad(lambda k, f=f: jnp.sum(f(k, *arrays[1:], done) ** 2)))(arrays[0]).jaxpr
        )
        for f in (ours, plain)
    ]
    assert counts == [2, 3]
