"""Bounds of training on a CPU: time of an update, of only its environment, and of only its matrix products, in turn."""

import statistics
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import purerl
from benchmarks import tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import in_turn, progress, spread
from benchmarks.training import HOST, SUITES, TRAINING
from purerl import registry, spaces
from purerl.profiling.flops import each_product
from purerl.training import make_trainer
from purerl.types import Environment, TimeStep, pytree
from purerl.xla import backend

PIXELS = 84
OVERCOOKED, PQN, PONG = SUITES["jaxmarl"][-1], TRAINING[-1], HOST[0]
COLUMNS = tables.columns("task: text; part: text; microseconds per environment step: number; share: share")


@pytree
class Screens(Environment):
    """An environment of Pong's spaces whose steps cost nothing: black frames, no end."""

    @property
    def observation_space(self) -> spaces.Box:
        """Return the space of four frames."""
        return spaces.Box(low=0, high=255, shape=(PIXELS, PIXELS, 4), dtype=jnp.uint8)

    @property
    def action_space(self) -> spaces.Discrete:
        """Return the space of the actions."""
        return spaces.Discrete(6)

    def reset(self, key: Any) -> tuple[Any, Any]:
        """Start."""
        return jnp.float32(0.0), jnp.zeros((PIXELS, PIXELS, 4), jnp.uint8)

    def step(self, key: Any, state: Any, action: Any) -> tuple[Any, TimeStep]:
        """Reward nothing."""
        never = jnp.bool_(False)
        frames = jnp.zeros((PIXELS, PIXELS, 4), jnp.uint8)
        return state, TimeStep(observation=frames, reward=state, terminated=never, truncated=never, info={})


def measure(request: Request) -> list[Table]:
    """Return the parts of IPPO on Overcooked, of PQN on CartPole, and of PPO on frames like Pong's."""
    rows = []
    for task, env in ((OVERCOOKED, None), (PQN, None), (PONG, Screens())):
        factory, cls = registry.algorithm(task.algorithm)
        config: Any = cls(**task.settings)
        env = env or purerl.make(task.environment, **(task.parameters or {}))
        label = f"{task.name}, {'black frames' if task is PONG else task.environment}"
        found = parts(factory, env, config, request.runs)
        progress(f"{label}: {', '.join(f'{part} {share:.0%}' for part, _, share in found)}")
        rows += [[label, *row] for row in found]
    return [Table(title="An update, and parts of it alone", columns=COLUMNS, rows=rows)]


def parts(factory: Any, env: Any, config: Any, runs: int) -> list[list[Any]]:
    """Return (part, microseconds per environment step, share of the update) of an update and what it consists of."""
    trainer = make_trainer(factory, env, config)
    state = jax.jit(trainer.init)(jax.random.key(0))
    update = jax.jit(trainer.step)
    calls = {
        "an update": lambda: update(state),
        "the environment, constant actions": playing(env, config),
        "matrix products": products_alone(each_product(trainer.step, state)),
    }
    timed = dict(zip(calls, in_turn(list(calls.values()), runs), strict=True))
    whole, steps = statistics.median(timed["an update"]), config.steps_per_update
    cell = lambda seconds: spread([1e6 * one / steps for one in seconds])
    return [[name, cell(seconds), statistics.median(seconds) / whole] for name, seconds in timed.items()]


def playing(env: Any, config: Any) -> Callable[[], Any]:
    """Return a program that plays a rollout with one action, resets included."""
    vector = purerl.vectorize(env, config.num_envs)
    action = jax.vmap(env.action_space.sample)(jax.random.split(jax.random.key(0), config.num_envs))
    state, _ = jax.jit(vector.reset)(jax.random.key(0))

    def play(state: Any, key: Any) -> tuple[Any, Any]:
        def step(state: Any, key: Any) -> tuple[Any, Any]:
            state, observation, timestep = vector.step(key, state, action)
            return state, (observation, timestep)

        return jax.lax.scan(step, state, jax.random.split(key, config.rollout_length))

    run = backend.jit(play)
    return lambda: run(state, jax.random.key(0))


def products_alone(found: list[tuple[Any, float]]) -> Callable[[], Any]:
    """Return a program that computes so many products of these shapes, of arrays in the cache as far as they fit."""
    calls = []
    for equation, times in found:
        operands = [jnp.ones(x.aval.shape, x.aval.dtype) for x in equation.invars]
        calls.append((backend.jit(_repeated(equation, int(times))), operands))
    return lambda: [jax.block_until_ready(run(*operands)) for run, operands in calls]


def _repeated(equation: Any, times: int) -> Callable[..., Any]:
    """Return a program that computes a product so often; each depends on the one before."""

    def run(first: Any, *others: Any) -> Any:
        def again(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
            first, before = carry
            first = first.at[(0,) * first.ndim].add(before.reshape(-1)[0].astype(first.dtype))
            return (first, equation.primitive.bind(first, *others, **equation.params)), None

        result = jnp.zeros(equation.outvars[0].aval.shape, equation.outvars[0].aval.dtype)
        return jax.lax.scan(again, (first, result), None, length=times)[0]

    return run
