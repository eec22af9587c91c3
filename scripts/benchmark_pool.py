"""Pools and the host runtime against EnvPool and against one another. `python scripts/benchmark_pool.py [PART ...]`.

Parts: pool, alternating, async, train, atari; all of them without an argument. What is compared is measured in turns
within one run; figures are medians.
"""

import argparse
import dataclasses
import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import purerl
from purerl import pool
from purerl.algos.ppo import PPOConfig, ppo
from purerl.host import HostSettings, make_host_trainer
from purerl.host_environment import HostEnvironment, HostSource, HostStep
from purerl.spaces import Box, Discrete, Space

SIZE = 1024
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


def update_of(source: HostSource, config: PPOConfig, settings: HostSettings) -> Callable[[], Callable[[], int]]:
    """Return a maker of a function that takes one update."""

    def maker() -> Callable[[], int]:
        trainer = make_host_trainer(ppo, source, config, settings)
        state = [trainer.init(jax.random.key(0))]

        def update() -> int:
            state[0], _ = trainer.step(state[0])
            jax.block_until_ready(state[0].num_updates)
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
    return found | {"seconds of an update": learning, "async / serial": found["async"] / found["serial"]}


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
        for mode in ("batched", "alternating", "async"):
            makers[f"{name}, PPO {mode}"] = update_of(source, config, HostSettings(mode=mode))
        found |= rates(makers, seconds, rounds=2)
    return found


PARTS: dict[str, Callable[[float], dict[str, float]]] = {
    "pool": bench_pool,
    "alternating": bench_alternating,
    "async": bench_async,
    "train": bench_train,
    "atari": bench_atari,
}


def main() -> None:
    """Print a table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; default all")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    args = parser.parse_args()
    figures = {}
    for part in args.parts or PARTS:
        if part not in PARTS:
            parser.error(f"unknown part '{part}'; allowed: {', '.join(PARTS)}")
        figures[part] = PARTS[part](args.seconds)
        for name, value in figures[part].items():
            print(f"{part:12} {name:32} {value:14,.4g}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
