"""Speed of environments under random actions, compared with gymnax's and those that step on the host.

Each program is jit over scan over vmap, with its own default generator. The programs of a row run in turn; medians are
shown. Nothing is dead code: rewards are summed, observations and states are carried. The share of resets is one
minus the relative time of the same environment with resets that cost nothing.
"""

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import purerl
from benchmarks import tables
from benchmarks.contest import Failed, FrameworkProcess, Problem
from benchmarks.groups import Request
from benchmarks.opponents import Opponent
from benchmarks.tables import FAILED, Table
from benchmarks.timing import compiled, in_turn, progress, ratios, seconds_of, spread
from purerl.agent_groups import mean_reward
from purerl.fields import number, pytree
from purerl.loop.vector import vectorize
from purerl.prng import convert
from purerl.types import Environment, Key, PyTree
from purerl.wrappers import Wrapper

GYMNAX = {  # where the name there is another one
    "Catch": "Catch-bsuite",
    "DeepSea": "DeepSea-bsuite",
    "DiscountingChain": "DiscountingChain-bsuite",
    "MemoryChain": "MemoryChain-bsuite",
    "SimpleBandit": "SimpleBandit-bsuite",
    "UmbrellaChain": "UmbrellaChain-bsuite",
    "BernoulliBandit": "BernoulliBandit-misc",
    "GaussianBandit": "GaussianBandit-misc",
    "FourRooms": "FourRooms-misc",
    "FrozenLake-v1": "FrozenLake-misc",
    "Reacher": "Reacher-misc",
    "PointMass": "PointRobot-misc",
}
HOSTED = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
COLUMNS = tables.columns(
    "environment: text; environments: count; by: text; steps/s: rate; purerl against it: ratio; "
    "share of resets: share; compile: seconds"
)
Program = Callable[[Key], Any]


@pytree
class FreeStart(Wrapper):
    """An environment whose episodes all start from one stored state, at no cost."""

    state: Any = number()
    observation: Any = number()

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Return the stored start."""
        return self.state, self.observation


class Compiled(NamedTuple):
    """A program and how many environment steps a call makes."""

    call: Program
    steps: int
    compile_seconds: float


def ours(env: Environment, num_envs: int, policy: str = "auto", generator: str = "fast") -> Callable[[int], Program]:
    """Return length -> program of a native environment."""
    vector = vectorize(env, num_envs, policy, prng=generator)
    sample = vector.sample

    def run(length: int, key: Key) -> Any:
        state, observation = vector.reset(key)

        # The next action is carried, as one from a network would be in memory: XLA would otherwise sample it again for
        # every number that depends on it. The opponent's program does the same.
        def step(carry: tuple, time: jax.Array) -> tuple[tuple, None]:
            state, _, action, total = carry
            key_action, key_step = jax.random.split(jax.random.fold_in(key, time))
            state, observation, timestep = vector.step(key_step, state, action)
            return (state, observation, sample(key_action), total + jnp.sum(mean_reward(timestep.reward))), None

        carry, _ = jax.lax.scan(step, (state, observation, sample(key), jnp.float32(0)), jnp.arange(length))
        return carry

    return lambda length: lambda key: run(length, key)


def gymnax_program(name: str, num_envs: int) -> Callable[[int], Program]:
    """Return length -> program of a gymnax environment, its own `step` with its own auto-reset."""
    import gymnax

    env, params = gymnax.make(name)
    sample = lambda key: jax.vmap(env.action_space(params).sample)(jax.random.split(key, num_envs))

    def run(length: int, key: Key) -> Any:
        observation, state = jax.vmap(lambda k: env.reset(k, params))(jax.random.split(key, num_envs))

        def step(carry: tuple, _: Any) -> tuple[tuple, None]:
            key, state, _, action, total = carry
            key, key_action, key_step = jax.random.split(key, 3)
            with jax.numpy_dtype_promotion("standard"):  # it mixes types
                observation, state, reward, *_ = jax.vmap(lambda k, s, a: env.step(k, s, a, params))(
                    jax.random.split(key_step, num_envs), state, action
                )
            return (key, state, observation, sample(key_action), total + jnp.sum(reward)), None

        carry, _ = jax.lax.scan(step, (key, state, observation, sample(key), jnp.float32(0)), None, length)
        return carry

    return lambda length: lambda key: run(length, key)


def build(of_length: Callable[[int], Program], num_envs: int, seconds: float) -> Compiled:
    """Compile a program whose call takes about `seconds`."""
    probe = max(8, 16384 // num_envs)
    key = jax.random.key(0)
    call, _ = compiled(of_length(probe), key)
    length = max(8, int(probe * seconds / min(in_turn([lambda: call(key)], 3)[0])))
    call, compile_seconds = compiled(of_length(length), key)
    return Compiled(call=call, steps=length * num_envs, compile_seconds=compile_seconds)


def opponent_of(env_id: str) -> str | None:
    """Return gymnax's name of the same task, or None."""
    import gymnax

    name = GYMNAX.get(env_id, env_id)
    return name if name in gymnax.registered_envs else None


