"""Distributions of returns instead of their means: categorical on fixed atoms, or quantiles."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from purerl.errors import InputError
from purerl.functional.q_targets import huber
from purerl.types import Array


def atoms(what: str, num_atoms: int, v_min: Array | float, v_max: Array | float) -> Array:
    """Return the atoms of a distribution of returns, evenly spaced from v_min to v_max: f32[num_atoms].

    Raises:
      InputError: if v_min is not below v_max; traced values are not checked.
    """
    known = not isinstance(v_min, Tracer) and not isinstance(v_max, Tracer)
    if known and not np.all(np.asarray(v_min) < np.asarray(v_max)):
        raise InputError(f"{what}: v_min {v_min} must be below v_max {v_max}")
    return jnp.linspace(v_min, v_max, num_atoms, dtype=jnp.float32)


def project(support: Array, probability: Array, support_to: Array) -> Array:
    r"""Move probabilities from one set of evenly spaced atoms to another.

        m_j = sum_i p_i max(0, 1 - |clip(z_i) - z'_j| / dz')

    Args:
      support: z, f32[N, n].
      probability: p, f32[N, n].
      support_to: z', f32[m].

    Returns:
      f32[N, m], with the same sum and, where nothing was clipped, the same mean.

    Source: Bellemare, Dabney and Munos (2017), arXiv:1707.06887, algorithm 1.
    """
    chex.assert_rank([support, probability, support_to], [2, 2, 1])
    chex.assert_equal_shape([support, probability])
    low, step = support_to[0], support_to[1] - support_to[0]
    position = (jnp.clip(support, low, support_to[-1]) - low) / step  # in atoms
    distance = jnp.abs(position[..., None] - jnp.arange(support_to.shape[0], dtype=jnp.float32))
    # A product, as XLA's CPU backend sums along the last axis one by one.
    return jnp.einsum("ni,nij->nj", probability, jnp.maximum(1.0 - distance, 0.0), precision="highest")


def two_hot(x: Array, support: Array) -> Array:
    r"""Return the distribution on the two nearest atoms whose mean is x, clipped to the atoms' range.

    Args:
      x: f32[...].
      support: evenly spaced atoms, f32[n].

    Returns:
      f32[..., n].

    Source: Schrittwieser et al. (2020), arXiv:1911.08265, appendix F.
    """
    chex.assert_rank(support, 1)
    low, step = support[0], support[1] - support[0]
    position = (jnp.clip(x, low, support[-1]) - low) / step  # in atoms
    distance = jnp.abs(position[..., None] - jnp.arange(support.shape[0], dtype=jnp.float32))
    return jnp.maximum(1.0 - distance, 0.0)


def categorical_divergence(logits: Array, target: Array) -> tuple[Array, Array]:
    r"""Return (the cross-entropy, the KL divergence) of categorical predictions from their targets, f32[N] each.

        cross-entropy = -sum_j m_j log p_j,  KL = cross-entropy + sum_j m_j log m_j

    The divergence is 0 for a perfect prediction; their gradients are the same.

    Args:
      logits: the logits of p, f32[N, n].
      target: m, f32[N, n].
    """
    chex.assert_rank([logits, target], 2)
    chex.assert_equal_shape([logits, target])
    cross_entropy = -jnp.sum(target * jax.nn.log_softmax(logits), axis=-1)
    return cross_entropy, cross_entropy + jnp.sum(target * jnp.log(jnp.maximum(target, 1e-12)), axis=-1)


def expectation(logits: Array, support: Array) -> Array:
    """Return the mean of a categorical distribution: f32[..., n], f32[n] -> f32[...]."""
    return jnp.sum(jax.nn.softmax(logits) * support, axis=-1)


def midpoints(number: int) -> Array:
    """Return the midpoints of `number` equal parts of [0, 1], f32[number]."""
    return (jnp.arange(number, dtype=jnp.float32) + 0.5) / number


def quantile_huber(quantiles: Array, targets: Array, kappa: Array | float, tau: Array | None = None) -> Array:
    r"""Return the quantile Huber loss, f32[N].

        sum_i mean_j |tau_i - 1{u_ij < 0}| H_kappa(u_ij) / kappa,  u_ij = target_j - quantile_i

    Args:
      quantiles: f32[N, n].
      targets: f32[N, m].
      kappa: where H turns linear.
      tau: the levels of the quantiles, f32[N, n]; None: (i + 1/2) / n.

    Source: Dabney et al. (2018), arXiv:1710.10044.
    """
    chex.assert_rank([quantiles, targets], 2)
    chex.assert_equal_shape_prefix([quantiles, targets], 1)
    levels = jnp.broadcast_to(midpoints(quantiles.shape[1]) if tau is None else tau, quantiles.shape)
    u = targets[:, None, :] - quantiles[:, :, None]
    weight = jnp.abs(levels[:, :, None] - (u < 0.0).astype(jnp.float32))
    return jnp.sum(jnp.mean(weight * huber(u, kappa) / kappa, axis=2), axis=1)
