"""An evolution's compiled program: one generation. Its first call also starts the search, so there is only one."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from purerl import memory
from purerl.devices import cores, make_host_devices, usable
from purerl.evolution.generations import Evolution, EvolutionState, Generation
from purerl.evolution.plan import EvolveOptions, EvolvePlan
from purerl.prng import is_key, typed
from purerl.sharding import make_mesh
from purerl.types import Array


class Kept(NamedTuple):
    """What a checkpoint holds."""

    state: EvolutionState
    frames: np.ndarray  # f32[frames, n], the centre at generations that are evenly spread
    frame_at: np.ndarray  # i32[frames], which generation each is of; -1: none yet


def choose_mesh(options: EvolveOptions) -> Mesh:
    """Return the devices that the options ask for; on a CPU that was not used yet, one per core."""
    make_host_devices(options.devices or min(cores(), options.population * options.seeds))
    return make_mesh(options.devices or usable())


def compile_generation(plan: EvolvePlan, mesh: Mesh | None) -> Any:
    """Return the compiled program of a generation: (state, seed u32[]) -> (state, Generation).

    In its first call, which the state's generation tells, it also starts the search. Where no chunk is asked for it
    halves the trainings that run side by side until they fit in memory.
    """
    devices = 1 if mesh is None else mesh.size
    everything = -(-plan.options.population * plan.options.seeds // devices)
    chunk = plan.options.chunk or (1 if jax.default_backend() == "cpu" else everything)
    while True:
        evolution = plan.evolution(chunk, mesh)
        state = jax.eval_shape(evolution.init, jax.random.key(0))
        compiled = jitted(evolution).lower(state, np.uint32(0)).compile()
        if plan.options.chunk or chunk == 1 or memory.needed(compiled) <= memory.free():
            return compiled
        chunk = -(-chunk // 2)


def jitted(evolution: Evolution) -> Any:
    """Return the jitted function behind `compile_generation`."""

    def advance(state: EvolutionState, seed: Array) -> tuple[EvolutionState, Generation]:
        first = evolution.init(jax.random.key(seed))
        begins = state.generation == 0
        return evolution.step(jax.tree.map(lambda new, old: jnp.where(begins, new, old), first, state))

    return jax.jit(advance)


def template(plan: EvolvePlan, frames: int) -> Kept:
    """Return the shapes and dtypes of what a checkpoint holds."""
    evolution = plan.evolution(1, None)
    state = jax.eval_shape(evolution.init, jax.random.key(0))
    struct = jax.ShapeDtypeStruct
    return Kept(state, struct((frames, evolution.size), np.float32), struct((frames,), np.int32))  # type: ignore[arg-type]


def nothing(shapes: Kept) -> Kept:
    """Return what there is before the first generation, made on the host: nothing is compiled for it."""
    zeros = jax.tree.map(_zeros, shapes)
    return zeros._replace(frame_at=zeros.frame_at - 1)


def _zeros(leaf: Any) -> Any:
    if not is_key(leaf):
        return np.zeros(leaf.shape, leaf.dtype)
    words = jax.eval_shape(jax.random.key_data, leaf)
    return typed(np.zeros(words.shape, words.dtype), leaf)
