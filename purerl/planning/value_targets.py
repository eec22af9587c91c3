"""Value targets: lambda returns over the root values of MCTS, and the scale of a network's predictions."""

import jax.numpy as jnp

from purerl.functional.q_targets import rescale, unscale
from purerl.functional.returns import decayed_sum
from purerl.planning.config import SearchConfig
from purerl.types import Array, Rollout


def search_returns(
    rollout: Rollout, next_network_value: Array, discount: Array | float, td_lambda: Array | float
) -> Array:
    r"""Return the lambda returns over the root values v of MCTS, f32[T, B].

        G_t = r_t + discount_t ((1 - lambda) v_{t+1} + lambda G_{t+1})

    If the action was sampled uniformly instead of by MCTS, its return does not estimate the value of the state: there
    G_t is v_t.

    Args:
      rollout: [T, B], with the extras of `purerl.planning.acting.act_by_search`.
      next_network_value: f32[T, B], the network's value of each final or next observation; it replaces v where an
        episode or the rollout ends.
      discount: the discount of each step, f32[T, B] or a scalar; negative where the opponent moves next.
      td_lambda: lambda.
    """
    root_value, uniform = rollout.extras["root_value"], rollout.extras["uniform"]
    later = jnp.concatenate([root_value[1:], next_network_value[-1:]])
    next_value = jnp.where(rollout.done, next_network_value, later)
    delta = rollout.reward + discount * jnp.where(rollout.terminated, 0.0, next_value) - root_value
    decay = jnp.where(rollout.done | uniform, 0.0, discount * td_lambda)
    return root_value + decayed_sum(jnp.where(uniform, 0.0, delta), decay)


def to_scale(config: SearchConfig, value: Array) -> Array:
    """Return values on the network's scale, elementwise."""
    return rescale(value) if config.rescale_value else value


def from_scale(config: SearchConfig, value: Array) -> Array:
    """Return values in units of the reward, elementwise."""
    return unscale(value) if config.rescale_value else value
