"""The compiled program of an evolution: one generation. Its first call also starts the search."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from purerl.devices import distributed, memory
from purerl.devices.background import in_background
from purerl.devices.sharding import sharding
from purerl.evolution.method import Generation, Method
from purerl.evolution.plan import EvolvePlan
from purerl.types import Array
from purerl.xla import backend, trees


class Checkpoint(NamedTuple):
    """The content of a checkpoint."""

    state: Any  # a `MethodState`
    frames: np.ndarray  # f32[frames, n], the center at generations that are evenly spread
    frame_at: np.ndarray  # i32[frames], the generation of each; -1: none yet


def compile_generation(plan: EvolvePlan) -> jax.stages.Compiled:
    """Return the compiled program of a generation: (state, seed u32[]) -> (state, Generation).

    Its first call, whose state has generation 0, also starts the search. If no chunk is configured, the number of
    parallel training runs is halved until they fit in memory.
    """
    everything = -(-plan.options.population * plan.options.seeds // plan.mesh.size)
    chunk = plan.options.chunk or (1 if backend.runs_members_in_turn() else everything)
    while True:
        method = plan.method(chunk, plan.mesh)
        state = jax.eval_shape(method.init, jax.random.key(0))
        compiled = in_background(jitted(method, plan.mesh).lower(state, np.uint32(0)).compile)
        fits = plan.options.chunk or chunk == 1 or memory.needed(compiled) <= memory.free()
        if distributed.agree(bool(fits)).all():
            return compiled
        chunk = -(-chunk // 2)


def jitted(method: Method, mesh: Mesh) -> jax.stages.Wrapped:
    """Return the jitted function behind `compile_generation`; arguments and results are replicated on all devices."""

    def advance(state: Any, seed: Array) -> tuple[Any, Generation]:
        first = method.init(jax.random.key(seed))
        begins = state.generation == 0
        return method.step(jax.tree.map(lambda new, old: jnp.where(begins, new, old), first, state))

    everywhere = sharding(mesh)
    return backend.jit(advance, graphs=True, in_shardings=everywhere, out_shardings=everywhere)


def template(plan: EvolvePlan, frames: int) -> Checkpoint:
    """Return the shapes and dtypes of a checkpoint."""
    method = plan.method(1)
    state = jax.eval_shape(method.init, jax.random.key(0))
    struct: Any = jax.ShapeDtypeStruct
    return Checkpoint(
        state=state, frames=struct((frames, method.size), np.float32), frame_at=struct((frames,), np.int32)
    )


def blank(shapes: Checkpoint) -> Checkpoint:
    """Return the checkpoint before the first generation, made on the host without compiling anything."""
    zeros = jax.tree.map(trees.zeros, shapes)
    return zeros._replace(frame_at=zeros.frame_at - 1)
