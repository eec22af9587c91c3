"""Programs that the group `pool` measures: host environments alone and under trainers, and their rates in turn."""

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.timing import progress
from purerl.extensions.host.trainer import HostSettings, make_host_trainer
from purerl.host_environment import HostEnvironment, HostSource, HostStep
from purerl.spaces import Box, Discrete, Space
from purerl.types import Algorithm, AlgorithmFactory, Config


class Stepper(NamedTuple):
    """Something that steps environments."""

    run: Callable[[], int]  # makes some steps, and returns how many
    close: Callable[[], None] = lambda: None


Maker = Callable[[], Stepper]


class Rate(NamedTuple):
    """The speed of a program."""

    steps_per_second: float
    cpu_seconds_per_step: float  # summed over all threads of the process


def rates(makers: dict[str, Maker], seconds: float, rounds: int = 5) -> dict[str, Rate]:
    """Return the median rate over some rounds of each program; they run in turn, after one run that is not counted."""
    programs = {name: make() for name, make in makers.items()}
    for program in programs.values():
        program.run()
    measured: dict[str, list[Rate]] = {name: [] for name in programs}
    for i in range(rounds):
        for name, program in programs.items():
            began, cpu, steps = time.perf_counter(), time.process_time(), 0
            while time.perf_counter() - began < seconds:
                steps += program.run()
            spent = time.perf_counter() - began
            measured[name].append(Rate(steps / spent, (time.process_time() - cpu) / steps))
            progress(f"{name}: round {i + 1} of {rounds}, {steps / spent:,.0f} steps/s")
    for program in programs.values():
        program.close()
    return {name: Rate(*map(statistics.median, zip(*found, strict=True))) for name, found in measured.items()}


def speeds(makers: dict[str, Maker], seconds: float, rounds: int = 5) -> dict[str, float]:
    """Return the steps per second of each program."""
    return {name: rate.steps_per_second for name, rate in rates(makers, seconds, rounds).items()}


def updates(
    algorithm: AlgorithmFactory,
    source: HostSource,
    config: Config,
    settings: HostSettings,
    idle: list[float] | None = None,
) -> Maker:
    """Return a maker of a program of updates; each adds to `idle` the share of time in which environments waited."""

    def make() -> Stepper:
        trainer = make_host_trainer(algorithm, source, config, settings)
        state = [trainer.init(jax.random.key(0))]

        def update() -> int:
            state[0], metrics = trainer.step(state[0])
            jax.block_until_ready(state[0].agent)
            if idle is not None:
                idle.append(float(metrics.algorithm["environment_idle"]))
            return config.steps_per_update

        return Stepper(update, trainer.close)

    return make


def seconds_of(maker: Maker, rounds: int = 5) -> float:
    """Return the median time of one run, except for the first two, in which programs are compiled."""
    program, seconds = maker(), []
    for _ in range(rounds + 2):
        began = time.perf_counter()
        program.run()
        seconds.append(time.perf_counter() - began)
    program.close()
    return statistics.median(seconds[2:])


def only_acting(algorithm: AlgorithmFactory) -> AlgorithmFactory:
    """Return the algorithm without its learning."""

    def make(spec: Any, config: Any) -> Algorithm:
        return algorithm(spec, config)._replace(update=lambda agent, key, rollout: (agent, {}))

    return make


class Sleeper(HostSource):
    """Environments whose step sleeps for so many seconds for all `num_envs` and uses no CPU: a remote simulator."""

    def __init__(self, seconds: float, num_envs: int, threads: int = 1):
        """Store the time of a step of all environments; stepped one after the other it is `threads` times as long."""
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
        """Return the environments."""
        return _Sleeping(num_envs, self.per_env * num_envs * (1 if parallel else self._threads))


class _Sleeping(HostEnvironment):
    def __init__(self, num_envs: int, seconds: float):
        self._seconds, self._observation = seconds, np.zeros((num_envs, 64), np.float32)
        self._flags, self._reward = np.zeros(num_envs, np.bool_), np.ones(num_envs, np.float32)

    def reset(self, key: Any) -> np.ndarray:
        return self._observation

    def step(self, action: np.ndarray, keys: Any, t: int) -> HostStep:
        time.sleep(self._seconds)
        flags = self._flags
        return HostStep(
            observation=self._observation,
            reward=self._reward,
            terminated=flags,
            truncated=flags,
            mask=None,
            next_observation=None,
            score=self._reward,
            over=flags,
        )


class CalledBack(HostSource):
    """Environments as if their library had no XLA interface."""

    def __init__(self, source: HostSource):
        """Wrap `source`."""
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
        """Return the environments."""
        env = self._source.open(num_envs, seed, parallel, evaluation)
        env.traced = lambda: None  # type: ignore[method-assign]
        return env


def bare(source: HostSource, num_envs: int) -> Maker:
    """Return a maker of a program that steps environments and does nothing else."""

    def make() -> Stepper:
        env = source.open(num_envs, 0, True)
        env.reset(None)
        action = np.zeros(num_envs, np.int32)

        def step() -> int:
            env.step(action, None, 0)
            return num_envs

        return Stepper(step, env.close)

    return make