def measure(request: Request) -> list[Table]:
    """Return the speed of 64 and 2048 instances of each environment."""
    sizes = (2048,) if request.size < 1 else (64, 2048)
    rows = [row for env_id in request.envs for num_envs in sizes for row in measure_one(env_id, num_envs, request)]
    return [Table(title="Environments under random actions", columns=COLUMNS, rows=rows)]


def measure_one(env_id: str, num_envs: int, request: Request) -> list[list[Any]]:
    """Return the rows of one environment: purerl's, and one per opponent that has it."""
    env, seconds = purerl.make(env_id), 0.1 * request.size
    state, observation = jax.jit(env.reset)(convert(jax.random.key(0), "fast"))
    makers = [ours(env, num_envs), ours(FreeStart(env, state=state, observation=observation), num_envs)]
    opponent = opponent_of(env_id) if request.gymnax else None
    if opponent is not None:
        makers.append(gymnax_program(opponent, num_envs))
    programs = [build(maker, num_envs, seconds) for maker in makers]
    key = jax.random.key(1)
    timed = in_turn([lambda program=program: program.call(key) for program in programs], request.runs)
    rates = [[program.steps / s for s in times] for times, program in zip(timed, programs, strict=True)]
    share = max(1 - max(rates[0]) / max(rates[1]), 0.0)
    progress(f"{env_id} x {num_envs}: {statistics.median(rates[0]):,.0f} steps/s")
    row = [env_id, num_envs]
    rows = [[*row, "purerl", spread(rates[0]), None, share, programs[0].compile_seconds]]
    if opponent is not None:
        rows.append([*row, "gymnax", spread(rates[2]), ratios(rates[0], rates[2]), None, programs[2].compile_seconds])
    call = lambda: programs[0].call(key)
    for host in request.hosts if env_id in HOSTED else ():
        settings = {"num_envs": num_envs, "seconds": seconds}
        problem = Problem(name=env_id, algorithm=host.name, environment=env_id, steps=0, settings=settings)
        cells = against_host(host, problem, call, programs[0].steps, request.runs)
        rows.append([*row, host.name, *cells, None, None])
    return rows


def against_host(
    host: Opponent, problem: Problem, ours: Callable[[], Any], steps: int, runs: int
) -> tuple[Any, dict[str, float] | None]:
    """Return (the host's steps/s, or its error; the ratio of `ours`), `ours` of so many steps in turn with it."""
    our_rates, host_rates = [], []
    try:
        with FrameworkProcess(problem, host) as worker:
            jax.block_until_ready(ours())
            for _ in range(runs):
                our_rates.append(steps / seconds_of(ours))
                spent, made, *_ = worker.train(0)
                host_rates.append(made / spent)
    except Failed as failure:
        return f"{FAILED}{failure}", None
    return spread(host_rates), ratios(our_rates, host_rates)
