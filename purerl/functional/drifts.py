r"""Drifts: the term that an objective subtracts from r A for leaving the acting policy, as data.

A drift D(log_ratio, A) >= 0 is 0 with gradient 0 where the policies agree; then every step that maximizes
E[r A - D] improves (Kuba et al., 2022, arXiv:2201.02373). `Drifting(drift=D)` is its objective. All of them are
computed from the log-ratio itself, and keep finite gradients for log-ratios from -200 to 200.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from purerl.functional.objectives import ratio_of
from purerl.types import Array, Key, PyTree, number, pytree, static

WIDTH = 128  # hidden units of LPO's network
THRESHOLD = 1e-4  # subtracted from a raw drift; below it D is 0


@pytree
class ClipDrift:
    """PPO's clip as a drift: D = relu((r - clip(r, 1 - epsilon, 1 + epsilon)) A).

    Source: Schulman et al. (2017), arXiv:1707.06347; as a drift Kuba et al. (2022), arXiv:2201.02373.
    """

    epsilon: Any = number(default=0.2, doc="how far the ratio may move before its gradient stops", above=0)

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, PyTree]) -> Array:
        """Return D, f32[N], of log_ratio f32[N] and advantage f32[N]."""
        ratio = ratio_of(log_ratio)
        return jax.nn.relu((ratio - jnp.clip(ratio, 1 - self.epsilon, 1 + self.epsilon)) * advantage)


@pytree
class DPO:
    """Discovered policy optimization, the closed form of what LPO learned.

    A >= 0: u = (r - 1) A,      D = relu(u - alpha tanh(u / alpha))
    A < 0:  v = log(r) A,       D = relu(v - beta tanh(v / beta))

    Source: Lu et al. (2022), arXiv:2210.05639.
    """

    alpha: Any = number(default=2.0, doc="where the gradient starts to fall, for good actions", above=0)
    beta: Any = number(default=0.6, doc="the same for bad actions", above=0)

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, PyTree]) -> Array:
        """Return D, f32[N], of log_ratio f32[N] and advantage f32[N]."""
        u, v = (ratio_of(log_ratio) - 1.0) * advantage, log_ratio * advantage
        good = u - self.alpha * jnp.tanh(u / self.alpha)
        bad = v - self.beta * jnp.tanh(v / self.beta)
        return jax.nn.relu(jnp.where(advantage >= 0, good, bad))


@pytree
class KLPenalty:
    """D = c (r - 1 - log r): c times an unbiased estimate of KL(old, new).

    Source: Schulman et al. (2017), arXiv:1707.06347, section 4, with the estimator of Schulman (2020), "Approximating
    KL divergence".
    """

    coefficient: Any = number(default=1.0, doc="c", at_least=0)

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, PyTree]) -> Array:
        """Return D, f32[N], of log_ratio f32[N] and advantage f32[N]."""
        return self.coefficient * _excess(log_ratio)


@pytree
class SquaredDrift:
    """Simple policy optimization: D = |A| (r - 1)^2 / (2 epsilon), whose best ratio is 1 +- epsilon.

    Source: Xie et al. (2024), arXiv:2401.16025.
    """

    epsilon: Any = number(default=0.2, doc="distance from 1 of the best ratio", above=0)

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, PyTree]) -> Array:
        """Return D, f32[N], of log_ratio f32[N] and advantage f32[N]."""
        return jnp.abs(advantage) * (ratio_of(log_ratio) - 1.0) ** 2 / (2.0 * self.epsilon)


@pytree
class RecoveryDrift:
    """D = A (slope l + curvature l^2) with l = relu(-log r) for good actions, A > 0; otherwise D = 0.

    An action that turned out to be good, but has become less likely, becomes likely again faster than by r A only.
    D has a kink at r = 1, where its gradient counts as 0. The default numbers come from zoo/recovery.

    Source: this project; the closed form of what LPO found here, see `results/objectives`.
    """

    slope: Any = number(default=0.58, doc="weight of how far the log-ratio has fallen", at_least=0)
    curvature: Any = number(default=0.34, doc="weight of its square", at_least=0)

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, PyTree]) -> Array:
        """Return D, f32[N], of log_ratio f32[N] and advantage f32[N]."""
        fallen = jax.nn.relu(-log_ratio)
        return jax.nn.relu(advantage) * (self.slope * fallen + self.curvature * fallen**2)


@pytree
class DriftNetwork:
    """f(x) = w . tanh(W x), without biases, of x = [d, A d] with d = [log r, (log r)^2, 1 - r, (1 - r)^2].

    Without biases it is 0 wherever r = 1. Its output is not yet a drift: see `LPO` and `valid`.
    """

    hidden: Array = number(doc="W, f32[8, width]")
    output: Array = number(doc="w, f32[width]")

    @staticmethod
    def create(key: Key, width: int = WIDTH) -> "DriftNetwork":
        """Sample the hidden layer (LeCun); the output layer is 0.

        With both at 0 the first antithetic pairs of an evolution would be the same function twice, as the network is
        even in its parameters.
        """
        return DriftNetwork(hidden=jax.nn.initializers.lecun_normal()(key, (8, width)), output=jnp.zeros(width))

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, PyTree]) -> Array:
        """Return f(x), f32[N]."""
        away = 1.0 - ratio_of(log_ratio)
        near = jnp.stack([log_ratio, log_ratio**2, away, away**2], axis=-1)
        inputs = jnp.concatenate([near, advantage[:, None] * near], axis=-1)
        return jnp.tanh(inputs @ self.hidden) @ self.output


@pytree
class LPO:
    """Learned policy optimization: D = relu(D0 + f(x) - 0.0001), f a `DriftNetwork`.

    D0 is PPO's drift inside, relu((r - clip(r, 0.8, 1.2)) A), or nothing. The threshold keeps the relu shut around
    r = 1, where f is 0, so it is a valid drift for all parameters.

    Source: Lu et al. (2022), arXiv:2210.05639.
    """

    network: DriftNetwork = number()
    base: Any = number(default=None, doc="the drift to start from; None: no drift")

    @staticmethod
    def at_ppo(key: Key, width: int = WIDTH) -> "LPO":
        """Return a drift that equals PPO's clip until its network changes."""
        return LPO(network=DriftNetwork.create(key, width), base=FixedClip())

    @staticmethod
    def from_nothing(key: Key, width: int = WIDTH) -> "LPO":
        """Return a drift that is 0 until its network changes."""
        return LPO(network=DriftNetwork.create(key, width))

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, PyTree]) -> Array:
        """Return D, f32[N], of log_ratio f32[N] and advantage f32[N]."""
        raw = self.network(log_ratio, advantage, context)
        if self.base is not None:
            raw = raw + self.base(log_ratio, advantage, context)
        return jax.nn.relu(raw - THRESHOLD)


