"""Q targets against plain loops."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerl.functional.q_targets import at_action, at_last, huber, rescale, unscale, windows, with_successors
from tests.helpers.slow_targets import h, h_inverse, slow_targets


def test_huber_is_quadratic_then_linear():
    error = np.linspace(-3, 3, 13)
    expected = [0.5 * e * e if abs(e) <= 0.5 else 0.5 * (abs(e) - 0.25) for e in error]
    assert np.allclose(huber(jnp.asarray(error, jnp.float32), 0.5), expected)
    assert np.allclose(huber(jnp.asarray(error, jnp.float32), None), 0.5 * error**2)


def test_values_at_actions():
    values = np.random.default_rng(0).normal(size=(5, 3, 2)).astype(np.float32)
    action = np.array([0, 2, 1, 1, 0])
    assert np.array_equal(at_action(jnp.asarray(values), jnp.asarray(action)), values[np.arange(5), action])
    action = np.array([[0, 1, 1]] * 5)  # two actions, after [5, 3] leading axes
    expected = np.take_along_axis(values, action[..., None], -1)[..., 0]
    assert np.array_equal(at_action(jnp.asarray(values), jnp.asarray(action)), expected)


def test_wrong_shapes_are_refused():
    with pytest.raises(AssertionError):
        at_action(jnp.zeros((5, 3)), jnp.zeros(4, jnp.int32))
    flags = jnp.zeros((4, 2), bool)
    with pytest.raises(AssertionError):
        windows(jnp.zeros((4, 1)), flags, flags, 0.9, 2)


@pytest.mark.long
def test_rescaling_and_its_inverse():
    x = np.concatenate([np.linspace(-5, 5, 101), [-3000.0, 1e-4, 250.0, 1e5]])
    assert np.allclose(rescale(jnp.asarray(x, jnp.float32)), h(x), rtol=1e-5, atol=1e-6)
    assert np.allclose(unscale(jnp.asarray(h(x), jnp.float32)), x, rtol=1e-4, atol=1e-4)
    assert np.allclose(h_inverse(h(x)), x, rtol=1e-6)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=6, max_size=6))
def test_n_step_targets_equal_a_loop(seed, ends):
    rng = np.random.default_rng(seed)
    reward, values = rng.normal(size=(2, 6)).astype(np.float32)
    terminated, truncated = np.array(ends) == 1, np.array(ends) == 2
    column = lambda x: jnp.asarray(x)[:, None]
    window = windows(column(reward), column(terminated), column(terminated | truncated), 0.9, 3)
    value = unscale(at_last(column(values), window.last))
    y = np.asarray(rescale(window.reward + window.discount * value))[:, 0]
    expected, last = slow_targets(reward, terminated, truncated, values, 0.9, 3)
    assert window.last[:, 0].tolist() == last.tolist()
    assert np.allclose(y, expected, atol=1e-4)


def test_true_successors_stand_where_they_follow():
    along = jnp.arange(8.0).reshape(4, 2)
    successor = jnp.array([[10.0, 11.0], [20.0, 21.0]])
    follows = jnp.array([[1, 4], [3, 3]])  # 4: follows no step
    found = with_successors(along, successor, follows)
    np.testing.assert_array_equal(found, [[2, 3], [10, 5], [6, 7], [20, 21]])
