"""The entries of a pool's `info` beyond the environment's own metrics."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from purerl.types import Array, Environment, PyTree

OF_STATES: dict[str, Callable[[PyTree], dict[str, Array]]] = {  # by class: (state) -> arrays of any dtype by name
    "Acrobot": lambda state: {"state": jnp.stack([state.angle_1, state.angle_2])},
}  # as in EnvPool


def of_state(env: Environment, state: PyTree) -> dict[str, Array]:
    """Return the part of EnvPool's `info` that a state determines, which also exists after a reset."""
    shown = OF_STATES.get(type(env).__name__)
    return {} if shown is None else shown(state)


def structs(env: Environment) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the shapes and dtypes of everything that one environment adds to `info`."""

    def step(key: Array) -> dict[str, Array]:
        action = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), env.action_space.struct)
        state, timestep = env.step(key, env.reset(key)[0], action)
        return {**timestep.info, **of_state(env, state)}

    return jax.eval_shape(step, jax.random.key(0))
