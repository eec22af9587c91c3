"""V-trace: value targets and advantages for rollouts that an older policy collected."""

from typing import NamedTuple

import chex
import jax.numpy as jnp

from purerl.functional.returns import decayed_sum
from purerl.types import Array


class VTrace(NamedTuple):
    """The results of V-trace, f32[T, B] each."""

    target: Array  # target of the regression of values
    advantage: Array  # weight of the log-probabilities, rho included


def vtrace(
    log_ratio: Array,
    reward: Array,
    value: Array,
    next_value: Array,
    terminated: Array,
    done: Array,
    discount: Array | float,
    trace_lambda: Array | float = 1.0,
    rho_clip: Array | float = 1.0,
    c_clip: Array | float = 1.0,
) -> VTrace:
    r"""Return V-trace: returns corrected for the difference between the acting policy and the learning one.

        rho_t = min(rho_clip, pi/mu),  c_t = lambda min(c_clip, pi/mu)
        delta_t = rho_t (r_t + discount (1 - terminated_t) V(s'_t) - V(s_t))
        v_t - V(s_t) = delta_t + discount (1 - done_t) c_t (v_{t+1} - V(s_{t+1}))
        A_t = rho_t (r_t + discount (1 - terminated_t) v'_t - V(s_t))

    v'_t is v_{t+1} within an episode, and V(s'_t), the value of the final observation, where a time limit or the end of
    the rollout cut it off.

    Args:
      log_ratio: f32[T, B], log pi(a|s) - log mu(a|s), of the learner over the actor.
      reward, value: f32[T, B].
      next_value: f32[T, B], the value of the next or, at the end of an episode, the final observation.
      terminated, done: bool[T, B], the task ended; the episode ended for whatever reason.
      discount, trace_lambda, rho_clip, c_clip: scalars.

    Source: Espeholt et al. (2018), arXiv:1802.01561, equations 1 and 2.
    """
    chex.assert_rank(reward, 2)
    chex.assert_equal_shape([log_ratio, reward, value, next_value, terminated, done])
    ratio = jnp.exp(log_ratio)
    rho = jnp.minimum(ratio, rho_clip)
    decay = jnp.where(done, 0.0, discount * trace_lambda * jnp.minimum(ratio, c_clip))
    successor_value = discount * jnp.where(terminated, 0.0, next_value)
    delta = rho * (reward + successor_value - value)
    target = value + decayed_sum(delta, decay)
    following = jnp.concatenate([discount * target[1:], successor_value[-1:]])
    advantage = rho * (reward + jnp.where(done, successor_value, following) - value)
    return VTrace(target, advantage)
