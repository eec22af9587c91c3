"""Minibatches: several shuffled passes of gradient steps over the samples or sequences of a rollout."""

from collections.abc import Callable
from typing import Any, Protocol

import chex
import jax
import jax.numpy as jnp
import optax

from purerl.devices.sharding import split_data
from purerl.errors import InputError
from purerl.optim.optimizers import apply_gradients, array_by_array
from purerl.types import Array, Key, Metrics, PyTree
from purerl.xla.accumulation import minibatch_gradient
from purerl.xla.once import traced_once
from purerl.xla.packing import pack
from purerl.xla.permutation import permutation


class MinibatchLoss(Protocol):
    """The loss of a gradient step."""

    def __call__(self, params: PyTree, minibatch: PyTree, carry: PyTree, /) -> tuple[Array, Metrics]:
        """Return (the mean over the samples of a minibatch, f32[], metrics: means over them).

        Args:
          params: the parameters of the gradient.
          minibatch: [M, ...], or a part of it at a time; [T, M, ...] for complete sequences.
          carry: the recurrent state before the sequences, [M, ...]; () for shuffled samples.
        """
        ...


class MinibatchStep(Protocol):
    """A step on a minibatch."""

    def __call__(self, learner: PyTree, minibatch: PyTree, carry: PyTree, /) -> tuple[PyTree, Metrics]:
        """Return (learner, metrics {name: f32[]}); the minibatch and its carry are as for `MinibatchLoss`."""
        ...


def minibatch_epochs(
    loss: MinibatchLoss,
    *,
    optimizer: optax.GradientTransformation,
    params: PyTree,
    opt_state: PyTree,
    batch: PyTree,
    carry: PyTree = (),
    key: Key,
    config: Any,
    sequences: bool = False,
    prepare: Callable[[PyTree], PyTree] | None = None,
    accept: Callable[[Metrics], Array] | None = None,
) -> tuple[PyTree, PyTree, Metrics]:
    """Take a gradient step on every minibatch of a rollout, `config.num_minibatches` in each of `config.num_epochs`.

    Args:
      loss: the mean over a minibatch.
      optimizer: from gradients to updates.
      params, opt_state: before the first step.
      batch: [T, B, ...], a record with the field `mask`: bool[T, B], which samples count, or None.
      carry: [B, ...], the recurrent state before the first step of a rollout; () without one.
      key: for the orders.
      config: the settings.
      sequences: whether sequences stay whole, as a recurrent network or a trace over time needs them.
      prepare: minibatch -> what the loss gets in its place, applied to each as a whole, such as with a standardized
        column; None: the minibatch.
      accept: metrics of a step -> bool[]; a step that is not accepted is undone and ends the update. None: all are.

    Returns:
      (params, opt_state, metrics averaged over all steps).
    """
    optimizer, opt_state, restored = array_by_array(optimizer, opt_state, params)

    def gradient_step(learner: tuple[PyTree, PyTree, Array], minibatch: PyTree, carry: PyTree):
        params, opt_state, running = learner
        samples = (minibatch if prepare is None else prepare(minibatch), carry)
        gradient, metrics = _gradient(loss, params, samples, minibatch.mask, whole=sequences)
        stepped = apply_gradients(optimizer, gradient, opt_state, params)
        if accept is None:
            return (*stepped, running), metrics
        running = running & accept(metrics)
        kept = jax.tree.map(lambda new, old: jnp.where(running, new, old), stepped, (params, opt_state))
        return (*kept, running), metrics

    learner = (params, opt_state, jnp.array(True))
    (params, opt_state, _), metrics = rollout_minibatches(
        gradient_step, learner, batch=batch, carry=carry, key=key, config=config, sequences=sequences
    )
    return params, restored(opt_state), metrics


def _gradient(
    loss: MinibatchLoss, params: PyTree, samples: tuple[PyTree, PyTree], mask: Array | None, *, whole: bool
) -> tuple[PyTree, Metrics]:
    """Return (the gradient of a minibatch's loss, metrics); independent samples may be processed in parts."""
    mean = lambda params, samples: loss(params, *samples)
    if whole:
        return jax.grad(mean, has_aux=True)(params, samples)
    return minibatch_gradient(mean, params, samples, mask)


