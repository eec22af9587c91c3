"""Operations counted from a trace, against sums done by hand."""

import jax
import jax.numpy as jnp
import pytest

from purerl.devices.memory import nbytes
from purerl.profiling.flops import each_product, operations, products

F32 = jnp.float32


def shape(*sizes, dtype=F32):
    return jax.ShapeDtypeStruct(sizes, dtype)


def test_products_count_exactly():
    assert operations(lambda a, b: a @ b, shape(3, 5), shape(5, 7)) == 2 * 3 * 5 * 7
    batched = jax.vmap(lambda a, b: a @ b)
    assert operations(batched, shape(4, 3, 5), shape(4, 5, 7)) == 4 * 2 * 3 * 5 * 7


def test_products_alone_and_nothing_that_is_not_used():
    both = lambda a, b: (jnp.tanh(a @ b), b @ a)[0]
    assert products(both, shape(3, 5), shape(5, 3)) == 2 * 3 * 5 * 3
    assert operations(both, shape(3, 5), shape(5, 3)) == 2 * 3 * 5 * 3 + 9


def test_each_product_with_the_number_of_times_that_it_is_computed():
    def run(x):
        x = jax.lax.scan(lambda x, _: (jax.lax.scan(lambda x, _: (x @ x, None), x, None, 3)[0], None), x, None, 5)[0]
        return jax.lax.cond(x[0, 0] > 0, lambda x: x @ x @ x, lambda x: x @ x[:, :1] * x, x)

    found = [(equation.outvars[0].aval.shape, times) for equation, times in each_product(run, shape(4, 4))]
    assert found == [((4, 4), 15.0), ((4, 4), 1.0), ((4, 4), 1.0)]


def test_convolutions_count_exactly():
    def convolve(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    # 8 x 8 places, 3 x 3 x 4 products and sums for each of 16 channels
    assert operations(convolve, shape(1, 10, 10, 4), shape(3, 3, 4, 16)) == 2 * 8 * 8 * 3 * 3 * 4 * 16


def test_loops_count_their_turns_and_branches_their_dearest_side():
    def loop(x):
        return jax.lax.scan(lambda carry, _: (carry * 2.0 + 1.0, None), x, None, length=11)[0]

    assert operations(loop, shape(6)) == 11 * 2 * 6
    branch = lambda x: jax.lax.cond(True, lambda x: jnp.sin(jnp.sin(x)), lambda x: x, x)
    assert operations(branch, shape(6)) == 12


def test_elementwise_reductions_and_moves():
    assert operations(lambda x: jnp.sum(x), shape(6, 2)) == 12
    assert operations(lambda x: x.reshape(3, 4).T, shape(12)) == 0
    assert operations(jax.jit(lambda x: x + x), shape(5)) == 5


def test_a_gradient_of_a_product_costs_two_more():
    loss = lambda w, x: jnp.sum(x @ w)
    forward = 2 * 8 * 16 * 4
    assert forward < operations(jax.grad(loss, (0, 1)), shape(16, 4), shape(8, 16)) <= 3 * forward + 64


@pytest.mark.long
def test_bytes():
    tree = {"a": shape(3, 4), "b": (shape(2, dtype=jnp.uint8), shape())}
    assert nbytes(tree) == 48 + 2 + 4
    assert nbytes(jax.random.split(jax.random.key(0), 5)) == 40
