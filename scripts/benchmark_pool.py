"""Pools and the host runtime against EnvPool and against one another. `python scripts/benchmark_pool.py [PART ...]`.

Parts: pool, inside, alternating, async, modes, train, atari; all of them without an argument. What is compared is
measured in turns within one run; figures are medians. --json writes them with the machine. All but pool and inside
want two idle cores.
"""

import argparse
import dataclasses
import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback

import purerl
from purerl import pool
from purerl.algos.ppo import PPOConfig, ppo
from purerl.benchmark.report import machine, versions
from purerl.host import MODES, HostSettings, make_host_trainer
from purerl.host_environment import HostEnvironment, HostSource, HostStep
from purerl.spaces import Box, Discrete, Space

SIZE = 1024
STEPS = 64  # of a loop inside jit
HIDDEN = (512, 512)  # acting with it takes milliseconds


def rates(makers: dict[str, Callable[[], Callable[[], int]]], seconds: float, rounds: int = 5) -> dict[str, float]:
    """Return steps per second of each, measured in turns; a maker returns a function that says how many it took."""
    runs = {name: make() for name, make in makers.items()}
    for run in runs.values():
        run()
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began, steps = time.perf_counter(), 0
            while time.perf_counter() - began < seconds:
                steps += run()
            found[name].append(steps / (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in found.items()}


def stepping(make: Callable[[], Any]) -> Callable[[], Callable[[], int]]:
    """Return a maker of a function that steps a pool with random actions, NumPy in and out."""

    def maker() -> Callable[[], int]:
        env = make()
        env.reset()
        action = np.random.default_rng(0).integers(0, 2, SIZE).astype(np.int32)

        def step() -> int:
            for _ in range(20):
                env.step(action)
            return 20 * SIZE

        return step

    return maker


def bench_pool(seconds: float) -> dict[str, float]:
    """CartPole, NumPy in and out."""
    makers = {"ours": stepping(lambda: pool.make("CartPole-v1", num_envs=SIZE))}
    makers["ours, outputs on the device"] = stepping(lambda: pool.make("CartPole-v1", num_envs=SIZE, output="jax"))
    if importlib.util.find_spec("envpool"):
        makers["envpool"] = stepping(lambda: pool.make("envpool/CartPole-v1", num_envs=SIZE))
    return rates(makers, seconds)


class Sleeper(HostSource):
    """Environments whose step takes so many seconds for all `num_envs`, and no CPU: a simulator apart."""

    def __init__(self, seconds: float, num_envs: int):
        """Take the time of a step of all environments."""
        self.id, self.parameters, self.per_env = "benchmark/Sleeper", {}, seconds / num_envs

    @property
    def observation_space(self) -> Space:
        """64 numbers."""
        return Box(low=-1.0, high=1.0, shape=(64,))

    @property
    def action_space(self) -> Space:
        """One of four."""
        return Discrete(n=4)

    def open(self, num_envs: int, seed: int, parallel: bool, evaluation: bool = False) -> HostEnvironment:
        """Make them."""
        return _Sleeping(num_envs, self.per_env * num_envs)


class _Sleeping(HostEnvironment):
    def __init__(self, num_envs: int, seconds: float):
        self._seconds, self._seen = seconds, np.zeros((num_envs, 64), np.float32)
        self._flags, self._reward = np.zeros(num_envs, np.bool_), np.ones(num_envs, np.float32)

    def reset(self, key: Any) -> np.ndarray:
        return self._seen

    def step(self, action: np.ndarray, keys: Any, t: int) -> HostStep:
        time.sleep(self._seconds)
        flags = self._flags
        return HostStep(self._seen, self._reward, flags, flags, None, None, self._reward, flags)


def update_of(
    source: HostSource, config: PPOConfig, settings: HostSettings, idle: list[float] | None = None
) -> Callable[[], Callable[[], int]]:
    """Return a maker of a function that takes one update; it notes in `idle` for how long environments waited."""

    def maker() -> Callable[[], int]:
        trainer = make_host_trainer(ppo, source, config, settings)
        state = [trainer.init(jax.random.key(0))]

        def update() -> int:
            state[0], metrics = trainer.step(state[0])
            jax.block_until_ready(state[0].agent)
            if idle is not None:
                idle.append(float(metrics["environment_idle"]))
            return config.steps_per_update

        return update

    return maker


def seconds_of(maker: Callable[[], Callable[[], int]], rounds: int = 5) -> float:
    """Return the median time of one update."""
    update, found = maker(), []
    update()
    for _ in range(rounds):
        began = time.perf_counter()
        update()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def bench_alternating(seconds: float) -> dict[str, float]:
    """Alternating against batched, where a step of the environments takes as long as acting."""
    config = PPOConfig(num_envs=512, rollout_length=32, num_epochs=1, num_minibatches=1, hidden_sizes=HIDDEN)
    cheap = dataclasses.replace(config, num_epochs=1)
    idle = seconds_of(update_of(Sleeper(0.0, 512), cheap, HostSettings(mode="batched")))
    acting = idle / (config.rollout_length + 3)  # an update learns from each step about as long as three actions take
    source = Sleeper(acting, 512)
    modes = {mode: update_of(source, cheap, HostSettings(mode=mode)) for mode in ("batched", "alternating")}
    found = rates(modes, seconds)
    return found | {"seconds of a step": acting, "alternating / batched": found["alternating"] / found["batched"]}


def bench_async(seconds: float) -> dict[str, float]:
    """Async against serial, where learning takes as long as sampling."""
    config = PPOConfig(num_envs=64, rollout_length=32, num_epochs=4, num_minibatches=4, hidden_sizes=(256, 256))
    learning = seconds_of(update_of(Sleeper(0.0, 64), config, HostSettings(mode="serial")))
    source = Sleeper(learning / config.rollout_length, 64)
    modes = {"serial": update_of(source, config, HostSettings(mode="serial"))}
    modes["async"] = update_of(source, config, HostSettings(mode="async", num_actors=1))
    found = rates(modes, seconds)
    found |= {"seconds of an update": learning, "async / serial": found["async"] / found["serial"]}
    slower, idle = Sleeper(2 * learning / config.rollout_length, 64), []
    rates({"async": update_of(slower, config, HostSettings(mode="async", num_actors=1), idle)}, seconds)
    return found | {"idle share where learning takes half": statistics.median(idle)}


def bench_modes(seconds: float) -> dict[str, float]:
    """All modes where a step takes as long as acting, and learning as long as both: steps per second, as bars."""
    config = PPOConfig(num_envs=512, rollout_length=32, num_epochs=1, num_minibatches=1, hidden_sizes=HIDDEN)
    acting = seconds_of(update_of(Sleeper(0.0, 512), config, HostSettings())) / (config.rollout_length + 3)
    source = Sleeper(acting, 512)
    found = rates({mode: update_of(source, config, HostSettings(mode=mode, num_actors=1)) for mode in MODES}, seconds)
    for mode, rate in found.items():
        print(f"    {mode:13} {'#' * round(20 * rate / found['serial'])} {rate / found['serial']:.2f}x")
    return found


def inside(task: str, num_envs: int, how: str) -> Callable[[], Callable[[], int]]:
    """Return a maker of a function that takes 64 steps of EnvPool's `task` with a small policy.

    Args:
      task: EnvPool's id.
      num_envs: environments.
      how: "xla" and "io_callback" keep all steps inside one compiled loop; "host" is a loop of Python.
    """

    def maker() -> Callable[[], int]:
        env = pool.make(f"envpool/{task}", num_envs=num_envs, seed=0)
        first, _ = env.reset()
        weights = jax.random.normal(jax.random.key(0), (first[0].size, 8)) * 0.01
        struct = jax.ShapeDtypeStruct(first.shape, first.dtype)

        def choose(observation: Any) -> Any:
            features = observation.reshape(num_envs, -1).astype(np.float32)
            return jax.numpy.argmax(features @ weights, axis=1).astype(np.int32) % 2

        def called(action: Any) -> np.ndarray:
            return env.step(np.asarray(action))[0]

        handle, _, _, step = env.xla()

        def by_xla(carry: Any, _: Any) -> tuple[Any, None]:
            handle, results = step(carry[0], choose(carry[1]))
            return (handle, results[0]), None

        def by_callback(carry: Any, _: Any) -> tuple[Any, None]:
            action = choose(carry[1])
            return (carry[0], io_callback(called, struct, action, ordered=True)), None

        body = {"xla": by_xla, "io_callback": by_callback}.get(how)
        loop = jax.jit(lambda carry: jax.lax.scan(body, carry, None, STEPS)[0]) if body else None
        chosen = jax.jit(choose)
        carry: list[Any] = [(handle, jax.numpy.asarray(first))]

        def go() -> int:
            if loop:
                carry[0] = jax.block_until_ready(loop(carry[0]))
            else:
                observation = carry[0][1]
                for _ in range(STEPS):
                    observation = called(chosen(observation))
                carry[0] = (handle, observation)
            return STEPS * num_envs

        return go

    return maker


def bench_inside(seconds: float) -> dict[str, float]:
    """A loop of acting and stepping: compiled, by EnvPool's XLA interface or by io_callback, against one of Python."""
    found = {}
    for task, num_envs in (("CartPole-v1", 8), ("CartPole-v1", 256), ("Pong-v5", 8)):
        makers = {f"{task} x {num_envs}, {how}": inside(task, num_envs, how) for how in ("xla", "io_callback", "host")}
        found |= rates(makers, seconds, rounds=3)
    return found


def bench_train(seconds: float) -> dict[str, float]:
    """PPO on EnvPool's CartPole: steps per second; CleanRL reaches 4,500 with 4 environments."""
    source = purerl.make("envpool/CartPole-v1")
    few = PPOConfig(num_envs=4, rollout_length=128)
    many = PPOConfig(num_envs=16, rollout_length=64)
    sizes = {"4 x 128": few, "16 x 64": many}
    return rates({name: update_of(source, config, HostSettings()) for name, config in sizes.items()}, seconds)


def bare(source: HostSource, num_envs: int) -> Callable[[], int]:
    """Return a function that steps environments and does nothing else."""
    env = source.open(num_envs, 0, True)
    env.reset(None)
    action = np.zeros(num_envs, np.int32)

    def step() -> int:
        env.step(action, None, 0)
        return num_envs

    return step


def bench_atari(seconds: float) -> dict[str, float]:
    """Pong: the bare environments, and PPO with the Nature network in each mode."""
    config = PPOConfig(
        num_envs=16, rollout_length=32, num_epochs=3, num_minibatches=4, network="nature", hidden_sizes=(512,)
    )
    found = {}
    for name in ("envpool/Pong-v5", "ale/Pong-v5"):
        source = purerl.make(name, preprocessing="2015")
        makers: dict[str, Callable[[], Callable[[], int]]] = {
            f"{name}, bare": lambda source=source: bare(source, config.num_envs)
        }
        idle: dict[str, list[float]] = {mode: [] for mode in ("batched", "alternating", "async")}
        for mode in idle:
            makers[f"{name}, PPO {mode}"] = update_of(source, config, HostSettings(mode=mode), idle[mode])
        found |= rates(makers, seconds, rounds=2)
        found |= {f"{name}, idle {mode}": statistics.median(shares) for mode, shares in idle.items()}
    return found


PARTS: dict[str, Callable[[float], dict[str, float]]] = {
    "pool": bench_pool,
    "inside": bench_inside,
    "alternating": bench_alternating,
    "async": bench_async,
    "modes": bench_modes,
    "train": bench_train,
    "atari": bench_atari,
}


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


def main() -> None:
    """Print a table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; default all")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    args = parser.parse_args()
    own = {name: version(name) for name in ("envpool", "ale-py") if importlib.util.find_spec(name.replace("-", "_"))}
    figures: dict[str, Any] = {"machine": machine(), "versions": versions() | own, "seconds": args.seconds}
    for part in args.parts or PARTS:
        if part not in PARTS:
            parser.error(f"unknown part '{part}'; allowed: {', '.join(PARTS)}")
        figures[part] = PARTS[part](args.seconds)
        for name, value in figures[part].items():
            print(f"{part:12} {name:32} {_short(value):>14}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
