"""Targets and losses of Q-learning."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from purerl.functional.action_masks import mask_illegal
from purerl.functional.returns import decayed_sum
from purerl.types import Array


def huber(error: Array, delta: Array | float | None) -> Array:
    """Return error^2 / 2 up to |error| = delta and linear beyond, elementwise; the square everywhere if delta is None.

    Source: Huber (1964), doi:10.1214/aoms/1177703732.
    """
    if delta is None:
        return 0.5 * error**2
    size = jnp.abs(error)
    return jnp.where(size <= delta, 0.5 * error**2, delta * (size - 0.5 * delta))


def at_action(values: Array, action: Array) -> Array:
    """Return the values of the actions taken, Q(s, a): f32[..., n, *rest] at i32[...] -> f32[..., *rest].

    A masked sum: its gradient is a product, where indexing's would be a scatter.
    """
    chex.assert_equal_shape_prefix([values, action], action.ndim)
    axis = action.ndim
    taken = jnp.arange(values.shape[axis]) == action[..., None]
    taken = taken.reshape(taken.shape + (1,) * (values.ndim - taken.ndim))
    return jnp.sum(jnp.where(taken, values, 0.0), axis=axis)


def at_best(values: Array, selector: Array, mask: Array | None = None) -> Array:
    """Return the values of the action that a selector prefers: the target of double Q-learning.

    Args:
      values: f32[..., n, *rest].
      selector: f32[..., n], Q values; the best legal action is chosen by them.
      mask: bool[..., n], the legal actions; None: all.

    Returns:
      f32[..., *rest].

    Source: van Hasselt et al. (2016), arXiv:1509.06461.
    """
    return at_action(values, jnp.argmax(mask_illegal(selector, mask), axis=-1))


def squared_errors(values: Array, target: Array) -> tuple[Array, Array]:
    """Return (half the sum of the squared errors of several critics, the mean of their |errors|), f32[N] each.

    Args:
      values: f32[num, N].
      target: f32[N, 1].
    """
    error = values - target[:, 0]
    return 0.5 * jnp.sum(error**2, axis=0), jnp.mean(jnp.abs(error), axis=0)


def rescale(x: Array, epsilon: float = 1e-3) -> Array:
    r"""Return h(x) = sgn(x) (sqrt(|x| + 1) - 1) + epsilon x, elementwise, which compresses large values.

    Source: Pohlen et al. (2018), arXiv:1805.11593.
    """
    return jnp.sign(x) * (jnp.sqrt(jnp.abs(x) + 1.0) - 1.0) + epsilon * x


def unscale(x: Array, epsilon: float = 1e-3) -> Array:
    r"""Return the inverse of `rescale`, elementwise.

        h^-1(x) = sgn(x) (((sqrt(1 + 4 epsilon (|x| + 1 + epsilon)) - 1) / (2 epsilon))^2 - 1)

    The root less 1 is written as a quotient, as the difference itself would lose most digits in float32.
    """
    a = 4.0 * epsilon * (jnp.abs(x) + 1.0 + epsilon)
    root = a / (jnp.sqrt(1.0 + a) + 1.0) / (2.0 * epsilon)
    return jnp.sign(x) * (root**2 - 1.0)


class Windows(NamedTuple):
    """The n-step windows that begin at L steps; the bootstrap values are added later."""

    reward: Array  # f32[L, N], the discounted sum of up to n rewards
    discount: Array  # f32[L, N], of the value of the successor of step `last`; 0 where the task ended
    last: Array  # i32[L, N], the window's last step


def windows(reward: Array, terminated: Array, done: Array, discount: Array | float, n_step: int) -> Windows:
    r"""Return the windows of n-step targets.

        y_t = sum_{k < m} discount^k r_{t+k} + discount^m V(s_{t+m}),  m = n_step, or less up to an ending or the end

    Args:
      reward: f32[L, N].
      terminated, done: bool[L, N]; an episode begins after an ending.
      discount: per step.
      n_step: n.
    """
    chex.assert_rank([reward, terminated, done], 2)
    chex.assert_equal_shape([reward, terminated, done])
    length = reward.shape[0]
    time = jnp.arange(length, dtype=jnp.int32)[:, None]
    last = jnp.minimum(time + n_step - 1, last_of_episode(done))
    padded = jnp.concatenate([reward, jnp.zeros((n_step - 1, *reward.shape[1:]))])
    later = lambda k: jnp.where(time + k <= last, discount**k * padded[k : k + length], 0.0)
    power = jnp.asarray(discount, jnp.float32) ** (last - time + 1).astype(jnp.float32)
    return Windows(
        reward=sum((later(k) for k in range(1, n_step)), start=reward),
        discount=jnp.where(at_last(terminated, last), 0.0, power),
        last=last,
    )


def last_of_episode(done: Array) -> Array:
    """Return i32[L, N], the step at which each step's episode ends, or L - 1, from bool[L, N]."""
    time = jnp.arange(done.shape[0], dtype=jnp.int32)[:, None]
    return jax.lax.cummin(jnp.where(done, time, done.shape[0] - 1), axis=0, reverse=True)


def at_last(x: Array, last: Array) -> Array:
    """Return x[last[t, i], i], [L, N]: the entries at the last steps of windows."""
    return jnp.take_along_axis(x, last, axis=0)


def retrace(
    reward: Array,
    next_value: Array,
    next_taken: Array,
    trace: Array,
    terminated: Array,
    done: Array,
    discount: Array | float,
) -> Array:
    r"""Return Retrace targets of a greedy policy, or other targets that correct a one-step target by later ones.

        y_t = r_t + discount (1 - terminated_t) [V(s_{t+1}) + c_{t+1} (y_{t+1} - Q(s_{t+1}, a_{t+1}))]

    with c = 0 after an ending and after the last step. Retrace's c = lambda min(1, pi(a|s) / mu(a|s)) is, for a greedy
    pi, lambda where a is pi's action and 0 elsewhere.

    Args:
      reward: f32[L, N].
      next_value: f32[L, N], V of the next or, at the end of an episode, the final observation.
      next_taken: f32[L, N], Q of the action taken at the next step; the last row is ignored.
      trace: f32[L, N], c of the next step; the last row is ignored.
      terminated, done: bool[L, N]; an episode begins after an ending.
      discount: per step.

    Source: Munos et al. (2016), arXiv:1606.02647.
    """
    chex.assert_rank(reward, 2)
    chex.assert_equal_shape([reward, next_value, next_taken, trace, terminated, done])
    last = jnp.arange(reward.shape[0])[:, None] == reward.shape[0] - 1
    decay = jnp.where(done | last, 0.0, discount * trace)
    alone = reward + discount * jnp.where(terminated, 0.0, next_value) - decay * next_taken
    return decayed_sum(alone, decay)


def with_successors(along: Array, successor: Array, follows: Array) -> Array:
    """Return the next value of every step, [L, N, ...]: from the next step or from a stored final observation.

    Args:
      along: [L, N, ...], of every step.
      successor: [K, N, ...], of stored next observations.
      follows: i32[K, N], the steps that these follow; L: none.
    """
    later = jnp.concatenate([along[1:], jnp.zeros_like(along[:1])])
    return later.at[follows, jnp.arange(along.shape[1])].set(successor, mode="drop")
