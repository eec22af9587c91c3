"""Successor values, returns and advantages, computed backward through a rollout."""

from typing import Protocol

import chex
import jax
import jax.numpy as jnp

from purerl.types import Array, PyTree, Rollout
from purerl.xla.successors import evaluate_successors


class ValueOf(Protocol):
    """A value function with its parameters."""

    def __call__(self, carry: PyTree, observation: PyTree, /) -> Array:
        """Return V(s), f32[...], of observations [...] with the recurrent states [...] before them."""
        ...


def successor_values(value_of: ValueOf, values: Array, carry: PyTree, rollout: Rollout) -> Array:
    """Return the value of each step's final or next observation, f32[T, B]; no gradient flows through it.

    Where an episode terminated, the successor has no value: ignore the result there.

    Args:
      value_of: the value function.
      values: f32[T, B], of the observations: within an episode the next step's is the successor's.
      carry: [T, B, ...], the recurrent state after each step, before the end of an episode clears it.
      rollout: [T, B].
    """
    constant = lambda *at: jax.lax.stop_gradient(value_of(*at))
    return evaluate_successors(constant, jax.lax.stop_gradient(values), carry, rollout)


def decayed_sum(term: Array, decay: Array) -> Array:
    """Return y f32[T, ...] with y_t = term_t + decay_t y_{t+1}, and y_T = 0."""

    def backward(following: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        value = step[0] + step[1] * following
        return value, value

    return jax.lax.scan(backward, jnp.zeros_like(term[0]), (term, decay), reverse=True, unroll=16)[1]


def gae(
    reward: Array,
    value: Array,
    next_value: Array,
    terminated: Array,
    done: Array,
    discount: Array | float,
    gae_lambda: Array | float,
) -> Array:
    r"""Generalized advantage estimation.

        delta_t = r_t + discount (1 - terminated_t) V(s'_t) - V(s_t)
        A_t = delta_t + discount lambda (1 - done_t) A_{t+1}

    s'_t is the state after the step, at the end of an episode the final one, so truncated episodes bootstrap and
    terminated ones do not.

    Args:
      reward, value: f32[T, B].
      next_value: f32[T, B], the value of the next or, at the end of an episode, the final observation.
      terminated: bool[T, B], the task ended.
      done: bool[T, B], the episode ended, by its task or by a time limit.
      discount, gae_lambda: scalars in 0 .. 1.

    Returns:
      Advantages, f32[T, B]; adding `value` gives the lambda return.

    Source: Schulman et al. (2016), arXiv:1506.02438.
    """
    chex.assert_rank(reward, 2)
    chex.assert_equal_shape([reward, value, next_value, terminated, done])
    delta = reward + discount * jnp.where(terminated, 0.0, next_value) - value
    return decayed_sum(delta, jnp.where(done, 0.0, discount * gae_lambda))


def lambda_returns(
    reward: Array,
    next_value: Array,
    terminated: Array,
    done: Array,
    discount: Array | float,
    trace_lambda: Array | float,
) -> Array:
    r"""Lambda returns, of state values or, with next_value = max_a Q(s', a), Peng's Q(lambda).

        G_t = r_t + discount (1 - terminated_t) ((1 - lambda_t) V(s'_t) + lambda_t G_{t+1})

    with lambda_t = 0 where the episode ended and at the rollout's last step: there only the value of the next or final
    observation counts. In particular, at t = T-1, G is r + discount V(s'_{T-1}), the value after the last step, not
    before it.

    Args:
      reward: f32[T, B].
      next_value: f32[T, B], the value of the next or, at the end of an episode, the final observation.
      terminated, done: bool[T, B], the task ended; the episode ended for whatever reason.
      discount, trace_lambda: scalars in 0 .. 1.

    Returns:
      f32[T, B].

    Source: Sutton and Barto (2018), equation 12.18; Peng and Williams (1996) for Q.
    """
    chex.assert_rank(reward, 2)
    chex.assert_equal_shape([reward, next_value, terminated, done])
    bootstrap = reward + discount * jnp.where(terminated, 0.0, next_value)
    decay = jnp.where(done, 0.0, discount * trace_lambda)

    def backward(following: Array, step: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        alone, decay, next_value = step
        value = alone + decay * (following - next_value)
        return value, value

    _, returns = jax.lax.scan(backward, next_value[-1], (bootstrap, decay, next_value), reverse=True, unroll=16)
    return returns
