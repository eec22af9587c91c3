"""How fast environments are, against gymnax in the same run: `python scripts/benchmark_environments.py`.

Random actions, jit over scan over vmap, each program with its own default generator. The programs of a row run in turn,
A B C A B C, and the median of each is shown, so that a busy machine slows all alike. Nothing is dead code: rewards are
summed, observations and states are carried. The share of the reset is one minus the time of the same environment with
starts that cost nothing. It and the second ratio are of the least processor time on a CPU, which other work on the
machine disturbs less, and of wall-clock time elsewhere.
"""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import purerl
from purerl.fields import number, pytree
from purerl.groups import mean_reward
from purerl.prng import convert
from purerl.registry import ENVIRONMENTS
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


@pytree
class FreeStart(Wrapper):
    """Starts every episode the same way, at no cost."""

    state: Any = number()
    observation: Any = number()

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Return the stored start."""
        return self.state, self.observation


class Program(NamedTuple):
    """A compiled program and how many environment steps a call makes."""

    call: Callable[[Key], Any]
    steps: int
    compile_seconds: float


def ours(env: Environment, num_envs: int, policy: str, generator: str) -> Callable[[int], Callable[[Key], Any]]:
    """Return length -> program of a native environment."""
    vector = vectorize(env, num_envs, policy)

    def of_length(length: int) -> Callable[[Key], Any]:
        def run(key: Key) -> Any:
            key = convert(key, generator)
            state, observation = vector.reset(key)
            sample = lambda key: jax.vmap(env.action_space.sample)(jax.random.split(key, num_envs))

            # The next action is carried, as one from a network would be in memory: XLA would otherwise draw it anew
            # for every number that depends on it. The opponent's program does the same.
            def step(carry: tuple, time: jax.Array) -> tuple[tuple, None]:
                state, _, action, total = carry
                key_action, key_step = jax.random.split(jax.random.fold_in(key, time))
                state, observation, taken = vector.step(key_step, state, action)
                return (state, observation, sample(key_action), total + jnp.sum(mean_reward(taken.reward))), None

            carry, _ = jax.lax.scan(step, (state, observation, sample(key), jnp.float32(0)), jnp.arange(length))
            return carry

        return run

    return of_length


def gymnax_program(name: str, num_envs: int) -> Callable[[int], Callable[[Key], Any]]:
    """Return length -> program of a gymnax environment, its own `step` with its own auto-reset."""
    import gymnax

    env, params = gymnax.make(name)

    def of_length(length: int) -> Callable[[Key], Any]:
        def run(key: Key) -> Any:
            observation, state = jax.vmap(lambda k: env.reset(k, params))(jax.random.split(key, num_envs))

            sample = lambda key: jax.vmap(env.action_space(params).sample)(jax.random.split(key, num_envs))

            def step(carry: tuple, _: Any) -> tuple[tuple, None]:
                key, state, _, action, total = carry
                key, key_action, key_step = jax.random.split(key, 3)
                observation, state, reward, *_ = jax.vmap(lambda k, s, a: env.step(k, s, a, params))(
                    jax.random.split(key_step, num_envs), state, action
                )
                return (key, state, observation, sample(key_action), total + jnp.sum(reward)), None

            carry, _ = jax.lax.scan(step, (key, state, observation, sample(key), jnp.float32(0)), None, length)
            return carry

        return run

    return of_length


def build(of_length: Callable[[int], Callable[[Key], Any]], num_envs: int, seconds: float) -> Program:
    """Compile a program whose call takes about `seconds`."""
    probe = max(8, 16384 // num_envs)
    call = jax.jit(of_length(probe)).lower(jax.random.key(0)).compile()
    length = max(8, int(probe * seconds / min(timed(call, i)[0] for i in range(3))))
    start = time.perf_counter()
    call = jax.jit(of_length(length)).lower(jax.random.key(0)).compile()
    return Program(call, length * num_envs, time.perf_counter() - start)


def timed(call: Callable[[Key], Any], seed: int) -> tuple[float, float]:
    """Return the seconds that one call takes: (by the clock, of the processor; on an accelerator the clock's twice)."""
    key = jax.block_until_ready(jax.random.key(seed))
    start, processor = time.perf_counter(), time.process_time()
    jax.block_until_ready(call(key))
    clock, processor = time.perf_counter() - start, time.process_time() - processor
    return clock, processor if jax.default_backend() == "cpu" else clock


def measure(env_id: str, num_envs: int, args: argparse.Namespace) -> dict[str, float]:
    """Return steps per second by program, the ratios to gymnax and the share of the reset (NaN: none)."""
    env = purerl.make(env_id)
    state, observation = jax.jit(env.reset)(convert(jax.random.key(0), args.prng))
    free = FreeStart(env, state=state, observation=observation)
    makers = {
        "purerl": ours(env, num_envs, args.reset_policy, args.prng),
        "free": ours(free, num_envs, args.reset_policy, args.prng),
    }
    opponent = None if args.alone else opponent_of(env_id)
    if opponent is not None:
        makers["gymnax"] = gymnax_program(opponent, num_envs)
    programs = {name: build(maker, num_envs, args.seconds) for name, maker in makers.items()}
    clock: dict[str, list[float]] = {name: [] for name in programs}
    processor: dict[str, list[float]] = {name: [] for name in programs}
    for repeat in range(args.repeats):
        for name, program in programs.items():
            seconds = timed(program.call, repeat)
            clock[name].append(program.steps / seconds[0])
            processor[name].append(program.steps / seconds[1])
    nan = float("nan")
    best = {name: max(values) for name, values in processor.items()}
    paired = [a / b for a, b in zip(clock["purerl"], clock.get("gymnax", []), strict=False)]
    return {
        "purerl": statistics.median(clock["purerl"]),
        "gymnax": statistics.median(clock["gymnax"]) if paired else nan,
        "ratio": statistics.median(paired) if paired else nan,
        "processor_ratio": best["purerl"] / best["gymnax"] if paired else nan,
        "share": 1 - best["purerl"] / best["free"],
        "compile": programs["purerl"].compile_seconds,
    }


def opponent_of(env_id: str) -> str | None:
    """Return gymnax's name of the same task, or None."""
    import gymnax

    name = GYMNAX.get(env_id, env_id)
    return name if name in gymnax.registered_envs else None


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="*", default=list(ENVIRONMENTS), help="ids; all native ones if none is given")
    parser.add_argument("--num-envs", nargs="*", type=int, default=[2048], help="instances, such as 1 64 2048 16384")
    parser.add_argument("--repeats", type=int, default=7, help="timed calls per program")
    parser.add_argument("--seconds", type=float, default=0.1, help="how long a call should take")
    parser.add_argument("--reset-policy", default="auto", help="auto, spare, always or pool")
    parser.add_argument("--prng", default="fast", help="fast, threefry or rbg")
    parser.add_argument("--alone", action="store_true", help="without gymnax")
    args = parser.parse_args()
    device = jax.devices()[0]
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"jax {jax.__version__}, {device.device_kind}, {os.cpu_count()} CPU cores, {platform.platform()}")
    print(f"load at the start {load:.1f}; medians of {args.repeats}; {args.prng}, reset {args.reset_policy}\n")
    print("| environment | instances | purerl M/s | gymnax M/s | ratio | by CPU | share of reset | compile s |")
    print("|---|---|---|---|---|---|---|---|")
    for env_id in args.envs:
        for num_envs in args.num_envs:
            row = measure(env_id, num_envs, args)
            figures = [
                *(f"{row[name] / 1e6:.3g}" for name in ("purerl", "gymnax")),
                *(f"{row[name]:.1f}" for name in ("ratio", "processor_ratio")),
                f"{100 * row['share']:.0f}%",
                f"{row['compile']:.1f}",
            ]
            print(f"| {env_id} | {num_envs} | {' | '.join(figures)} |".replace("nan", "-"), flush=True)


if __name__ == "__main__":
    main()
