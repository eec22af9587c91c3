"""Convolutions against XLA's own, and inside a loop."""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.xla import backend
from purerl.xla.convolution import convolve

CASES = {  # image, kernel, stride, padding
    "nature 1": ((20, 20, 2), 8, 4, "VALID"),
    "nature 2": ((9, 8, 3), 4, 2, "VALID"),
    "odd": ((11, 9, 2), 3, 2, "SAME"),
    "minatar": ((10, 10, 4), 3, 1, "VALID"),
    "explicit": ((7, 7, 1), 3, 1, ((1, 2), (0, 1))),
}


@pytest.mark.long
@pytest.mark.parametrize("num", [2, 35])  # in one part, and in parts of which the last is smaller
@pytest.mark.parametrize("case", CASES)
def test_value_and_gradient(case, num):
    shape, size, stride, padding = CASES[case]
    keys = jax.random.split(jax.random.key(0), 3)
    x, kernel = jax.random.normal(keys[0], (num, *shape)), jax.random.normal(keys[1], (size, size, shape[-1], 5))
    arguments = x, kernel, jax.random.normal(keys[2], (5,))
    numbers = ("NHWC", "HWIO", "NHWC")

    def theirs(x, kernel, bias):
        return jax.lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=numbers) + bias

    ours = lambda *arguments: convolve(*arguments, (stride, stride), padding)

    @partial(jax.jit, static_argnums=0)
    def found(function, *arguments):
        """Return the value, the gradient with respect to all arguments, and that to the kernel alone."""
        loss = lambda *arguments: jnp.sum(jnp.sin(function(*arguments)))
        return function(*arguments), jax.grad(loss, (0, 1, 2))(*arguments), jax.grad(loss, 1)(*arguments)

    (value, gradient, alone), (right, slope, _) = found(ours, *arguments), found(theirs, *arguments)
    np.testing.assert_allclose(value, right, rtol=1e-4, atol=1e-4)
    for one, other in zip(gradient, slope, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(alone, gradient[1], rtol=1e-5, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("case", ["nature 2", "minatar"])
def test_forward_mode_and_kernels_side_by_side(case):
    shape, size, stride, padding = CASES[case]
    keys = jax.random.split(jax.random.key(1), 3)
    x, by = jax.random.normal(keys[0], (2, *shape)), jax.random.normal(keys[1], (2, *shape))
    kernels = jax.random.normal(keys[2], (3, size, size, shape[-1], 5))
    ours = lambda x, kernel: convolve(x, kernel, jnp.zeros(5), (stride, stride), padding)
    slope = jax.grad(lambda kernel: jnp.sum(ours(x, kernel) ** 2))

    @jax.jit
    def found(x, by, kernels):
        value, tangent = jax.jvp(lambda x: ours(x, kernels[0]), (x,), (by,))
        second = jax.jvp(slope, (kernels[0],), (kernels[1],))[1]
        return value, tangent, ours(by, kernels[0]), jax.vmap(ours, (None, 0))(x, kernels), second, slope(kernels[1])

    value, tangent, linear, many, second, quadratic = found(x, by, kernels)
    np.testing.assert_allclose(tangent, linear, rtol=1e-4, atol=1e-4)  # it is linear
    np.testing.assert_allclose(many[0], value, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(second, quadratic, rtol=1e-3, atol=1e-2)  # it is quadratic


@pytest.mark.long
def test_the_gradient_of_a_bias_is_no_sum():
    """As a sum it is fused with all before it, and a network of images trains at two thirds of the speed."""
    x, kernel = jnp.ones((8, 20, 20, 4)), jnp.ones((4, 4, 4, 8))
    loss = lambda kernel, bias: jnp.sum(jax.nn.relu(convolve(x, kernel, bias, (2, 2), "VALID")))
    program = backend.jit(jax.grad(loss, (0, 1))).lower(kernel, jnp.zeros(8)).compile().as_text()
    assert " dot(" in program and "f32[8]{0} reduce(" not in program


@pytest.mark.long
def test_a_gradient_in_a_loop_is_not_much_slower_than_outside():
    """XLA's own is about fifty times slower there; the bound leaves room for a busy machine."""
    x, kernel = jnp.ones((32, 40, 40, 4)), jnp.ones((8, 8, 4, 32))
    gradient = jax.grad(lambda kernel: jnp.sum(convolve(x, kernel, jnp.zeros(32), (4, 4), "VALID") ** 2))
    outside = jax.jit(gradient)
    inside = jax.jit(lambda kernel: jax.lax.fori_loop(0, 1, lambda _, k: k - 1e-9 * gradient(k), kernel))

    def seconds(function):
        jax.block_until_ready(function(kernel))
        taken = []
        for _ in range(5):
            began = time.perf_counter()
            jax.block_until_ready(function(kernel))
            taken.append(time.perf_counter() - began)
        return min(taken)

    assert seconds(inside) < 8 * seconds(outside)
