"""The number of environments that fit in memory, for `--num-envs auto`, and a check of a rollout's size."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import numpy as np

from purerl.devices import memory
from purerl.errors import InputError
from purerl.run.plan import Plan, make_plan
from purerl.run.program import CompiledFunctions
from purerl.settings.runs import Settings
from purerl.types import PyTree
from purerl.xla import backend


def check_all(planned: Plan) -> None:
    """Check that a run fits in the free memory, except its replay, which is checked when it is made."""
    check(planned)
    check_agents(planned)


def check(planned: Plan) -> None:
    """Check that the observations of a rollout fit in the free memory."""
    config, options, there = planned.settings.config, planned.settings.options, memory.free()
    devices = 1 if backend.shares_host() else planned.parts.mesh.devices.size
    seen = planned.shapes.state.observation
    if not jax.tree.leaves(seen):  # on the host
        batch = (options.seeds, config.num_envs)
        one = planned.env.observation_space.struct
        seen = jax.tree.map(lambda x: jax.ShapeDtypeStruct((*batch, *x.shape), x.dtype), one)
    each = memory.nbytes(seen) // (config.num_envs * jax.tree.leaves(seen)[0].shape[0])
    taken = 2 * memory.nbytes(seen) * config.rollout_length  # what was acted on, and what followed
    hint = "; --env.full_observation false is smaller" if getattr(planned.env, "full_observation", False) else ""
    if taken > there * devices:
        seeds = f" x {options.seeds} seeds" if options.seeds > 1 else ""
        raise InputError(
            f"the observations of a rollout take {taken / 1e9:,.1f} GB: twice {each:,} bytes x {config.num_envs} "
            f"environments x {config.rollout_length} steps{seeds}; {there * devices / 1e9:,.1f} GB are free. "
            f"--num-envs auto uses as many environments as fit{hint}"
        )
    vector = memory.nbytes(planned.shapes.state.vector)
    if vector > there * devices:
        raise InputError(
            f"{config.num_envs} environments and their pool of reset states, of {options.seeds} seeds take "
            f"{vector / 1e9:,.1f} GB; {there * devices / 1e9:,.1f} GB are free: reduce num_envs or pool_size"
        )


def check_agents(planned: Plan) -> None:
    """Check that the parameters and the optimizer's state of all seeds fit in the free memory."""
    options, there = planned.settings.options, memory.free()
    devices = 1 if backend.shares_host() else planned.parts.mesh.devices.size
    agent = memory.nbytes(_without_replay(planned.shapes.state.agent))
    if 2 * agent > there * devices:  # twice: an update also holds their gradients, or the new ones
        seeds = f" of {options.seeds} seeds" if options.seeds > 1 else ""
        raise InputError(
            f"parameters and optimizer{seeds} take {agent / 1e9:,.1f} GB, and an update twice as much; "
            f"{there / 1e9:,.1f} GB are free: reduce hidden_sizes"
        )


def _without_replay(agent: PyTree) -> PyTree:
    """Return the shapes of an agent without its replay, which is checked against the memory when it is made."""
    return agent._replace(replay=()) if hasattr(agent, "replay") and hasattr(agent, "_replace") else agent


def largest(run: Settings, tell: Callable[[str], None] = print) -> tuple[Settings, str]:
    """Return a run with as many environments as fit, and one line about the number.

    The number is the configured one times a power of two, so that whatever divided it still does. Compiling the program
    for the configured number gives an upper bound of the memory of an environment. Compiling it for the resulting
    number shows whether that fits and whether twice as many would; a first update confirms it. At most, the run is a
    single update.

    Raises:
      InputError: if not even the configured number fits, or the environments are not JAX's.
    """
    least = run.config.num_envs
    most = int(run.config.total_timesteps) // run.config.rollout_length
    if jax.process_count() > 1:
        raise InputError("num_envs auto is for one process; give a number")

    @functools.cache
    def need(num: int) -> int:
        tell(f"num_envs auto: compiling for {num} environments")
        return _need(run, num)

    def runs(num: int) -> bool:
        tell(f"num_envs auto: trying an update of {num} environments")
        return _runs(run, num)

    first = need(least)
    free = memory.free()
    if first > free:
        raise memory.too_little(f"{run.environment} x {least} environments", first, free)
    num = least << int(np.log2(max(1, min(most // least, free // first))))
    twice = lambda num: need(num) + (need(num) - first) * num // (num - least)  # what twice as many should take
    while 2 * num <= most and (num == least or twice(num) <= free):
        num *= 2
    while num > least and (need(num) > free or not runs(num)):
        num //= 2
    beyond = "more would be less than one update" if 2 * num > most else "twice as many would not fit"
    taken = f"{need(num) / 1e9:.3g} GB of the {free / 1e9:.3g} GB free"
    count = most // num
    updates = "a single update" if count == 1 else f"{count:,} updates"
    line = f"num_envs auto: {num} environments take {taken}; {beyond}; the run is {updates}"
    return _with(run, num), line


def _with(run: Settings, num_envs: int) -> Settings:
    return dataclasses.replace(run, config=dataclasses.replace(run.config, num_envs=num_envs))


def _need(run: Settings, num_envs: int) -> int:
    """Return the bytes of training with this many environments, from its compiled program."""
    planned = make_plan(_with(run, num_envs))
    if not isinstance(planned.parts, CompiledFunctions):
        raise InputError(f"num_envs auto is for environments in JAX; {run.environment} runs on the host: give a number")
    return memory.needed(planned.parts.lower_training(planned.shapes).compile())


def _runs(run: Settings, num_envs: int) -> bool:
    """Return whether a first update fits in memory."""
    planned = make_plan(_with(run, num_envs))
    program = planned.parts.compile(planned.shapes)
    try:
        program.advance(program.init(), 1, True)
    except jax.errors.JaxRuntimeError as error:
        if not memory.exhausted(error):
            raise
        return False
    return True
