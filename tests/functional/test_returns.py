"""Returns and advantages against plain loops, and against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.functional.returns import gae, lambda_returns

T, B = 37, 3


@pytest.fixture(scope="module")
def rollout():
    rng = np.random.default_rng(0)
    terminated = rng.random((T, B)) < 0.1
    truncated = (rng.random((T, B)) < 0.1) & ~terminated
    reward, value, next_value = rng.normal(size=(3, T, B)).astype(np.float32)
    return reward, value, next_value, terminated, terminated | truncated


def test_gae_by_hand():
    """Three steps, discount 0.5, lambda 0.5: delta_t = r + 0.5 V' - V; A_t = delta_t + 0.25 A_{t+1}."""
    column = lambda *xs: jnp.array(xs)[:, None]
    reward, value, next_value = column(1.0, 2.0, 3.0), column(0.5, 1.0, 2.0), column(1.0, 2.0, 4.0)
    no = column(False, False, False)
    # delta: 1 + 0.5 - 0.5 = 1;  2 + 1 - 1 = 2;  3 + 2 - 2 = 3
    np.testing.assert_allclose(gae(reward, value, next_value, no, no, 0.5, 0.5)[:, 0], [1.6875, 2.75, 3.0])
    # the second step ends the task: delta 2 - 1 = 1, and nothing flows back over it
    end = column(False, True, False)
    np.testing.assert_allclose(gae(reward, value, next_value, end, end, 0.5, 0.5)[:, 0], [1.25, 1.0, 3.0])
    # the second step is cut off by a time limit: delta stays 2, and nothing flows back over it
    np.testing.assert_allclose(gae(reward, value, next_value, no, end, 0.5, 0.5)[:, 0], [1.5, 2.0, 3.0])


@pytest.mark.parametrize(("discount", "trace"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0), (0.0, 0.5)])
def test_gae_by_a_loop(rollout, discount, trace):
    reward, value, next_value, terminated, done = rollout
    expected = np.zeros((T, B))
    for b in range(B):
        for t in range(T):  # the definition, forwards: sum of decayed errors up to the episode's end
            weight = 1.0
            for k in range(t, T):
                following = 0.0 if terminated[k, b] else next_value[k, b]
                expected[t, b] += weight * (reward[k, b] + discount * following - value[k, b])
                if done[k, b]:
                    break
                weight *= discount * trace
    np.testing.assert_allclose(gae(*rollout, discount, trace), expected, rtol=1e-4, atol=1e-5)


def mixed_returns(rollout, discount, trace):
    """Return the lambda return by its definition: the mixture of all n-step returns, (1 - lambda) sum lambda^(n-1) G_n.

    The last of them, at the episode's or the rollout's end, has the weight that is left.
    """
    reward, _, next_value, terminated, done = rollout
    expected = np.zeros((T, B))
    for b in range(B):
        for t in range(T):
            total, left = 0.0, 1.0
            for k in range(t, T):
                total += discount ** (k - t) * reward[k, b]
                estimate = total + discount ** (k - t + 1) * next_value[k, b] * (not terminated[k, b])
                if done[k, b] or k == T - 1:
                    expected[t, b] += left * estimate
                    break
                expected[t, b] += left * (1 - trace) * estimate
                left *= trace
    return expected


@pytest.mark.parametrize(("discount", "trace"), [(0.99, 0.65), (0.9, 1.0), (0.9, 0.0)])
def test_lambda_returns_are_the_mixture_of_n_step_returns(rollout, discount, trace):
    reward, _, next_value, terminated, done = rollout
    actual = lambda_returns(reward, next_value, jnp.asarray(terminated), jnp.asarray(done), discount, trace)
    np.testing.assert_allclose(actual, mixed_returns(rollout, discount, trace), rtol=1e-4, atol=1e-5)


def test_q_lambda_by_hand():
    """Two actions, discount 0.5, lambda 0.5, seeded by the value after the last step, max Q = 8, not the one before."""
    q_of_successors = jnp.array([[[1.0, 2.0]], [[4.0, 3.0]], [[8.0, 0.0]]])
    reward = jnp.array([[1.0], [1.0], [1.0]])
    no = jnp.zeros((3, 1), jnp.bool_)
    # G_2 = 1 + 0.5 * 8 = 5; G_1 = 1 + 0.5 (0.5 * 4 + 0.5 * 5) = 3.25;
    # G_0 = 1 + 0.5 (0.5 * 2 + 0.5 * 3.25) = 2.3125
    returns = lambda_returns(reward, q_of_successors.max(-1), no, no, 0.5, 0.5)
    np.testing.assert_allclose(returns[:, 0], [2.3125, 3.25, 5.0])


def test_gae_and_values_are_lambda_returns_where_values_agree(rollout):
    """Where V(s'_t) is V(s_{t+1}), advantage + value is the lambda return."""
    reward, value, next_value, terminated, done = rollout
    following = np.concatenate([value[1:], next_value[-1:]])
    next_value = np.where(done, next_value, following)
    flags = jnp.asarray(terminated), jnp.asarray(done)
    advantage = gae(reward, value, next_value, *flags, 0.95, 0.8)
    np.testing.assert_allclose(
        advantage + value, lambda_returns(reward, next_value, *flags, 0.95, 0.8), rtol=1e-4, atol=1e-5
    )


def test_settings_may_be_vmapped(rollout):
    traces = jnp.array([0.0, 0.5, 1.0])
    many = jax.vmap(lambda trace: gae(*rollout, 0.9, trace))(traces)
    np.testing.assert_allclose(many[1], gae(*rollout, 0.9, 0.5), rtol=1e-5, atol=1e-6)


@pytest.mark.long_for("3", "4")
@pytest.mark.parametrize("index", range(5))
def test_wrong_shapes_are_refused(rollout, index):
    """A column [T] or [T, 1] next to [T, B] would broadcast."""
    for wrong in (lambda x: x[:, 0], lambda x: x[:, :1]):
        arrays = [wrong(x) if i == index else x for i, x in enumerate(rollout)]
        with pytest.raises(AssertionError):
            gae(*arrays, 0.9, 0.5)
        if index != 1:
            with pytest.raises(AssertionError):
                lambda_returns(*arrays[:1], *arrays[2:], 0.9, 0.5)
