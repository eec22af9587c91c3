"""Optimizers: optax's optimizers on one flat vector, after clipping the gradient's global norm."""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from purerl.devices.sharding import whole
from purerl.errors import InputError, check_partial, kind_of
from purerl.optim.schedules import scheduled
from purerl.types import Array, PyTree
from purerl.xla import backend, switches

ROOT = 1e-16  # is added to Adam's second moment where its steps are differentiated
_root: ContextVar[float] = ContextVar("root", default=0.0)


@contextlib.contextmanager
def differentiable_steps() -> Iterator[None]:
    """Trace Adam so that its step is differentiable where a gradient has always been 0, such as for an unused pixel.

    There the derivative of the root of the second moment is infinite, and times 0 it is NaN.
    """
    token = _root.set(ROOT)
    try:
        yield
    finally:
        _root.reset(token)


def root() -> float:
    """Return the number that is added to Adam's second moment: 0, unless steps are differentiated."""
    return _root.get()


class GradientPlan(NamedTuple):
    """The gradient steps of an update; algorithms accept `(plan) -> optax.GradientTransformation` as an optimizer.

    They ask for a new transformation in each update: its state stays, the learning rate follows the schedule.
    """

    learning_rate: Array | float  # in this update
    max_grad_norm: Array | float | None  # None: unclipped
    num_steps: Array | float  # gradient steps of the whole run
    steps_per_update: int  # gradient steps between two rollouts


OptimizerFactory = Callable[[GradientPlan], optax.GradientTransformation]
Optimizer = Callable[..., optax.GradientTransformation]  # an `OptimizerFactory`, or one of optax's such as optax.lion


class ScheduledOptimizer(NamedTuple):
    """An optimizer whose learning rate follows a schedule: one transformation per update, with one shared state."""

    of_update: Callable[[Array], optax.GradientTransformation]  # updates so far, i32[] -> transformation

    def __call__(self, num_updates: Array) -> optax.GradientTransformation:
        """Return the transformation of the update that follows i32[] updates."""
        return self.of_update(num_updates)

    def init(self, params: PyTree) -> PyTree:
        """Return the state before the first step."""
        return self.of_update(jnp.int32(0)).init(params)


def optimizer_of(config: Any, steps_per_update: int, optimizer: Optimizer) -> ScheduledOptimizer:
    """Return the optimizer of a run.

    Args:
      config: has learning_rate and its schedule, a run's length and, where gradients are clipped, max_grad_norm.
      steps_per_update: gradient steps in an update.
      optimizer: (plan) -> transformation; or one with an argument `learning_rate` or `lr`, such as optax.lion or
        partial(optax.adamw, weight_decay=1e-4), which is then applied to clipped gradients.

    Raises:
      InputError: if it is neither.
    """
    factory = _by_plan(optimizer)

    def of_update(num_updates: Array) -> optax.GradientTransformation:
        plan = GradientPlan(
            learning_rate=scheduled(config, num_updates).learning_rate,
            max_grad_norm=getattr(config, "max_grad_norm", None),
            num_steps=config.total_timesteps / float(config.steps_per_update) * steps_per_update,
            steps_per_update=steps_per_update,
        )
        return factory(plan)

    return ScheduledOptimizer(of_update)


def _by_plan(optimizer: Optimizer) -> OptimizerFactory:
    if isinstance(optimizer, optax.GradientTransformation):
        raise InputError(
            "optimizer is an optax transformation with its own learning rate; give the function that makes it, such as "
            "optax.lion, which then follows the config's learning_rate and its schedule"
        )
    if not callable(optimizer):
        raise InputError(f"optimizer is {optimizer!r}; it must be a function such as optax.lion, or of a GradientPlan")
    if isinstance(optimizer, type):
        raise InputError(f"optimizer is the class {optimizer.__name__}; give a function such as optax.lion")
    check_partial(optimizer, "optimizer")
    try:
        names = inspect.signature(optimizer).parameters
    except ValueError:  # some built-in functions have no signature
        names = {}
    name = next((name for name in ("learning_rate", "lr") if name in names), None)
    if name is None:
        return lambda plan: _made(optimizer, plan)
    return lambda plan: clipped(_made(optimizer, **{name: plan.learning_rate}), plan.max_grad_norm, flat=False)


