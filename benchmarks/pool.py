"""`purerl.pool` and the samplers of the host runtime, compared with EnvPool and with one another.

Programs that are compared run in turn; figures are medians. All but `throughput` and `inside` need two idle cores.
"""

import dataclasses
import statistics
import time
from typing import Any

import jax
import numpy as np

import purerl
from benchmarks import tables
from benchmarks.groups import Request
from benchmarks.host_programs import (
    CalledBack,
    Maker,
    Sleeper,
    Stepper,
    bare,
    only_acting,
    rates,
    seconds_of,
    speeds,
    updates,
)
from benchmarks.tables import Table
from purerl import pool
from purerl.algos.ppo import PPOConfig, ppo
from purerl.extensions.host.options import MODES
from purerl.extensions.host.trainer import HostSettings, make_host_trainer
from purerl.settings import runs

SIZE = 1024
SECONDS = 2.0  # seconds per measurement
CLEANRL = 4500  # steps per second of CleanRL's PPO on CartPole-v1 with EnvPool, one core of an Intel Xeon
LARGE = PPOConfig(num_envs=512, rollout_length=32, num_epochs=1, num_minibatches=1, hidden_sizes=(512, 512))
PONGS = ("envpool/Pong-v5", "ale/Pong-v5")


def stepping(task: str, **options: Any) -> Maker:
    """Return a maker of a program that steps a pool with random actions, NumPy in and out."""

    def make() -> Stepper:
        env = pool.make(task, num_envs=SIZE, **options)
        env.reset()
        action = np.random.default_rng(0).integers(0, 2, SIZE).astype(np.int32)

        def step() -> int:
            for _ in range(20):
                env.step(action)
            return 20 * SIZE

        return Stepper(step)

    return make


def throughput(request: Request) -> list[Table]:
    """Compare CartPole by `purerl.pool` with EnvPool's."""
    makers = {
        "purerl.pool": stepping("CartPole-v1"),
        "purerl.pool, outputs on the device": stepping("CartPole-v1", output="jax"),
        "EnvPool": stepping("envpool/CartPole-v1"),
    }
    measured = rates(makers, SECONDS * request.size, request.runs)
    ours, theirs = measured["purerl.pool"], measured["EnvPool"]
    ratio = ours.steps_per_second / theirs.steps_per_second, theirs.cpu_seconds_per_step / ours.cpu_seconds_per_step
    rows = [[name, rate.steps_per_second, None, None] for name, rate in measured.items()]
    rows[0][2:] = ratio
    columns = tables.columns("by: text; steps/s: rate; against EnvPool: ratio; the same by CPU time: ratio")
    return [Table(title=f"{SIZE} CartPoles, NumPy in and out", columns=columns, rows=rows)]


def inside(request: Request) -> list[Table]:
    """Compare a loop of acting and stepping without learning: inside jit, by XLA or callbacks, and of Python."""
    rows = []
    for task, num_envs in (*(("envpool/CartPole-v1", n) for n in (8, 256)), *((name, 8) for name in PONGS)):
        source, config = purerl.make(task), PPOConfig(num_envs=num_envs, rollout_length=64, hidden_sizes=(16,))
        loop = lambda source, mode, config=config: updates(only_acting(ppo), source, config, HostSettings(mode=mode))
        ways = {"XLA": (source, "inside"), "callback": (CalledBack(source), "inside"), "Python": (source, "batched")}
        makers = {f"{task} x {num_envs}, {way}": loop(*how) for way, how in ways.items()}
        rows.append([task, num_envs, *speeds(makers, SECONDS * request.size, min(request.runs, 3)).values()])
    columns = tables.columns("task: text; environments: count; XLA interface: rate; io_callback: rate; Python: rate")
    return [Table(title="A loop of acting and stepping, without learning, steps/s", columns=columns, rows=rows)]


def acting_time() -> float:
    """Return the seconds of one action for all environments."""
    return seconds_of(updates(only_acting(ppo), Sleeper(0.0, 512), LARGE, HostSettings())) / LARGE.rollout_length


def alternating(request: Request) -> list[Table]:
    """Compare alternating with batched, where a step of the environments takes as long as acting, without learning."""
    acting = acting_time()
    makers = {
        mode: updates(only_acting(ppo), Sleeper(acting, 512), LARGE, HostSettings(mode=mode))
        for mode in ("batched", "alternating")
    }
    found = speeds(makers, SECONDS * request.size, request.runs)
    rows = [[mode, rate, rate / found["batched"], acting] for mode, rate in found.items()]
    columns = tables.columns("sampler: text; steps/s: rate; against batched: ratio; seconds of a step: number")
    return [Table(title="Acting without learning, half of the environments at a time", columns=columns, rows=rows)]


