"""How fast environments are alone, under random actions, beside gymnax's own.

jit over scan over vmap, each program with its own default generator. The programs of a row run in turn and the median
of each is shown. Nothing is dead code: rewards are summed, observations and states are carried. The share of the reset
is one minus the time of the same environment with starts that cost nothing.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import purerl
from purerl.benchmark.tables import Table
from purerl.benchmark.timing import in_turn, ratios, spread
from purerl.fields import number, pytree
from purerl.groups import mean_reward
from purerl.prng import convert
from purerl.types import Environment, Key, PyTree
from purerl.vector import vectorize
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
COLUMNS = [
    ("environment", "text"),
    ("environments", "count"),
    ("steps/s", "rate"),
    ("gymnax", "rate"),
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
            state, observation, taken = vector.step(key_step, state, action)
            return (state, observation, sample(key_action), total + jnp.sum(mean_reward(taken.reward))), None

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


def measure(env_ids: Sequence[str], sizes: Sequence[int], against: bool, runs: int, seconds: float = 0.1) -> Table:
    """Return the speed of environments.

    Args:
      env_ids: which.
      sizes: how many instances, such as 64 and 2048.
      against: whether gymnax's are measured, too.
      runs: timed calls per program.
      seconds: about how long a call takes.
    """
    rows = [measure_one(env_id, size, against, runs, seconds) for env_id in env_ids for size in sizes]
    return Table("Environments under random actions", COLUMNS, rows)


def measure_one(env_id: str, num_envs: int, against: bool, runs: int, seconds: float) -> list[Any]:
    """Return the row of one environment."""
    env = purerl.make(env_id)
    state, observation = jax.jit(env.reset)(convert(jax.random.key(0), "fast"))
    makers = [ours(env, num_envs), ours(FreeStart(env, state=state, observation=observation), num_envs)]
    opponent = opponent_of(env_id) if against else None
    if opponent is not None:
        makers.append(gymnax_program(opponent, num_envs))
    programs = [build(maker, num_envs, seconds) for maker in makers]
    key = jax.random.key(1)
    timed = in_turn([lambda program=program: program.call(key) for program in programs], runs)
    per_step = [[s / program.steps for s in times] for times, program in zip(timed, programs, strict=True)]
    rates = [spread([1 / s for s in times]) for times in per_step]
    share = max(1 - min(per_step[1]) / min(per_step[0]), 0.0)
    theirs, ratio = (rates[2], ratios(per_step[2], per_step[0])) if opponent else (None, None)
    return [env_id, num_envs, rates[0], theirs, ratio, share, programs[0].compile_seconds]
