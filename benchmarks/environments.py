"""How fast environments are alone, under random actions, beside gymnax's own and those that step on the host.

jit over scan over vmap, each program with its own default generator. The programs of a row run in turn and the median
of each is shown. Nothing is dead code: rewards are summed, observations and states are carried. The share of the reset
is one minus the time of the same environment with starts that cost nothing.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import purerl
from benchmarks.contest import Contender, Failed, Task
from benchmarks.opponents import Opponent
from benchmarks.tables import Table
from benchmarks.timing import in_turn, ratios, spread, tell
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
COLUMNS = [
    ("environment", "text"),
    ("environments", "count"),
    ("by", "text"),
    ("steps/s", "rate"),
    ("purerl against it", "ratio"),
    ("share of resets", "share"),
    ("compile", "seconds"),
]
Program = Callable[[Key], Any]


@pytree
class FreeStart(Wrapper):
    """Starts every episode the same way, at no cost."""

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
    vector = vectorize(env, num_envs, policy)
    sample = lambda key: jax.vmap(env.action_space.sample)(jax.random.split(key, num_envs))

    def run(length: int, key: Key) -> Any:
        key = convert(key, generator)
        state, observation = vector.reset(key)

        # The next action is carried, as one from a network would be in memory: XLA would otherwise draw it anew for
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
    call = jax.jit(of_length(probe)).lower(key).compile()
    length = max(8, int(probe * seconds / min(in_turn([lambda: call(key)], 3)[0])))
    began = time.perf_counter()
    call = jax.jit(of_length(length)).lower(key).compile()
    return Compiled(call, length * num_envs, time.perf_counter() - began)


def opponent_of(env_id: str) -> str | None:
    """Return gymnax's name of the same task, or None."""
    import gymnax

    name = GYMNAX.get(env_id, env_id)
    return name if name in gymnax.registered_envs else None


def measure(
    env_ids: Sequence[str],
    sizes: Sequence[int],
    gymnax: bool,
    hosts: Sequence[Opponent],
    runs: int,
    seconds: float = 0.1,
) -> Table:
    """Return the speed of environments.

    Args:
      env_ids: which.
      sizes: how many instances, such as 64 and 2048.
      gymnax: whether gymnax's are measured, too.
      hosts: who else steps environments, on the host; of those in `HOSTED`.
      runs: timed calls per program.
      seconds: about how long a call takes.
    """
    cases = [(env_id, size) for env_id in env_ids for size in sizes]
    rows = [row for env_id, size in cases for row in measure_one(env_id, size, gymnax, hosts, runs, seconds)]
    return Table("Environments under random actions", COLUMNS, rows)


def measure_one(
    env_id: str, num_envs: int, gymnax: bool, hosts: Sequence[Opponent], runs: int, seconds: float
) -> list[list[Any]]:
    """Return the rows of one environment: purerl's, and one per opponent that has it."""
    env = purerl.make(env_id)
    state, observation = jax.jit(env.reset)(convert(jax.random.key(0), "fast"))
    makers = [ours(env, num_envs), ours(FreeStart(env, state=state, observation=observation), num_envs)]
    opponent = opponent_of(env_id) if gymnax else None
    if opponent is not None:
        makers.append(gymnax_program(opponent, num_envs))
    programs = [build(maker, num_envs, seconds) for maker in makers]
    key = jax.random.key(1)
    timed = in_turn([lambda program=program: program.call(key) for program in programs], runs)
    rates = [[program.steps / s for s in times] for times, program in zip(timed, programs, strict=True)]
    share = max(1 - max(rates[0]) / max(rates[1]), 0.0)
    begin = [env_id, num_envs]
    tell(f"{env_id} x {num_envs}: {statistics.median(rates[0]):,.0f} steps/s")
    rows = [[*begin, "purerl", spread(rates[0]), None, share, programs[0].compile_seconds]]
    if opponent is not None:
        rows.append([*begin, "gymnax", spread(rates[2]), ratios(rates[0], rates[2]), None, programs[2].compile_seconds])
    call = lambda: programs[0].call(key)
    for host in hosts if env_id in HOSTED else ():
        task = Task(env_id, host.name, env_id, 0, {"num_envs": num_envs, "seconds": seconds})
        rows.append([*begin, host.name, *against_host(host, task, call, programs[0].steps, runs), None, None])
    return rows


def against_host(host: Opponent, task: Task, ours: Callable[[], Any], steps: int, runs: int) -> tuple[Any, Any]:
    """Return (its steps/s, or why there are none; ours against it), `ours` of so many steps in turn with it."""
    mine, theirs = [], []
    try:
        with Contender(task, host) as contender:
            for _ in range(runs):
                mine.append(steps / in_turn([ours], 1)[0][0])
                spent, made = contender.train(0)
                theirs.append(made / spent)
    except Failed as failure:
        return f"did not start: {failure}", None
    return spread(theirs), ratios(mine, theirs)
