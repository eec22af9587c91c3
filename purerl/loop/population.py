"""Many agents in one compiled program: each lane is an agent with its seed and its own values of some numbers."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from purerl.devices import sharding
from purerl.loop.train import Trainer, TrainState, advance, make_trainer
from purerl.prng import is_key, typed
from purerl.types import AlgorithmFactory, Array, Config, Environment, PyTree
from purerl.xla import backend

Values = Mapping[str, Any]  # fields by name; `env.NAME` is the environment's
AXIS = "trial"  # of the mesh

TOGETHER = TrainState(0, 0, 0, 0, 0, None)  # type: ignore[arg-type]  # axes of agents that are all equally far
APART = TrainState(0, 0, 0, 0, 0, 0)  # type: ignore[arg-type]  # axes of agents that each count their updates


class Point(NamedTuple):
    """What the updates between two points of a curve were like."""

    episode_return: Array  # f32[], the mean over the episodes that ended, NaN without one
    finite: Array  # bool[], whether all of the algorithm's metrics were


def with_values(config: Any, env: Any, values: Values) -> tuple[Any, Any]:
    """Return a config and an environment with some of their fields replaced."""
    own = {name: value for name, value in values.items() if not name.startswith("env.")}
    task = {name.removeprefix("env."): value for name, value in values.items() if name.startswith("env.")}
    return dataclasses.replace(config, **own), dataclasses.replace(env, **task) if task else env


def train_lanes(
    factory: AlgorithmFactory, mesh: Mesh, axes: TrainState = TOGETHER
) -> Callable[..., tuple[TrainState, Point]]:
    """Return the function that trains lanes, spread over a mesh's axis `AXIS`.

    Args:
      factory: of the algorithm.
      mesh: from `sharding.make_mesh`; the number of lanes is a multiple of its axis.
      axes: of the states: `TOGETHER` or `APART`.

    Returns:
      (state, seed u32, values, updates i32, begin bool, config, env) -> (state, Point). States, seeds and values have
      a leading axis of lanes, and so have `updates` and `begin` (whether a lane starts anew) of lanes that are apart.
    """
    own = axes.num_updates

    def train(state: TrainState, seed: Array, values: Values, num: Array, begin: Array, config: Config, env: Any):
        trainer = _trainer(factory, values, config, env)
        state = jax.lax.cond(begin, lambda: _start(trainer, seed), lambda: state)
        of_episodes = state.vector.statistics.summary()
        state, means = advance(trainer, state, num)
        finite = [jnp.isfinite(value) for name, value in means.items() if name not in of_episodes]
        return _strong(state), Point(means["episode_return"], jnp.all(jnp.stack([jnp.array(True), *finite])))

    in_axes = (axes, 0, 0, own, own, None, None)
    lanes = sharding.lanes(train, mesh, AXIS, in_axes, (axes, 0), in_place=True)

    def train_lanes(*arguments: Any) -> tuple[TrainState, Point]:  # the name that a compiled program bears
        return lanes(*arguments)

    return train_lanes


def blank(
    factory: AlgorithmFactory, num_lanes: int, values: Values, config: Config, env: Environment, axes: TrainState
) -> TrainState:
    """Return states of zeros, made on the host: what a program takes whose lanes begin. Nothing is compiled for it.

    Args:
      factory, config, env: the algorithm, its settings and the environment.
      num_lanes: how many.
      values: of one lane.
      axes: of the states: `TOGETHER` or `APART`.
    """

    def start(values: Values, config: Config, env: Environment) -> TrainState:
        return _start(_trainer(factory, values, config, env), jnp.uint32(0))

    def zeros(axis: int | None, leaf: Any) -> Any:
        words = jax.eval_shape(jax.random.key_data, leaf) if is_key(leaf) else leaf
        raw = np.zeros(words.shape if axis is None else (num_lanes, *words.shape), words.dtype)
        return typed(raw, leaf) if is_key(leaf) else raw

    shapes = jax.eval_shape(start, values, config, env)
    return jax.tree.map(
        lambda axis, tree: jax.tree.map(lambda leaf: zeros(axis, leaf), tree), axes, shapes, is_leaf=lambda x: x is None
    )


def place(state: TrainState, mesh: Mesh) -> TrainState:
    """Return the states of lanes, each on its device."""
    shared = () if np.ndim(state.num_updates) == 0 else (AXIS,)
    counted = sharding.place(state.num_updates, mesh, *shared)
    return sharding.place(state._replace(num_updates=()), mesh, AXIS)._replace(num_updates=counted)


def compile_in_place(function: Callable[..., Any], state: PyTree, *arguments: Any) -> Any:
    """Compile a function of (state, ...) that returns (the next state, more), which takes the place of the old one."""
    where = jax.tree.map(lambda x: x.sharding, state)
    everywhere = sharding.sharding(jax.tree.leaves(where)[0].mesh)  # so that every process can read it
    jitted = jax.jit(
        function, donate_argnums=0, out_shardings=(where, everywhere), compiler_options=backend.compiler_options()
    )
    return jitted.lower(state, *arguments).compile()


def _trainer(factory: AlgorithmFactory, values: Values, config: Config, env: Environment) -> Trainer:
    own_config, own_env = with_values(config, env, values)
    return make_trainer(factory, own_env, own_config)


def _start(trainer: Trainer, seed: Array) -> TrainState:
    return _strong(trainer.init(jax.random.key(seed)))


def _strong(tree: PyTree) -> PyTree:
    """Return the tree without weakly typed arrays: it keeps its types in a loop and in a checkpoint."""
    return jax.tree.map(lambda x: x if is_key(x) else jax.lax.convert_element_type(x, x.dtype), tree)
