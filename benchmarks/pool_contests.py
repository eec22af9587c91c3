"""What `benchmark_pool.py` measures with: contests in turns, environments that sleep, trainers that are timed."""

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.timing import tell
from purerl.host import HostSettings, make_host_trainer
from purerl.host_environment import HostEnvironment, HostSource, HostStep
from purerl.spaces import Box, Discrete, Space
from purerl.types import Algorithm, AlgorithmFactory, Config


class Entrant(NamedTuple):
    """Something that takes steps."""

    run: Callable[[], int]  # takes some, and returns how many
    close: Callable[[], None] = lambda: None


Maker = Callable[[], Entrant]


class Rate(NamedTuple):
    """What was measured of an entrant."""

    steps_per_second: float
    cpu_seconds_per_step: float  # of all threads of the process


def contest(makers: dict[str, Maker], seconds: float, rounds: int = 5) -> dict[str, Rate]:
    """Return each one's rate, the median of some rounds; they take turns, after a first go that is not counted."""
    entrants = {name: make() for name, make in makers.items()}
    for name, entrant in entrants.items():
        began = time.perf_counter()
        entrant.run()
        tell(f"{name}: started in {time.perf_counter() - began:.1f} s")
    found: dict[str, list[Rate]] = {name: [] for name in entrants}
    for i in range(rounds):
        for name, entrant in entrants.items():
            began, cpu, steps = time.perf_counter(), time.process_time(), 0
            while time.perf_counter() - began < seconds:
                steps += entrant.run()
            taken = time.perf_counter() - began
            found[name].append(Rate(steps / taken, (time.process_time() - cpu) / steps))
            tell(f"{name}: round {i + 1} of {rounds}, {steps / taken:,.0f} steps/s")
    for entrant in entrants.values():
        entrant.close()
    return {name: Rate(*map(statistics.median, zip(*rates, strict=True))) for name, rates in found.items()}


def speeds(makers: dict[str, Maker], seconds: float, rounds: int = 5) -> dict[str, float]:
    """Return each one's steps per second."""
    return {name: rate.steps_per_second for name, rate in contest(makers, seconds, rounds).items()}


def updates(
    algorithm: AlgorithmFactory,
    source: HostSource,
    config: Config,
    settings: HostSettings,
    idle: list[float] | None = None,
) -> Maker:
    """Return a maker of one that takes an update at a time; it notes in `idle` for which share environments waited."""

    def make() -> Entrant:
        trainer = make_host_trainer(algorithm, source, config, settings)
        state = [trainer.init(jax.random.key(0))]

        def update() -> int:
            state[0], metrics = trainer.step(state[0])
            jax.block_until_ready(state[0].agent)
            if idle is not None:
                idle.append(float(metrics.algorithm["environment_idle"]))
            return config.steps_per_update

        return Entrant(update, trainer.close)

    return make


def seconds_of(maker: Maker, rounds: int = 5) -> float:
    """Return the median time of one go, but for the first two, in which programs are compiled."""
    entrant, found = maker(), []
    for _ in range(rounds + 2):
        began = time.perf_counter()
        entrant.run()
        found.append(time.perf_counter() - began)
    entrant.close()
    return statistics.median(found[2:])


def only_acting(algorithm: AlgorithmFactory) -> AlgorithmFactory:
    """Return the algorithm without its learning."""

    def make(spec: Any, config: Any) -> Algorithm:
        algo = algorithm(spec, config)
        return Algorithm(algo.init, algo.initial_carry, algo.act, lambda agent, key, rollout: (agent, {}))

    return make


class Sleeper(HostSource):
    """Environments whose step takes so many seconds for all `num_envs`, and no CPU: a simulator apart."""

    def __init__(self, seconds: float, num_envs: int, threads: int = 1):
        """Take the time of a step of all environments; stepped one after the other it is `threads` times as long."""
        self.id, self.parameters, self.per_env = "benchmark/Sleeper", {}, seconds / num_envs
        self._threads = threads

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
        return _Sleeping(num_envs, self.per_env * num_envs * (1 if parallel else self._threads))


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


class CalledBack(HostSource):
    """Environments as if their library had no XLA interface."""

    def __init__(self, source: HostSource):
        """Take those of `source`."""
        self._source, self.id, self.parameters = source, source.id, source.parameters
        self.prepare = source.prepare

    @property
    def observation_space(self) -> Space:
        """The source's."""
        return self._source.observation_space

    @property
    def action_space(self) -> Space:
        """The source's."""
        return self._source.action_space

    def open(self, num_envs: int, seed: int, parallel: bool, evaluation: bool = False) -> HostEnvironment:
        """Make them."""
        env = self._source.open(num_envs, seed, parallel, evaluation)
        env.traced = lambda: None  # type: ignore[method-assign]
        return env


def bare(source: HostSource, num_envs: int) -> Maker:
    """Return a maker of one that steps environments and does nothing else."""

    def make() -> Entrant:
        env = source.open(num_envs, 0, True)
        env.reset(None)
        action = np.zeros(num_envs, np.int32)

        def step() -> int:
            env.step(action, None, 0)
            return num_envs

        return Entrant(step, env.close)

    return make
