"""Trust regions with learned weights: the dual variables of MPO and V-MPO."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.types import Array

LEAST = 1e-4  # least value of a dual variable


class Duals(NamedTuple):
    """The dual variables, f32[] each: the parameters before softplus, or their values."""

    temperature: Array
    kl_weight: Array  # weight of the divergence of choices or means
    spread_kl_weight: Array


def initial_duals(config: Any) -> Duals:
    """Return the parameters whose values are `config.initial_temperature` and `config.initial_kl_weight`."""
    inverse = lambda value: value + jnp.log(-jnp.expm1(-jnp.float32(value)))  # softplus's, for any size
    weight = inverse(config.initial_kl_weight)
    return Duals(temperature=inverse(config.initial_temperature), kl_weight=weight, spread_kl_weight=weight)


def positive(duals: Duals) -> Duals:
    """Return the values of the parameters, at least `LEAST` each."""
    return jax.tree.map(lambda x: jax.nn.softplus(x) + LEAST, duals)


def trust_loss(duals: Duals, kl: Array, spread_kl: Array, config: Any) -> Array:
    r"""Return the loss that keeps a policy near another one, f32[].

        sum_k [c_k (epsilon_k - sg KL_k) + sg(c_k) KL_k]

    The first term raises the weight of a divergence beyond its bound, the second lowers the divergence.

    Args:
      duals: their values.
      kl, spread_kl: the divergences' means, f32[].
      config: has `kl_epsilon` and `spread_kl_epsilon`, in nats.

    Source: Abdolmaleki et al. (2018), arXiv:1812.02256.
    """
    sg = jax.lax.stop_gradient
    of_kl = duals.kl_weight * (config.kl_epsilon - sg(kl)) + sg(duals.kl_weight) * kl
    weight = duals.spread_kl_weight
    return of_kl + (weight * (config.spread_kl_epsilon - sg(spread_kl)) + sg(weight) * spread_kl)