def asynchronous(request: Request) -> list[Table]:
    """Compare async with serial where learning takes as long as sampling; idle time where it takes half as long."""
    config = PPOConfig(num_envs=64, rollout_length=32, num_epochs=4, num_minibatches=4, hidden_sizes=(256, 256))
    learning = seconds_of(updates(ppo, Sleeper(0.0, 64), config, HostSettings(mode="serial")))
    source, seconds = Sleeper(learning / config.rollout_length, 64), SECONDS * request.size
    modes = {"serial": HostSettings(mode="serial"), "async": HostSettings(mode="async", num_actors=1)}
    makers = {name: updates(ppo, source, config, settings) for name, settings in modes.items()}
    found = speeds(makers, seconds, request.runs)
    rows: list[list[Any]] = [
        [f"{mode}, learning takes as long as sampling", 1, rate, rate / found["serial"], None, learning]
        for mode, rate in found.items()
    ]
    for actors in (1, 2):
        idle: list[float] = []
        slower = Sleeper(2 * actors * learning / config.rollout_length, 64)  # each actor has its own simulator
        settings = HostSettings(mode="async", num_actors=actors)
        speeds({"async": updates(ppo, slower, config, settings, idle)}, seconds, request.runs)
        rows.append(["async, learning takes half", actors, None, None, statistics.median(idle[2:]), learning])
    columns = tables.columns(
        "sampler: text; actors: count; steps/s: rate; against serial: ratio; environments idle: share; "
        "seconds of an update: number"
    )
    return [Table(title="Learning beside sampling", columns=columns, rows=rows)]


def modes(request: Request) -> list[Table]:
    """Compare all samplers where a step takes as long as acting; one after the other, it would take twice as long."""
    source = Sleeper(acting_time(), 512, threads=2)
    makers = {mode: updates(ppo, source, LARGE, HostSettings(mode=mode)) for mode in MODES}
    found = speeds(makers, SECONDS * request.size, request.runs)
    rows = [[mode, rate, rate / found["serial"]] for mode, rate in found.items()]
    columns = tables.columns("sampler: text; steps/s: rate; against serial: ratio")
    return [Table(title="A step takes as long as acting and uses no core", columns=columns, rows=rows)]


def train(request: Request) -> list[Table]:
    """Time PPO on EnvPool's CartPole with its settings: whole runs, from the first compilation to the last step."""
    run, source = runs.settings("ppo", "envpool/CartPole-v1", {}), purerl.make("envpool/CartPole-v1")
    found, returns = [], []
    for seed in range(3):
        trainer = make_host_trainer(ppo, source, run.config, HostSettings(mode=run.extension_options["host"].sampler))
        began, state = time.perf_counter(), trainer.init(jax.random.key(seed))
        num_updates = max(1, int(run.config.total_timesteps * request.size) // run.config.steps_per_update)
        for _ in range(num_updates):
            state, _ = trainer.step(state)
        jax.block_until_ready(state.agent)
        found.append(num_updates * run.config.steps_per_update / (time.perf_counter() - began))
        returns.append(float(np.mean(trainer.evaluate(state.agent, jax.random.key(100), 32).episode_return)))
        trainer.close()
    rate = statistics.median(found)
    columns = tables.columns("seeds: count; steps/s: rate; against CleanRL's 4,500: ratio; mean return: number")
    rows = [[3, rate, rate / CLEANRL, statistics.mean(returns)]]
    return [Table(title="PPO, EnvPool's CartPole-v1, compilation included", columns=columns, rows=rows)]


def atari(request: Request) -> list[Table]:
    """Compare bare Pong with PPO with the Nature network on it, for each sampler."""
    config = PPOConfig(
        num_envs=16, rollout_length=32, num_epochs=3, num_minibatches=4, network="nature", hidden_sizes=(512,)
    )
    seconds, rounds, rows = SECONDS * request.size, min(request.runs, 2), []
    for name in PONGS:
        source = purerl.make(name, preprocessing="2015")
        idle: dict[str, list[float]] = {mode: [] for mode in MODES if mode not in ("serial", "inside")}
        makers = {"bare": bare(source, config.num_envs)}
        for mode in (*idle, "inside"):
            makers[mode] = updates(ppo, source, config, HostSettings(mode=mode), idle.get(mode))
        found = speeds(makers, seconds, rounds)
        for mode, rate in found.items():
            waiting = statistics.median(idle[mode][1:]) if mode in idle else None
            rows.append([name, mode, rate, rate / found["bare"] if mode != "bare" else None, waiting])
    light = dataclasses.replace(config, network="mlp", hidden_sizes=(32,), num_epochs=1, num_minibatches=1)
    source, quick = purerl.make(PONGS[0], preprocessing="2015"), []
    speeds({"light": updates(ppo, source, light, HostSettings(mode="async"), quick)}, seconds, rounds)
    rows.append([PONGS[0], "async, learning quicker than sampling", None, None, statistics.median(quick[2:])])
    columns = tables.columns(
        "task: text; sampler: text; steps/s: rate; share of the bare games' speed: share; environments idle: share"
    )
    return [
        Table(title="Sixteen games of Pong, bare and under PPO with the Nature network", columns=columns, rows=rows)
    ]
