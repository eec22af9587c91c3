"""Optimizers: optax's, on one flat vector, behind a clip of the gradient's global norm."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax

from purerl.algo_parts.schedules import learning_rate
from purerl.devices.sharding import whole
from purerl.types import Array, PyTree
from purerl.xla import switches


class GradientPlan(NamedTuple):
    """The gradient steps of an update; algorithms accept `(plan) -> optax.GradientTransformation` as an optimizer.

    They ask for the transformation anew in each update: its state stays, the learning rate follows the schedule.
    """

    learning_rate: Array | float  # in this update
    max_grad_norm: Array | float
    num_steps: Array | float  # gradient steps of the whole run
    steps_per_update: int  # gradient steps between two rollouts


OptimizerFactory = Callable[[GradientPlan], optax.GradientTransformation]


def gradient_plan(config: Any, steps_per_update: int, num_updates: Array) -> GradientPlan:
    """Return the plan of the update that follows i32[] updates.

    Args:
      config: has learning_rate, anneal_learning_rate, max_grad_norm and a run's length.
      steps_per_update: gradient steps in an update.
      num_updates: of the agent.
    """
    return GradientPlan(
        learning_rate=learning_rate(config, num_updates),
        max_grad_norm=config.max_grad_norm,
        num_steps=config.total_timesteps / config.steps_per_update * steps_per_update,
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
