"""Optimizers: optax's, on one flat vector, behind a clip of the gradient's global norm."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from purerl.devices.sharding import whole
from purerl.types import Array, PyTree
from purerl.xla import switches


class GradientPlan(NamedTuple):
    """The gradient steps of a run; algorithms accept `(plan) -> optax.GradientTransformation` as an optimizer."""

    learning_rate: optax.ScalarOrSchedule
    max_grad_norm: Array | float
    num_steps: Array | float  # gradient steps of the whole run
    steps_per_update: int  # gradient steps between two rollouts


OptimizerFactory = Callable[[GradientPlan], optax.GradientTransformation]


def gradient_plan(config: Any, steps_per_update: int) -> GradientPlan:
    """Return the plan of a config with learning_rate, anneal_learning_rate, max_grad_norm and a run's length."""
    rate, steps = config.learning_rate, config.steps_per_update
    if config.anneal_learning_rate:
        rate = linear_to_zero(rate, config.total_timesteps, steps, steps_per_update)
    return GradientPlan(
        learning_rate=rate,
        max_grad_norm=config.max_grad_norm,
        num_steps=config.total_timesteps / steps * steps_per_update,
        steps_per_update=steps_per_update,
    )


def adam(
    learning_rate: optax.ScalarOrSchedule, max_grad_norm: Array | float | None = None, eps: float = 1e-5
) -> optax.GradientTransformation:
    """Return Adam behind a clip of the gradient's global norm.

    Args:
      learning_rate: the step size, or a schedule of it over gradient steps; both may be traced.
      max_grad_norm: the global norm that gradients are clipped to; None for no clip.
      eps: added to the root of the second moment.
    """
    return clipped(optax.adam(learning_rate, eps=eps), max_grad_norm)


def adam_by_plan(plan: GradientPlan) -> optax.GradientTransformation:
    """Return Adam for a plan."""
    return adam(plan.learning_rate, plan.max_grad_norm)


def rmsprop(
    learning_rate: optax.ScalarOrSchedule, max_grad_norm: Array | float | None = None, eps: float = 1e-5
) -> optax.GradientTransformation:
    """Return RMSProp with decay .99 behind a clip of the gradient's global norm; arguments as for `adam`."""
    return clipped(optax.rmsprop(learning_rate, decay=0.99, eps=eps), max_grad_norm)


def radam(
    learning_rate: optax.ScalarOrSchedule, max_grad_norm: Array | float | None = None
) -> optax.GradientTransformation:
    """Return rectified Adam behind a clip of the gradient's global norm; arguments as for `adam`."""
    return clipped(optax.radam(learning_rate), max_grad_norm)


def clipped(inner: optax.GradientTransformation, max_grad_norm: Array | float | None) -> optax.GradientTransformation:
    """Return `inner` behind a clip of the global norm, on one flat vector.

    A network of many small arrays then costs as much as one array.
    """
    if max_grad_norm is not None:
        inner = optax.chain(optax.clip_by_global_norm(max_grad_norm), inner)  # type: ignore[arg-type]
    return optax.flatten(inner) if switches.is_on("flat_optimizer") else inner


def apply_gradients(
    optimizer: optax.GradientTransformation, gradient: PyTree, opt_state: PyTree, params: PyTree
) -> tuple[PyTree, PyTree]:
    """Take one step: (gradient, opt_state, params) -> (params, opt_state).

    Where the environments are spread over devices, all of them take the same step here.

    optax mixes Python numbers with integer arrays, which strict dtype promotion forbids; here it may.
    """
    with jax.numpy_dtype_promotion("standard"):
        updates, opt_state = optimizer.update(whole(gradient), opt_state, params)
        return whole((optax.apply_updates(params, updates), opt_state))


def linear_to_zero(
    learning_rate: Array | float,
    total_timesteps: Array | float,
    timesteps_per_update: Array | float,
    steps_per_update: int,
) -> optax.Schedule:
    """Return a schedule that falls linearly to 0 over a run, one step down per update.

    Args:
      learning_rate: at first.
      total_timesteps: environment steps until it is 0.
      timesteps_per_update: environment steps between two updates.
      steps_per_update: gradient steps in an update.
    """

    def schedule(count: jax.typing.ArrayLike) -> Array:
        update = jax.lax.div(jnp.asarray(count), steps_per_update).astype(jnp.float32)  # `//` would ask for signs
        return learning_rate * jnp.maximum(1.0 - update * timesteps_per_update / total_timesteps, 0.0)

    return schedule