@pytree
class FixedClip:
    """`ClipDrift` with a fixed epsilon, which is not evolved with the network on top of it."""

    epsilon: float = static(default=0.2, doc="how far the ratio may move before its gradient stops")

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, PyTree]) -> Array:
        """Return D, f32[N]."""
        return ClipDrift(epsilon=self.epsilon)(log_ratio, advantage, context)


@pytree
class Valid:
    """D = (r - 1 - log r) softplus(f): a valid drift for every finite f; see `valid`."""

    function: Any = number(doc="(log_ratio[N], advantage[N], context) -> [N]")

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, PyTree]) -> Array:
        """Return D, f32[N], of log_ratio f32[N] and advantage f32[N]."""
        return _excess(log_ratio) * jax.nn.softplus(self.function(log_ratio, advantage, context))


def valid(function: object) -> Valid:
    """Make a valid drift of any function: D = (r - 1 - log r) softplus(f).

    The first factor is never negative and has a double zero at r = 1, so D >= 0, D = 0 and dD/dr = 0 there, whatever f
    is; and it grows as r A does for large r and as log r for small ones. Where a relu would be shut, the gradient with
    respect to f's parameters is alive from the first step: at f = 0 it is half of the first factor.

    Args:
      function: (log_ratio[N], advantage[N], context) -> [N]; a pytree with parameters, or a plain function.
    """
    leaves = jax.tree.leaves(function)
    plain = len(leaves) == 1 and leaves[0] is function  # not a pytree
    return Valid(function=jax.tree_util.Partial(function) if plain else function)


def _excess(log_ratio: Array) -> Array:
    """Return r - 1 - log r, f32[N]: 0 at r = 1 and positive elsewhere, without cancellation near it."""
    beyond = jnp.expm1(jnp.minimum(log_ratio, 1.0)) - jnp.minimum(log_ratio, 1.0)
    near = jnp.where(jnp.abs(log_ratio) < 0.02, log_ratio**2 * (0.5 + log_ratio / 6.0), beyond)
    return jnp.where(log_ratio >= 1.0, ratio_of(log_ratio) - 1.0 - log_ratio, near)  # `minimum` has half a slope at 1