def check_minibatches(config: Any, sequences: bool, what: str) -> None:
    """Check that `config.num_minibatches` divides a rollout's samples, or its sequences.

    Raises:
      InputError: if it does not.
    """
    parts = "num_envs" if sequences else "num_envs x rollout_length"
    size = config.num_envs if sequences else config.steps_per_update
    if size % config.num_minibatches:
        raise InputError(f"{what}: num_minibatches {config.num_minibatches} does not divide {parts} = {size}")


def rollout_minibatches(
    step: MinibatchStep,
    learner: PyTree,
    *,
    batch: PyTree,
    carry: PyTree = (),
    key: Key,
    config: Any,
    sequences: bool = False,
) -> tuple[PyTree, Metrics]:
    """Run `step` on every minibatch of a rollout; arguments as for `minibatch_epochs`.

    Args:
      step: the function that is applied to each.
      learner: what a step passes to the next.
      batch, carry, key, config, sequences: as for `minibatch_epochs`.

    Returns:
      (learner, metrics averaged over all steps).
    """
    shape = (config.steps_per_update,)
    units = swap_time(batch) if sequences else jax.tree.map(lambda x: x.reshape(shape + x.shape[2:]), batch)

    def one(learner: PyTree, minibatch: tuple[object, PyTree]) -> tuple[PyTree, Metrics]:
        units, carry = minibatch
        return step(learner, swap_time(units) if sequences else units, carry)

    return shuffled_minibatches(
        one,
        learner,
        batch=(units, carry),
        key=key,
        num_epochs=config.num_epochs,
        num_minibatches=config.num_minibatches,
    )


def shuffled_minibatches(
    step: Callable[[PyTree, PyTree], tuple[PyTree, Metrics]],
    learner: PyTree,
    *,
    batch: PyTree,
    key: Key,
    num_epochs: int,
    num_minibatches: int,
) -> tuple[PyTree, Metrics]:
    """Run `step` on every minibatch of every epoch; each epoch has a new random order.

    Args:
      step: (learner, minibatch [M, ...]) -> (learner, metrics of float32 scalars).
      learner: what a step passes to the next.
      batch: samples [N, ...]; N is a multiple of num_minibatches.
      key: for the orders.
      num_epochs: passes over the batch.
      num_minibatches: steps per pass; M = N / num_minibatches.

    Returns:
      (learner, metrics averaged over all steps).
    """
    chex.assert_equal_shape_prefix(jax.tree.leaves(batch), 1)
    size = jax.tree.leaves(batch)[0].shape[0]
    orders = jax.vmap(lambda k: permutation(k, size))(jax.random.split(key, num_epochs))
    orders = orders.reshape(num_epochs * num_minibatches, size // num_minibatches)

    step = traced_once(step)  # for the names of the metrics and for the loop
    first = jax.tree.map(lambda x: x[: size // num_minibatches], batch)
    names = sorted(jax.eval_shape(step, learner, first)[1])
    begin, unpack = pack(learner, leading=0)

    def body(state: tuple[PyTree, Array], order: Array) -> tuple[tuple[PyTree, Array], None]:
        packed, sums = state
        minibatch = split_data(jax.tree.map(lambda x: jnp.take(x, order, axis=0, mode="clip"), batch))
        learner, metrics = step(unpack(packed), minibatch)
        return (pack(learner, leading=0)[0], sums + jnp.stack([metrics[name] for name in names])), None

    (packed, sums), _ = jax.lax.scan(body, (begin, jnp.zeros(len(names))), orders)
    return unpack(packed), dict(zip(names, sums / orders.shape[0], strict=True))


def swap_time(tree: PyTree) -> PyTree:
    """Swap the first two axes, [T, B, ...] <-> [B, T, ...]."""
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), tree)
