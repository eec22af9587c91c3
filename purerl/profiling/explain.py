"""Estimates the cost of a run before it starts: a short test, its parts, and settings that might be faster."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVarTuple

import jax

from purerl.devices import memory
from purerl.devices.memory import nbytes
from purerl.errors import InputError
from purerl.loop.extension import MakeFromSetup, Setup
from purerl.loop.train import CompiledTrainer, TrainState, collect, whole_updates
from purerl.loop.vector import VectorEnvironment
from purerl.prng import convert
from purerl.profiling.flops import operations
from purerl.run import sizing
from purerl.run.lifecycle import cause_of
from purerl.run.plan import made, make_plan
from purerl.run.program import EVALUATION_BATCH
from purerl.settings.runs import Settings
from purerl.types import Config, Key, PyTree, Rollout, TimeStep
from purerl.xla import backend

Ts = TypeVarTuple("Ts")

PEAK_SIZE = 2048  # size of the matrices whose product measures the machine's peak


class PartCost(NamedTuple):
    """The cost of a part of a run, per environment step."""

    name: str
    operations: float  # arithmetic operations
    seconds: float
    compile_seconds: float  # that it adds to the program


class Compilation(NamedTuple):
    """The seconds until a function is compiled."""

    tracing: float
    compiling: float

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return self.tracing + self.compiling


class Option(NamedTuple):
    """The speed with another setting."""

    flags: str  # as on the command line
    steps_per_second: float  # steps of all agents together


class Explanation(NamedTuple):
    """The cost of a run."""

    num_updates: int
    steps_per_update: int
    parts: tuple[PartCost, ...]  # environment, policy, learning
    agent: dict[str, int]  # bytes, by the agent's own names
    environments: int  # bytes of their states
    rollout: int  # bytes
    program: int  # bytes that a call of the compiled update takes, all of these included
    compilation: dict[str, Compilation]  # the programs that a run compiles in parallel: start, update, evaluation
    steps_per_second: float
    peak: float  # operations/s of a float32 matrix product on this machine
    options: tuple[Option, ...]  # the fastest first


class TimedUpdate(NamedTuple):
    """A compiled update and its time."""

    compiled: Any
    state: TrainState  # after enough updates that learning has begun
    start: Compilation
    update: Compilation
    seconds: float  # per update


def explain(run: Settings, tell: Callable[[str], None] = lambda text: None) -> Explanation:
    """Try a run briefly; `tell` receives a line about each slow step."""
    whole_updates(run.config)  # refuses more steps than an update can count
    found = made(run)
    trainer = found.trainer()
    if not isinstance(trainer, CompiledTrainer) or type(trainer).step is not CompiledTrainer.step:
        names = ", ".join(row.name for row in found.extensions) or "this run"
        raise InputError(f"explain measures the compiled loop only, which {names} replaces")
    sizing.check_all(make_plan(run))  # as a run is, before anything is compiled
    setup = found.setup._replace(config=_short_wait(run.config))
    config = setup.config
    tell(
        f"compiling {run.algorithm} on {run.environment} in a few forms, and timing each: this takes a few minutes ..."
    )
    try:
        timed = _timed_update(found.make, setup, run.options.seeds)
    except jax.errors.JaxRuntimeError as error:  # such as for more memory than there is
        raise InputError(f"{run.algorithm} on {run.environment} cannot be tried: {cause_of(error)}") from None
    tell(f"an update: {timed.seconds * 1e3:.3g} ms, compiled in {timed.update.total:.3g} s; now its parts ...")
    steps = config.steps_per_update * run.options.seeds
    one = jax.eval_shape(trainer.init, jax.random.key(0))
    key = convert(jax.random.key(0), config.prng)

    def rollout(state: TrainState) -> tuple[TrainState, Rollout]:
        return collect(trainer.algorithm, trainer.vector, state, key, config.rollout_length)

    environment_alone = partial(_environment_alone, trainer.vector, key, config)
    evaluate = lambda agent: trainer.evaluate(agent, key, EVALUATION_BATCH)
    _, evaluation = _compiled(jax.vmap(evaluate), timed.state.agent)
    (act, compiling_act), (move, compiling_move) = (
        _compiled(jax.vmap(f), timed.state) for f in (rollout, environment_alone)
    )
    upto = {  # each includes those before it: operations, seconds, seconds of compilation
        "environment": (operations(environment_alone, one), _seconds(move, timed.state), compiling_move.total),
        "policy": (operations(rollout, one), _seconds(act, timed.state), compiling_act.total),
        "learning": (operations(trainer.step, one), timed.seconds, timed.update.total),
    }
    per_step = config.steps_per_update
    return Explanation(
        num_updates=int(config.total_timesteps) // per_step,
        steps_per_update=per_step,
        parts=_parts(upto, per_step, steps),
        agent={name: nbytes(part) for name, part in _named(one.agent).items()},
        environments=nbytes(one.vector),
        rollout=nbytes(jax.eval_shape(rollout, one)[1]),
        program=memory.needed(timed.compiled),
        compilation={"start": timed.start, "update": timed.update, "evaluation": evaluation},
        steps_per_second=steps / timed.seconds,
        peak=matmul_peak(),
        options=_options(found.make, setup, run.options.seeds, tell),
    )


def _environment_alone(vector: VectorEnvironment, key: Key, config: Config, state: TrainState) -> PyTree:
    """Step the environments of a rollout with fixed random actions, without a policy."""
    action = jax.vmap(vector.env.action_space.sample)(jax.random.split(key, config.num_envs))

    def step(carry: tuple[PyTree, PyTree], key: Key) -> tuple[tuple[PyTree, PyTree], TimeStep]:
        after, observation, timestep = vector.step(key, carry[0], action)
        return (after, observation), timestep

    return jax.lax.scan(step, (state.vector, state.observation), jax.random.split(key, config.rollout_length))


def _parts(upto: Mapping[str, tuple[float, float, float]], per_step: int, steps: int) -> tuple[PartCost, ...]:
    """Return the cost of each part alone, per environment step, from the cumulative costs of the parts."""
    before, parts = (0.0, 0.0, 0.0), []
    for name, now in upto.items():
        count, time, compiling = (max(y - x, 0.0) for x, y in zip(before, now, strict=True))
        parts.append(PartCost(name=name, operations=count / per_step, seconds=time / steps, compile_seconds=compiling))
        before = now
    return tuple(parts)


def matmul_peak() -> float:
    """Return operations/s of a float32 product of two 2048 x 2048 matrices, the best of several."""
    a = jax.random.normal(jax.random.key(0), (PEAK_SIZE, PEAK_SIZE))
    return 2 * PEAK_SIZE**3 / _seconds(jax.jit(lambda x: x @ x), a)


def _short_wait(config: Any) -> Any:
    """Return the config with learning from the start, so that a short test includes it."""
    if not hasattr(config, "learning_starts"):
        return config
    stored = getattr(config, "sequence_length", 1) + getattr(config, "n_step", 0)
    least = max(config.samples_per_gradient, config.num_envs * stored)
    return dataclasses.replace(config, learning_starts=min(config.learning_starts, 4 * least))


def _timed_update(make: MakeFromSetup, setup: Setup, seeds: int) -> TimedUpdate:
    trainer, config = make(setup), setup.config
    keys = jax.random.split(jax.random.key(0), seeds)
    init = jax.vmap(trainer.init)
    init, start = _compiled(init, keys, compiler_options=backend.start_options(jax.eval_shape(init, keys)))
    state, options = init(keys), backend.compiler_options()
    step = jax.vmap(lambda state: trainer.step(state))
    compiled, update = _compiled(step, state, compiler_options=options, donate_argnums=0)
    warm = math.ceil(getattr(config, "learning_starts", 0) / config.steps_per_update) + 1
    seconds, total, best = 0.0, 0, math.inf
    while total < warm + 3 or seconds < 1.0:  # at least a second of updates that learn
        began = time.perf_counter()
        state, _ = jax.block_until_ready(compiled(state))
        total += 1
        if total > warm:
            seconds += time.perf_counter() - began
            best = min(best, time.perf_counter() - began)
    return TimedUpdate(compiled=compiled, state=state, start=start, update=update, seconds=best)


def _compiled(function: Callable[[*Ts], PyTree], *args: *Ts, **options: Any) -> tuple[jax.stages.Compiled, Compilation]:
    began = time.perf_counter()
    lowered = jax.jit(function, **options).lower(*args)
    traced = time.perf_counter()
    compiled = lowered.compile()
    return compiled, Compilation(tracing=traced - began, compiling=time.perf_counter() - traced)


def _seconds(function: Callable[[*Ts], PyTree], *args: *Ts, least: float = 1.0) -> float:
    """Return the seconds of a call after the first, the best of as many as fit into `least` seconds."""
    jax.block_until_ready(function(*args))
    total, best = 0.0, math.inf
    while total < least:
        began = time.perf_counter()
        jax.block_until_ready(function(*args))
        best = min(best, time.perf_counter() - began)
        total += time.perf_counter() - began
    return best


def _named(agent: PyTree) -> dict[str, PyTree]:
    if isinstance(agent, dict):
        return agent
    return agent._asdict() if hasattr(agent, "_asdict") else {"agent": agent}


def _options(make: MakeFromSetup, setup: Setup, seeds: int, tell: Callable[[str], None]) -> tuple[Option, ...]:
    """Try settings that often help; some of them change what is learned."""
    config = setup.config
    changes: list[tuple[int, dict[str, Any]]] = [(seeds, {"num_envs": 4 * config.num_envs})]
    if getattr(config, "num_minibatches", 1) % 2 == 0:
        changes.append((seeds, {"num_minibatches": config.num_minibatches // 2}))
    if hasattr(config, "num_gradient_steps"):
        more = {"num_gradient_steps": 4 * config.num_gradient_steps, "rollout_length": 4 * config.rollout_length}
        changes.append((seeds, more))
    changes.append((8 * seeds, {}))
    tried = []
    for count, change in changes:
        flags = [f"--{name.replace('_', '-')} {value}" for name, value in change.items()]
        flags += [f"--seeds {count}"] if count != seeds else []
        tell(f"trying {' '.join(flags)} ...")
        try:
            other = dataclasses.replace(config, **change)
            timed = _timed_update(make, setup._replace(config=other), count)
        except InputError:  # the change contradicts another setting
            continue
        tried.append(Option(" ".join(flags), other.steps_per_update * count / timed.seconds))
    return tuple(sorted(tried, key=lambda option: -option.steps_per_second))


def lines(run: Settings, explained: Explanation) -> list[str]:
    """Return an explanation as lines of text."""
    total = sum(part.seconds for part in explained.parts)
    all_operations = sum(part.operations for part in explained.parts)
    rate = explained.steps_per_second
    timesteps = explained.num_updates * explained.steps_per_update * run.options.seeds
    agents = f"{run.options.seeds} agents" if run.options.seeds > 1 else "one agent"
    share = all_operations * rate / explained.peak
    names = ", ".join(f"{name} {_size(count)}" for name, count in explained.agent.items() if count)
    compilation = ", ".join(
        f"{name} {took.total:.1f} s ({took.tracing:.1f} s of it tracing)"
        for name, took in explained.compilation.items()
    )
    out = [
        f"{run.algorithm} on {run.environment}: {agents}, {explained.num_updates:,} updates of "
        f"{explained.steps_per_update:,} environment steps, on {jax.devices()[0].device_kind}",
        "",
        f"{'per environment step':22}{'operations':>12}{'time':>12}{'share':>8}{'compiles in':>14}",
    ]
    for part in explained.parts:
        shown = (_count(part.operations), f"{part.seconds * 1e6:.3g} us", f"{100 * part.seconds / total:.0f}%")
        out.append(f"  {part.name:20}{shown[0]:>12}{shown[1]:>12}{shown[2]:>8}{part.compile_seconds:>12.1f} s")
    out += [
        f"  {'total':20}{_count(all_operations):>12}{total * 1e6:>9.3g} us",
        "",
        f"compilation   {compilation}; in parallel in a run",
        f"speed         {rate:,.0f} environment steps/s, so {timesteps:,} take {_duration(timesteps / rate)}; "
        f"{100 * share:.0f}% of this machine's float32 matrix products ({explained.peak / 1e9:,.0f} G/s)",
        f"memory        {_size(explained.program)} for the program; per agent: {names}, environments "
        f"{_size(explained.environments)}, rollout {_size(explained.rollout)}",
        "",
        "speed with other settings, measured briefly (all except --seeds change what the agent learns):",
    ]
    width = max((len(option.flags) for option in explained.options), default=0)
    out += [f"  {o.flags:{width}}  {o.steps_per_second / rate:5.2f}x" for o in explained.options]
    return out


def _count(number: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"


def _size(number: float) -> str:
    return f"{_count(number)}B" if number >= 1e3 else f"{number:.0f} B"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
