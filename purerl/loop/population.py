"""Populations: many agents in one compiled program, each with its own seed and its own values of some numbers."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar, TypeVarTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike

from purerl.devices import sharding
from purerl.devices.background import in_background
from purerl.loop.extension import MakeFromSetup, Setup, with_values
from purerl.loop.metrics import sound
from purerl.loop.train import advance
from purerl.loop.trainer import Trainer, TrainState
from purerl.types import Array, PyTree
from purerl.xla import backend
from purerl.xla.trees import strong, zeros

Ts = TypeVarTuple("Ts")
State = TypeVar("State")

Values = Mapping[str, Any]  # {name of a field: value}; `env.NAME` is the environment's
AXIS = "trial"  # axis of the mesh

_MEMBERS: Any = 0
_SHARED: Any = None
APART = TrainState(  # vmap axes of members that each count their updates
    agent=_MEMBERS, vector=_MEMBERS, observation=_MEMBERS, carry=_MEMBERS, key=_MEMBERS, num_updates=_MEMBERS
)
TOGETHER = APART._replace(num_updates=_SHARED)  # axes for members that are all equally far


RETURN = "episode_return"


class Point(NamedTuple):
    """A point of a curve: the updates since the previous point."""

    episode_return: Array  # f32[], the mean over the episodes that ended, NaN without one; or another metric
    finite: Array  # bool[], whether the agent's parameters and what is known of its metrics were


class TrainMembers(Protocol):
    """A function that trains members for some updates: states, seeds and values have a leading axis of members."""

    def __call__(
        self, state: TrainState, seed: Array, values: Values, num: ArrayLike, begin: ArrayLike, setup: Setup, /
    ) -> tuple[TrainState, Point]:
        """Return (state, Point); `num` i32 updates and `begin` bool (start over) are shared, or one per member."""
        ...


def train_members(make: MakeFromSetup, mesh: Mesh, axes: TrainState = TOGETHER, metric: str = RETURN) -> TrainMembers:
    """Return the function that trains members, spread over the mesh axis `AXIS`.

    Args:
      make: makes the trainer of a member.
      mesh: from `sharding.make_mesh`; the number of members is a multiple of its axis.
      axes: the axes of the states: `TOGETHER` or `APART`.
      metric: the metric of a point; -NAME: its negative, so that more is better.

    Returns:
      (state, seed u32, values, updates i32, begin bool, setup) -> (state, Point). States, seeds and values have
      a leading axis of members; if they are `APART`, so do `updates` and `begin` (whether a member starts over).
    """

    def train(state: TrainState, seed: Array, values: Values, num: Array, begin: Array, setup: Setup):
        trainer = make(with_values(setup, values))
        state = jax.lax.cond(begin, lambda: _init(trainer, seed), lambda: state)
        state, metrics = advance(trainer, state, num)
        whole = sound(metrics.algorithm, state.agent)
        value = metrics.flat()[metric.removeprefix("-")]
        return strong(state), Point(episode_return=-value if metric[0] == "-" else value, finite=whole)

    in_axes = (axes, 0, 0, axes.num_updates, axes.num_updates, None)
    members = sharding.sharded_vmap(train, mesh, AXIS, in_axes, (axes, 0), in_place=True)

    def train_members(*arguments: PyTree) -> tuple[TrainState, Point]:  # the name of the compiled program
        return members(*arguments)

    return train_members


def blank_states(make: MakeFromSetup, num_members: int, values: Values, setup: Setup, axes: TrainState) -> TrainState:
    """Return states of zeros on the host, the argument of a program that starts members; compiles nothing.

    Args:
      make: makes the trainer of a member.
      num_members: how many.
      values: the values of one member.
      setup: what the values are set in.
      axes: the axes of the states: `TOGETHER` or `APART`.
    """

    def init(values: Values, setup: Setup) -> TrainState:
        return _init(make(with_values(setup, values)), jnp.uint32(0))

    def blank(axis: int | None, leaf: PyTree) -> Array | np.ndarray:
        return zeros(leaf) if axis is None else zeros(jax.ShapeDtypeStruct((num_members, *leaf.shape), leaf.dtype))

    shapes = jax.eval_shape(init, values, setup)
    return jax.tree.map(
        lambda axis, tree: jax.tree.map(lambda leaf: blank(axis, leaf), tree), axes, shapes, is_leaf=lambda x: x is None
    )


def place(state: TrainState, mesh: Mesh) -> TrainState:
    """Place the states of members on their devices."""
    shared = () if np.ndim(state.num_updates) == 0 else (AXIS,)
    counted = sharding.place(state.num_updates, mesh, *shared)
    return sharding.place(state._replace(num_updates=()), mesh, AXIS)._replace(num_updates=counted)


def compile_in_place(function: Callable[[State, *Ts], PyTree], state: State, *arguments: *Ts) -> jax.stages.Compiled:
    """Compile a function of (state, ...) that returns (the next state, more); the next state replaces the old one."""
    where = jax.tree.map(lambda x: x.sharding, state)
    everywhere = sharding.sharding(jax.tree.leaves(where)[0].mesh)  # so that every process can read it
    jitted = backend.jit(function, graphs=True, donate_argnums=0, out_shardings=(where, everywhere))
    return in_background(jitted.lower(state, *arguments).compile)


def _init(trainer: Trainer, seed: Array) -> TrainState:
    return strong(trainer.init(jax.random.key(seed)))
