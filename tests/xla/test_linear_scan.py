"""A linear recurrence with resets is the same as a loop of NumPy, however it is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.networks.linear_rnn import complex_product
from purerl.xla import switches
from purerl.xla.linear_scan import linear_scan

T, B, N = 11, 3, 4
RNG = np.random.default_rng(0)
A, X, BEGIN = RNG.uniform(size=(T, B, N)), RNG.normal(size=(T, B, N)), RNG.normal(size=(B, N))
DONE = RNG.uniform(size=(T, B)) < 0.3


def by_hand(product):
    h, found = BEGIN, []
    for t in range(T):
        h = product(A[t], h) + X[t]
        found.append(h)
        h = np.where(DONE[t][:, None], 0.0, h)
    return np.array(found)


def complex_by_numpy(a, b):
    whole = (a[..., : N // 2] + 1j * a[..., N // 2 :]) * (b[..., : N // 2] + 1j * b[..., N // 2 :])
    return np.concatenate([whole.real, whole.imag], axis=-1)


@pytest.mark.long_for("complex-False", "complex-True")
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    ("product", "numpys"), [(jnp.multiply, np.multiply), (complex_product, complex_by_numpy)], ids=["real", "complex"]
)
def test_it_is_a_loop(parallel, product, numpys):
    given = [jnp.asarray(x, jnp.float32) for x in (A, X, BEGIN)]
    with switches.off(*(["linear_scan"] if parallel else [])):
        traced = jax.make_jaxpr(lambda *x: linear_scan(*x, jnp.asarray(DONE), product))(*given)
        found = jax.jit(lambda *x: linear_scan(*x, jnp.asarray(DONE), product))(*given)
    assert ("scan[" in str(traced)) != parallel
    np.testing.assert_allclose(found, by_hand(numpys), rtol=1e-4, atol=1e-5)
