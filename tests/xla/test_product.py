"""Products with few outputs: they and their gradients equal NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.networks.torsos import apply, dense, init
from purerl.xla import backend, product


@pytest.mark.parametrize("outputs", [1, 3, product.FEW, product.FEW + 1])
@pytest.mark.parametrize("lead", [(), (5,), (4, 5)])
def test_gradients_by_hand(key, outputs, lead):
    keys = jax.random.split(key, 3)
    x, w = jax.random.normal(keys[0], (*lead, 7)), jax.random.normal(keys[1], (7, outputs))
    pull = jax.random.normal(keys[2], (*lead, outputs))
    y, back = jax.vjp(product.multiply, x, w)
    of_x, of_w = back(pull)
    rows, columns = np.asarray(x).reshape(-1, 7), np.asarray(pull).reshape(-1, outputs)
    np.testing.assert_allclose(y, np.asarray(x) @ np.asarray(w), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(of_x, np.asarray(pull) @ np.asarray(w).T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(of_w, rows.T @ columns, rtol=1e-5, atol=1e-5)


def test_layers_of_few_outputs_use_it_on_a_cpu_alone():
    """A product of a vector and a matrix per output, instead of one that contracts the samples of both."""

    def products(features: int, kind: str) -> int:
        layer = dense(features, 1.0)
        with backend.traced_for(kind):
            params = init(layer, jax.random.key(0), jnp.zeros(8))
            loss = lambda params: jnp.sum(apply(layer, params, jnp.ones((32, 8))) ** 2)
            return str(jax.make_jaxpr(jax.grad(loss))(params)).count("dot_general[")

    assert products(3, "gpu") == products(64, "cpu") == 2
    assert products(3, "cpu") >= 1 + 3


@pytest.mark.long
def test_under_vmap_and_twice(key):
    """Seeds in parallel, and the gradient of a gradient."""
    x, w = jax.random.normal(key, (4, 6, 5)), jax.random.normal(key, (4, 5, 2))
    loss = lambda multiply: lambda w, x: jnp.sum(jnp.tanh(multiply(x, w)) ** 2)
    twice = lambda multiply: jax.grad(lambda w, x: jnp.sum(jax.grad(loss(multiply))(w, x) ** 2))
    found = jax.jit(jax.vmap(twice(product.multiply)))(w, x)
    np.testing.assert_allclose(found, jax.vmap(twice(jnp.matmul))(w, x), rtol=1e-4, atol=1e-5)
