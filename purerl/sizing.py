"""How many environments fit: `--num-envs auto`, and what a rollout holds, said before the run."""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from purerl import memory
from purerl.config import Settings
from purerl.errors import InputError
from purerl.host_program import HostParts
from purerl.plan import Plan, make_plan
from purerl.program import compile_program, lower_training


def check(planned: Plan) -> None:
    """Hold the observations of a rollout to the memory there is.

    Raises:
      InputError: if they do not fit, with what avoids it.
    """
    config, options, there = planned.settings.config, planned.settings.options, memory.total()
    seen = planned.shapes.state.observation
    if not jax.tree.leaves(seen):  # on the host
        batch = (options.seeds, config.num_envs)
        one = planned.env.observation_space.struct
        seen = jax.tree.map(lambda x: jax.ShapeDtypeStruct((*batch, *x.shape), x.dtype), one)
    devices = 1 if jax.default_backend() == "cpu" else planned.parts.mesh.devices.size
    each = memory.nbytes(seen) // (config.num_envs * jax.tree.leaves(seen)[0].shape[0])
    taken = 2 * memory.nbytes(seen) * config.rollout_length  # what was acted on, and what followed
    if taken > there * devices:
        seeds = f" x {options.seeds} seeds" if options.seeds > 1 else ""
        raise InputError(
            f"the observations of a rollout take {taken / 1e9:,.1f} GB: twice {each:,} bytes x {config.num_envs} "
            f"environments x {config.rollout_length} steps{seeds}; there are {there * devices / 1e9:,.1f} GB. "
            f"--num-envs auto takes as many environments as fit{_smaller(planned.env)}"
        )


def _smaller(env: Any) -> str:
    """Return what makes an environment's observations smaller, where it has that."""
    return "; --env.full_observation false is smaller" if getattr(env, "full_observation", False) else ""


def largest(run: Settings) -> tuple[Settings, str]:
    """Return a run with as many environments as fit, and what was chosen, in one line.

    The number is the configured one times a power of two, so that whatever divided it still does. Two small programs
    say what an environment takes, the program of the number that this gives says whether it fits, and a first update
    confirms it. At most, the run is a single update.

    Raises:
      InputError: if not even the configured number fits, or the environments are not JAX's.
    """
    least = run.config.num_envs
    most = int(run.config.total_timesteps) // run.config.rollout_length
    if jax.process_count() > 1:
        raise InputError("num_envs auto is for one process; give a number")
    need = functools.cache(lambda num: _need(run, num))
    first = need(least)
    free = memory.free()
    if first > free:
        raise memory.too_little(f"{run.environment} x {least} environments", first, free)
    each = max(1, (need(2 * least) - first) // least) if 2 * least <= most else 1
    doublings = int(np.log2(max(1, min(most, least + (free - first) // each) // least)))
    while doublings and (need(least << doublings) > free or not _runs(run, least << doublings)):
        doublings -= 1
    num = least << doublings
    beyond = "more would be less than one update" if 2 * num > most else "twice as many would not fit"
    taken = f"{need(num) / 1e9:.3g} GB of the {free / 1e9:.3g} GB free"
    line = f"num_envs auto: {num} environments take {taken}; {beyond}"
    return _with(run, num), line


def _with(run: Settings, num_envs: int) -> Settings:
    return dataclasses.replace(run, config=dataclasses.replace(run.config, num_envs=num_envs))


def _need(run: Settings, num_envs: int) -> int:
    """Return the bytes that the training of so many environments takes, by its compiled program."""
    planned = make_plan(_with(run, num_envs))
    if isinstance(planned.parts, HostParts):
        raise InputError(f"num_envs auto is for environments in JAX; {run.environment} runs on the host: give a number")
    return memory.needed(lower_training(planned.parts, planned.shapes).compile())


def _runs(run: Settings, num_envs: int) -> bool:
    """Return whether a first update has enough memory."""
    planned = make_plan(_with(run, num_envs))
    program = compile_program(planned.parts, planned.shapes)
    try:
        program.advance(program.init(), 1, True)
    except jax.errors.JaxRuntimeError as error:
        if not memory.exhausted(error):
            raise
        return False
    return True
