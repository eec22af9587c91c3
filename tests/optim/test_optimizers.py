"""Optimizers against their equations in NumPy."""

import functools

import jax
import numpy as np
import optax
import pytest

from purerl.algos.ppo import PPOConfig
from purerl.errors import InputError
from purerl.optim.optimizers import (
    GradientPlan,
    adam_by_plan,
    apply_gradients,
    array_by_array,
    clipped,
    optimizer_of,
    radam_by_plan,
    rmsprop_by_plan,
)
from purerl.xla import backend

GRADIENT = {"w": np.array([[3.0, 0.0], [0.0, -4.0]], np.float32), "b": np.array([12.0], np.float32)}  # norm 13
PARAMS = jax.tree.map(np.zeros_like, GRADIENT)
PLAN = GradientPlan(learning_rate=0.1, max_grad_norm=6.5, num_steps=100, steps_per_update=1)


def step(optimizer, times=1):
    """Return the parameters after gradient steps from zero, each with GRADIENT."""
    state, params = optimizer.init(PARAMS), PARAMS
    for _ in range(times):
        with jax.numpy_dtype_promotion("standard"):
            updates, state = jax.jit(optimizer.update)(GRADIENT, state, params)
            params = optax.apply_updates(params, updates)
    return params


def close(found, function):
    for name, gradient in GRADIENT.items():
        np.testing.assert_allclose(found[name], function(gradient.astype(np.float64)), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("norm", "scale"), [(6.5, 0.5), (26.0, 1.0), (None, 1.0)])
def test_the_norm_is_that_of_all_arrays_together(norm, scale):
    close(step(clipped(optax.sgd(1.0), norm)), lambda g: -scale * g)


def test_first_steps_by_their_equations():
    close(step(adam_by_plan(PLAN)), lambda g: -0.1 * 0.5 * g / (np.abs(0.5 * g) + 1e-5))
    close(step(rmsprop_by_plan(PLAN)), lambda g: -0.1 * 0.5 * g / np.sqrt(0.01 * (0.5 * g) ** 2 + 1e-5))


def test_radam_begins_with_momentum_alone():
    """Until the variance of its second moment is known, rectified Adam takes steps of the bias-corrected mean."""
    close(step(radam_by_plan(PLAN._replace(max_grad_norm=None)), times=2), lambda g: -0.1 * 2 * g)


def test_adam_sees_clipped_gradients():
    """A gradient of norm 13, clipped to 6.5, then a small one: both moments are those of the clipped ones."""
    optimizer = adam_by_plan(PLAN)
    state, params = optimizer.init(PARAMS), PARAMS
    small = jax.tree.map(lambda g: np.sign(g) * np.float32(0.5), GRADIENT)
    for gradient in (GRADIENT, small):
        with jax.numpy_dtype_promotion("standard"):
            updates, state = jax.jit(optimizer.update)(gradient, state, params)
            params = optax.apply_updates(params, updates)
    for name, large in GRADIENT.items():
        gradients, expected, first, second = (0.5 * large, 0.5 * np.sign(large)), 0.0, 0.0, 0.0
        for t, g in enumerate(gradients, 1):
            first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
            expected = expected - 0.1 * first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-5)
        np.testing.assert_allclose(params[name], expected, rtol=1e-4, atol=1e-7)


CONFIG = PPOConfig(learning_rate=0.1, learning_rate_schedule="constant", max_grad_norm=6.5)


def test_optaxs_own_stand_behind_the_clip_with_the_configs_rate():
    """Lion's step is the sign of the gradient times the rate; SGD shows the clip: a norm of 13 becomes 6.5."""
    close(step(optimizer_of(CONFIG, 1, optax.lion)(np.int32(0))), lambda g: -0.1 * np.sign(g))
    close(step(optimizer_of(CONFIG, 1, optax.sgd)(np.int32(0))), lambda g: -0.1 * 0.5 * g)
    close(step(optimizer_of(CONFIG, 1, lambda lr: optax.sgd(lr))(np.int32(0))), lambda g: -0.1 * 0.5 * g)
    decayed = functools.partial(optax.adamw, weight_decay=0.5, eps=1e-5)
    close(step(optimizer_of(CONFIG, 1, decayed)(np.int32(0))), lambda g: -0.1 * 0.5 * g / (np.abs(0.5 * g) + 1e-5))


def test_optimizers_that_need_shapes_see_them():
    """Muon distinguishes matrices from vectors, which it could not on one flat vector."""
    seen = []

    def looking(learning_rate):
        shapes = lambda params: seen.append({name: x.shape for name, x in params.items()}) or optax.EmptyState()
        return optax.chain(optax.GradientTransformation(shapes, lambda g, s, p: (g, s)), optax.sgd(learning_rate))

    step(optimizer_of(CONFIG, 1, looking)(np.int32(0)))
    assert seen == [{"w": (2, 2), "b": (1,)}]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (optax.lion(1e-3), "give the function that makes it"),
        ("lion", "optimizer is 'lion'; it must be a function such as optax.lion"),
        (None, "optimizer is None"),
        (lambda plan: 3, "optimizer returned an int"),
    ],
)
def test_what_is_no_optimizer_is_refused_in_a_line(wrong, words):
    with pytest.raises(InputError, match=words):
        optimizer_of(CONFIG, 1, wrong)(np.int32(0))


@pytest.mark.long
def test_of_many_members_a_loop_steps_array_by_array():
    """The same parameters and the same state as on one vector, in whose form it is given back."""
    optimizer = adam_by_plan(PLAN)
    state = optimizer.init(PARAMS)

    def two_steps(optimizer, state, params):
        for gradient in (GRADIENT, jax.tree.map(np.sqrt, jax.tree.map(np.abs, GRADIENT))):
            state, params = apply_gradients(optimizer, gradient, state, params)[::-1]
        return params, state

    with backend.traced_for("gpu"), backend.side_by_side(1 << 20):
        loop, apart, restored = array_by_array(optimizer, state, PARAMS)
        assert jax.tree.structure(apart) == jax.tree.structure(loop.init(PARAMS)) != jax.tree.structure(state)
        params, found = two_steps(loop, apart, PARAMS)
        found = restored(found)
    assert array_by_array(optimizer, state, PARAMS)[0] is optimizer, "of one member the vector stays"
    wanted_params, wanted = two_steps(optimizer, state, PARAMS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), (params, found), (wanted_params, wanted))
