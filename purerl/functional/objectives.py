"""Objectives: the per-sample function that a gradient step minimizes, as data with its own parameters.

Two levels, each a pytree with one method, so both can be traced, vmapped, evolved and saved:

    objective(log_ratio[N], advantage[N], context) -> [N]   the policy's part: PPO's clip, a drift, your own function
    loss(samples, context) -> [N]                            the whole of it, value and entropy included

Both may also be plain functions. `context` holds "config", the algorithm's settings, and for an objective inside a loss
"samples", all of them. A rule that replaces the gradient of a loss altogether is in `update_rules`, a learned
optimizer in `learned_optimizer`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from purerl.errors import InputError, check_arguments
from purerl.functional import masked
from purerl.functional.q_targets import huber
from purerl.types import Array, Metrics, PyTree, number, pytree

Objective = Callable[[Array, Array, Mapping[str, Any]], Array]
LARGE = 20.0  # for log-ratios above, exp continues along its tangent


class Samples(NamedTuple):
    """The arguments of a loss, f32[N] each; the first four depend on the parameters."""

    log_ratio: Array  # log pi(a|s) - log pi_old(a|s)
    log_prob: Array  # log pi(a|s)
    value: Array  # V(s)
    entropy: Array  # entropy of pi(.|s)
    advantage: Array  # standardized if the config says so
    old_value: Array  # V(s) when the samples were taken
    target: Array  # the return that V(s) should be


Loss = Callable[[Samples, Mapping[str, Any]], Array]


def ratio_of(log_ratio: Array) -> Array:
    """Return exp(log_ratio), continued along its tangent above `LARGE`, so that squares and gradients stay finite."""
    return jnp.exp(jnp.minimum(log_ratio, LARGE)) * (1.0 + jax.nn.relu(log_ratio - LARGE))


@pytree
class Clip:
    r"""PPO's clipped objective: -min(r A, clip(r, 1 - epsilon, 1 + epsilon) A), with r = exp(log_ratio).

    Source: Schulman et al. (2017), arXiv:1707.06347.
    """

    epsilon: Any = number(default=0.2, doc="how far the ratio may move before its gradient stops", above=0)

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, PyTree]) -> Array:
        """Return the loss of each sample, f32[N], of log_ratio f32[N] and advantage f32[N]."""
        ratio = ratio_of(log_ratio)
        clipped = jnp.clip(ratio, 1 - self.epsilon, 1 + self.epsilon)
        return -jnp.minimum(ratio * advantage, clipped * advantage)


@pytree
class PolicyGradient:
    """A2C's objective: -log pi(a|s) A; if only the log-ratio is known, -log_ratio A, which has the same gradient.

    Source: Mnih et al. (2016), arXiv:1602.01783.
    """

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, PyTree]) -> Array:
        """Return the loss of each sample, f32[N]."""
        return -(context["samples"].log_prob if "samples" in context else log_ratio) * advantage


@pytree
class Drifting:
    """The objective of a drift: D(log_ratio, A) - r A.

    Source: Kuba et al. (2022), "Mirror learning", arXiv:2201.02373.
    """

    drift: Any = number(doc="(log_ratio[N], advantage[N], context) -> [N], such as those of `purerl.functional.drifts`")

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, PyTree]) -> Array:
        """Return the loss of each sample, f32[N]."""
        drift = per_sample(self.drift, log_ratio, advantage, context)
        return drift - ratio_of(log_ratio) * advantage


@pytree
class Mixture:
    """One of several objectives, chosen by a number: `vmap` over `index` trains a population of different kinds.

    The members may be drifts, objectives or losses, but all of one level.
    """

    members: tuple[Any, ...] = number(doc="the objectives to choose from")
    index: Any = number(default=0, doc="index of the chosen objective, i32[]")

    def __call__(self, *arguments: Any) -> Array:
        """Return the loss of the chosen objective."""
        branches = [lambda *args, member=member: member(*args) for member in self.members]
        return jax.lax.switch(jnp.asarray(self.index), branches, *arguments)


@pytree
class ActorCriticLoss:
    """The usual loss: objective + value_coefficient (V - target)^2 / 2 - entropy_coefficient H.

    With `value_clip` the larger of two errors counts: the error of V, and of V clipped to within `value_clip` of its
    old value. With `value_huber_delta` errors beyond it count linearly, by Huber's loss.
    """

    objective: Any = number(default=Clip(), doc="the policy's objective")
    value_coefficient: Any = number(default=0.5, doc="weight of the value loss", at_least=0)
    entropy_coefficient: Any = number(default=0.01, doc="weight of the entropy bonus", at_least=0)
    value_clip: Any = number(default=None, doc="clip range around the old value; None: unclipped")
    value_huber_delta: Any = number(
        default=None, doc="value error above which the loss is linear; None: squared loss", above=0
    )

    def terms(self, samples: Samples, context: Mapping[str, object]) -> dict[str, Array]:
        """Return the three terms without their weights: policy_loss, value_loss, entropy; f32[N] each."""
        squared = (
            lambda error: error**2 if self.value_huber_delta is None else 2.0 * huber(error, self.value_huber_delta)
        )
        error = squared(samples.value - samples.target)
        if self.value_clip is not None:
            near = samples.old_value + jnp.clip(samples.value - samples.old_value, -self.value_clip, self.value_clip)
            error = jnp.maximum(error, squared(near - samples.target))
        context = {**context, "samples": samples}
        policy = per_sample(self.objective, samples.log_ratio, samples.advantage, context)
        return {"policy_loss": policy, "value_loss": 0.5 * error, "entropy": samples.entropy}

    def combine(self, terms: Mapping[str, Array]) -> Array:
        """Return the weighted sum of the terms, or of their means."""
        value, entropy = self.value_coefficient * terms["value_loss"], self.entropy_coefficient * terms["entropy"]
        return terms["policy_loss"] + value - entropy

    def __call__(self, samples: Samples, context: Mapping[str, PyTree]) -> Array:
        """Return the loss of each sample, f32[N]."""
        return self.combine(self.terms(samples, context))


def per_sample(objective: Objective, log_ratio: Array, advantage: Array, context: Mapping[str, object]) -> Array:
    """Evaluate an objective or a drift, and check that it returns one number per sample.

    Raises:
      InputError: if its result and `log_ratio` differ in shape; an [N, 1] with an [N] would silently make the loss
        N x N.
    """
    return _hold(objective, objective(log_ratio, advantage, context), log_ratio.shape)


def mean_loss(
    loss: Loss, samples: Samples, context: Mapping[str, object], mask: Array | None = None
) -> tuple[Array, Metrics]:
    """Return (the mean of a loss over its samples f32[], metrics); errors as for `per_sample`.

    Args:
      loss: an `ActorCriticLoss`, which gives a metric per term, or any other.
      samples: f32[N] each.
      context: "config", the algorithm's settings.
      mask: bool[N], which samples count; None for all.
    """
    chex.assert_rank(samples, 1)
    chex.assert_equal_shape(samples)
    if isinstance(loss, ActorCriticLoss):
        means = masked.means(loss.terms(samples, context), mask)
        return loss.combine(means), means
    total = masked.mean(_hold(loss, loss(samples, context), samples.log_ratio.shape), mask)
    return total, {"loss": total, "entropy": masked.mean(samples.entropy, mask)}


def _hold(of: object, result: PyTree, shape: tuple[int, ...]) -> Array:
    if jnp.shape(result) != shape:
        name = getattr(of, "__name__", type(of).__name__)
        raise InputError(
            f"objective {name} returned shape {jnp.shape(result)}; it must return one loss per sample, shape {shape}"
        )
    return result


def check_parts(objective: Objective | None, loss: Loss | None, what: str) -> None:
    """Raise an `InputError` if both are given, or one cannot be called as needed."""
    if objective is not None:
        check_arguments(objective, "objective", "log_ratio, advantage, context")
    if loss is not None:
        check_arguments(loss, "loss", "samples, context")
    if objective is not None and loss is not None:
        raise InputError(f"{what}: objective and loss are both given; the loss already holds the policy's part")


def check_objective(objective: Objective, context: Mapping[str, object] | None = None) -> None:
    """Check an objective on a grid of log-ratios from -2 to 2 and advantages from -3 to 3, before anything else runs.

    Raises:
      InputError: if it does not return one loss per sample, or a loss or its gradient is not finite there.
    """
    grid = jnp.meshgrid(jnp.arange(-20.0, 21.0) / 10.0, jnp.arange(-3.0, 4.0))
    log_ratio, advantage = (x.reshape(-1) for x in grid)

    def total(log_ratio: Array) -> tuple[Array, Array]:
        loss = per_sample(objective, log_ratio, advantage, context or {})
        return jnp.sum(loss), loss

    gradient, loss = jax.jit(jax.grad(total, has_aux=True))(log_ratio)
    for what, values in (("loss", loss), ("gradient", gradient)):
        if not jnp.all(jnp.isfinite(values)):
            bad = int(jnp.argmin(jnp.isfinite(values)))
            raise InputError(
                f"objective {type(objective).__name__} has a {what} of {float(values[bad])} at log-ratio "
                f"{float(log_ratio[bad]):.3g}, advantage {float(advantage[bad]):.3g}; it must be finite"
            )
