"""Distributions of returns in place of their means: categorical and by quantiles."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from purerl.algo_parts.q_learning import Loss, QConfig, outputs
from purerl.errors import InputError
from purerl.functional.q_targets import huber
from purerl.networks.q_networks import QNetwork
from purerl.replay.uniform import Transitions
from purerl.types import Array, Key, Metrics, PyTree, number, pytree, static


@pytree
class CategoricalConfig(QConfig):
    """What the configs of C51 and Rainbow share."""

    num_atoms: int = static(default=51, doc="atoms of the distribution of returns", at_least=2)
    v_min: float = number(default=-100.0, doc="the lowest atom")
    v_max: float = number(default=100.0, doc="the highest atom")


def atoms(config: CategoricalConfig) -> Array:
    """Return the returns that the distribution speaks of, f32[num_atoms]."""
    return jnp.linspace(config.v_min, config.v_max, config.num_atoms, dtype=jnp.float32)


def check_atoms(config: CategoricalConfig, what: str) -> None:
    """Hold the ends of the distribution to their order, where their values are known.

    Raises:
      InputError: if there is nothing between them.
    """
    known = not isinstance(config.v_min, Tracer) and not isinstance(config.v_max, Tracer)
    if known and not np.all(np.asarray(config.v_min) < np.asarray(config.v_max)):
        raise InputError(f"{what}: v_min {config.v_min} must be below v_max {config.v_max}")


def project(support: Array, probability: Array, support_to: Array) -> Array:
    r"""Move probabilities from one set of atoms to another, evenly spaced one.

        m_j = sum_i p_i max(0, 1 - |clip(z_i) - z'_j| / dz')

    Args:
      support: z, f32[N, n].
      probability: p, f32[N, n].
      support_to: z', f32[m].

    Returns:
      f32[N, m], with the same sum and, where nothing was clipped, the same mean.

    Source: Bellemare, Dabney and Munos (2017), arXiv:1707.06887, algorithm 1.
    """
    low, step = support_to[0], support_to[1] - support_to[0]
    place = (jnp.clip(support, low, support_to[-1]) - low) / step  # in atoms
    distance = jnp.abs(place[..., None] - jnp.arange(support_to.shape[0], dtype=jnp.float32))
    # A product, as XLA's CPU backend sums along the last axis one by one.
    return jnp.einsum("ni,nij->nj", probability, jnp.maximum(1.0 - distance, 0.0), precision="highest")


def categorical_loss(network: QNetwork, config: CategoricalConfig) -> Loss:
    """Return the cross-entropy between the projected target and the distribution of the action taken."""
    support = atoms(config)
    q_values = lambda logits: expectation(logits, support)

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key) -> tuple[Array, Array, Metrics]:
        taken, following = outputs(network, config, q_values, params, target_params, batch, key)
        moved = batch.reward[:, None] + batch.discount[:, None] * support
        target = project(moved, jax.nn.softmax(following), support)
        cross_entropy = -jnp.sum(target * jax.nn.log_softmax(taken), axis=-1)
        # Less the target's own entropy it is the KL divergence, which is 0 for a perfect prediction.
        divergence = cross_entropy + jnp.sum(target * jnp.log(jnp.maximum(target, 1e-12)), axis=-1)
        metrics = {"q_value": jnp.mean(expectation(taken, support)), "td_error": jnp.mean(divergence)}
        return cross_entropy, jax.lax.stop_gradient(divergence), metrics

    return loss


def expectation(logits: Array, support: Array) -> Array:
    """Return the mean of a categorical distribution: f32[..., n], f32[n] -> f32[...]."""
    return jnp.sum(jax.nn.softmax(logits) * support, axis=-1)


def quantile_huber(quantiles: Array, targets: Array, kappa: Array | float) -> Array:
    r"""Return the quantile Huber loss, f32[N].

        sum_i mean_j |tau_i - 1{u_ij < 0}| H_kappa(u_ij) / kappa,  u_ij = target_j - quantile_i, tau_i = (i + 1/2) / n

    Args:
      quantiles: f32[N, n].
      targets: f32[N, m].
      kappa: where H turns linear.

    Source: Dabney et al. (2018), arXiv:1710.10044.
    """
    n = quantiles.shape[1]
    tau = (jnp.arange(n, dtype=jnp.float32) + 0.5) / n
    u = targets[:, None, :] - quantiles[:, :, None]
    weight = jnp.abs(tau[:, None] - (u < 0.0).astype(jnp.float32))
    return jnp.sum(jnp.mean(weight * huber(u, kappa) / kappa, axis=2), axis=1)