def _made(optimizer: Optimizer, *plan: GradientPlan, **rate: object) -> optax.GradientTransformation:
    """Return the transformation that an optimizer makes from a plan or a learning rate."""
    try:
        made = optimizer(*plan, **rate)
    except InputError:
        raise
    except Exception as error:  # whatever a user's function raises
        name, given = getattr(optimizer, "__name__", "optimizer"), "a GradientPlan" if plan else f"{next(iter(rate))}="
        first = (str(error).strip() or "without a word").splitlines()[0]
        raise InputError(
            f"optimizer {name}({given}) fails: {type(error).__name__}: {first}; it must have an argument learning_rate "
            "or lr, such as optax.lion, or take a GradientPlan"
        ) from error
    if not isinstance(made, optax.GradientTransformation):
        raise InputError(f"optimizer returned {kind_of(made)}; it must return an optax transformation")
    return made


def adam_by_plan(plan: GradientPlan, eps: float = 1e-5, b1: float = 0.9) -> optax.GradientTransformation:
    """Return Adam for a plan, after a clip of the gradient's global norm.

    Args:
      plan: the gradient steps.
      eps: is added to the root of the second moment.
      b1: decay of the first moment.
    """
    return clipped(optax.adam(plan.learning_rate, b1=b1, eps=eps, eps_root=root()), plan.max_grad_norm)


def rmsprop_by_plan(plan: GradientPlan, eps: float = 1e-5) -> optax.GradientTransformation:
    """Return RMSProp with decay 0.99 for a plan, after a clip of the gradient's global norm."""
    return clipped(optax.rmsprop(plan.learning_rate, decay=0.99, eps=eps), plan.max_grad_norm)


def radam_by_plan(plan: GradientPlan) -> optax.GradientTransformation:
    """Return rectified Adam for a plan, after a clip of the gradient's global norm."""
    return clipped(optax.radam(plan.learning_rate), plan.max_grad_norm)


def clipped(
    inner: optax.GradientTransformation, max_grad_norm: Array | float | None, flat: bool = True
) -> optax.GradientTransformation:
    """Return `inner` after a clip of the global norm.

    Args:
      inner: the optimizer.
      max_grad_norm: the global norm that gradients are clipped to; None for no clip.
      flat: on one flat vector: a network of many small arrays then costs as much as one array. For optimizers that
        treat each number separately.
    """
    if max_grad_norm is not None:
        inner = optax.chain(optax.clip_by_global_norm(max_grad_norm), inner)  # type: ignore[arg-type]
    return Flattened.of(inner) if flat and switches.is_on("flat_optimizer") else inner


class Flattened(optax.GradientTransformationExtraArgs):
    """An optimizer on one vector of all parameters."""

    inner: optax.GradientTransformation  # the one that it applies to the vector

    @classmethod
    def of(cls, inner: optax.GradientTransformation) -> "Flattened":
        """Return the optimizer that applies another one to one vector."""
        made = cls(*optax.flatten(inner))
        made.inner = inner
        return made


def array_by_array(
    optimizer: optax.GradientTransformation, opt_state: PyTree, params: PyTree
) -> tuple[optax.GradientTransformation, PyTree, Callable[[PyTree], PyTree]]:
    """Return (an optimizer for a loop of steps, its state, a function back to the given optimizer's state).

    With many members, copying the vector costs more than kernels for each array, so the loop does not use it there.
    """
    if not isinstance(optimizer, Flattened) or not backend.copies_cost_more(params):
        return optimizer, opt_state, lambda state: state
    vector, unravel = ravel_pytree(params)
    apart = jax.tree.map(lambda leaf: unravel(leaf) if leaf.shape == vector.shape else leaf, opt_state)
    join = lambda old, new: ravel_pytree(new)[0] if old.shape == vector.shape else new
    return optimizer.inner, apart, lambda state: jax.tree.map(join, opt_state, state)


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
