"""Pools and the host runtime against EnvPool and against one another. `python -m benchmarks.pool [PART ...]`.

Parts: pool, inside, alternating, async, modes, train, atari; without an argument all that --json does not hold yet.
What is compared is measured in turns within one run; figures are medians. Each part is written as soon as it is
measured, with the machine and how busy that was. All but pool and inside want two idle cores. --readme writes the modes
as bars and Atari's share into a page.
"""

import argparse
import dataclasses
import importlib.util
import json
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

import purerl
from benchmarks.pool_contests import (
    CalledBack,
    Entrant,
    Maker,
    Sleeper,
    bare,
    contest,
    only_acting,
    seconds_of,
    speeds,
    updates,
)
from benchmarks.report import machine
from purerl import pool
from purerl.algos.ppo import PPOConfig, ppo
from purerl.errors import InputError
from purerl.host import MODES, HostSettings, make_host_trainer
from purerl.reporting.summary import versions
from purerl.settings import runs

SIZE = 1024
CLEANRL = 4500  # steps per second of CleanRL's PPO on CartPole-v1 with EnvPool, one core of an Intel Xeon
LARGE = PPOConfig(num_envs=512, rollout_length=32, num_epochs=1, num_minibatches=1, hidden_sizes=(512, 512))
PONGS = ("envpool/Pong-v5", "ale/Pong-v5")
BARS = re.compile(r"(<!-- modes -->\n).*?(<!-- end of modes -->)", re.DOTALL)

Figures = Iterator[dict[str, float]]  # name -> figure, some at a time


def stepping(task: str, **options: Any) -> Maker:
    """Return a maker of one that steps a pool with random actions, NumPy in and out."""

    def make() -> Entrant:
        env = pool.make(task, num_envs=SIZE, **options)
        env.reset()
        action = np.random.default_rng(0).integers(0, 2, SIZE).astype(np.int32)

        def step() -> int:
            for _ in range(20):
                env.step(action)
            return 20 * SIZE

        return Entrant(step)

    return make


def bench_pool(seconds: float) -> Figures:
    """CartPole, NumPy in and out."""
    makers = {
        "ours": stepping("CartPole-v1"),
        "ours, outputs on the device": stepping("CartPole-v1", output="jax"),
        "envpool": stepping("envpool/CartPole-v1"),
    }
    rates = contest(makers, seconds)
    ours, theirs = rates["ours"], rates["envpool"]
    found = {name: rate.steps_per_second for name, rate in rates.items()}
    found["ours / envpool"] = ours.steps_per_second / theirs.steps_per_second
    yield found | {"the same by CPU time": theirs.cpu_seconds_per_step / ours.cpu_seconds_per_step}


def bench_inside(seconds: float) -> Figures:
    """A loop of acting and stepping without learning: inside jit, by XLA interfaces or callbacks, and of Python."""
    tasks = (("envpool/CartPole-v1", 8), ("envpool/CartPole-v1", 256), ("envpool/Pong-v5", 8), ("ale/Pong-v5", 8))
    for task, num_envs in tasks:
        source, config = purerl.make(task), PPOConfig(num_envs=num_envs, rollout_length=64, hidden_sizes=(16,))
        loop = lambda source, mode, config=config: updates(only_acting(ppo), source, config, HostSettings(mode=mode))
        makers = {
            f"{task} x {num_envs}, XLA interface": loop(source, "inside"),
            f"{task} x {num_envs}, io_callback": loop(CalledBack(source), "inside"),
            f"{task} x {num_envs}, Python": loop(source, "batched"),
        }
        yield speeds(makers, seconds, rounds=3)


def acting_time() -> float:
    """Return the seconds that one action for all environments takes."""
    return seconds_of(updates(only_acting(ppo), Sleeper(0.0, 512), LARGE, HostSettings())) / LARGE.rollout_length


def bench_alternating(seconds: float) -> Figures:
    """Alternating against batched, where a step of the environments takes as long as acting, without learning."""
    acting = acting_time()
    source = Sleeper(acting, 512)
    modes = ("batched", "alternating")
    found = speeds({mode: updates(only_acting(ppo), source, LARGE, HostSettings(mode=mode)) for mode in modes}, seconds)
    yield found | {"seconds of a step": acting, "alternating / batched": found["alternating"] / found["batched"]}


def bench_async(seconds: float) -> Figures:
    """Async against serial where learning takes as long as sampling, and how idle environments are where half."""
    config = PPOConfig(num_envs=64, rollout_length=32, num_epochs=4, num_minibatches=4, hidden_sizes=(256, 256))
    learning = seconds_of(updates(ppo, Sleeper(0.0, 64), config, HostSettings(mode="serial")))
    source = Sleeper(learning / config.rollout_length, 64)
    modes = {"serial": HostSettings(mode="serial"), "async": HostSettings(mode="async", num_actors=1)}
    found = speeds({name: updates(ppo, source, config, settings) for name, settings in modes.items()}, seconds)
    yield found | {"seconds of an update": learning, "async / serial": found["async"] / found["serial"]}
    for actors in (1, 2):
        slower, idle = Sleeper(2 * actors * learning / config.rollout_length, 64), []  # actors' simulators are apart
        settings = HostSettings(mode="async", num_actors=actors)
        speeds({"async": updates(ppo, slower, config, settings, idle)}, seconds)
        yield {f"idle share where learning takes half, {actors} actors": statistics.median(idle[2:])}


def bench_modes(seconds: float) -> Figures:
    """All modes where a step takes as long as acting; one after the other, it would take twice as long."""
    source = Sleeper(acting_time(), 512, threads=2)
    yield speeds({mode: updates(ppo, source, LARGE, HostSettings(mode=mode)) for mode in MODES}, seconds)


def bench_train(seconds: float) -> Figures:
    """PPO on EnvPool's CartPole with its settings: whole runs, from the first compilation to the last step."""
    run, source = runs.settings("ppo", "envpool/CartPole-v1", {}), purerl.make("envpool/CartPole-v1")
    rates, returns = [], []
    for seed in range(3):
        trainer = make_host_trainer(ppo, source, run.config, HostSettings(mode=run.options.sampler))
        began, state = time.perf_counter(), trainer.init(jax.random.key(seed))
        num = run.config.total_timesteps // run.config.steps_per_update
        for _ in range(num):
            state, _ = trainer.step(state)
        jax.block_until_ready(state.agent)
        rates.append(num * run.config.steps_per_update / (time.perf_counter() - began))
        returns.append(float(np.mean(trainer.play(state.agent, jax.random.key(100), 32)[0])))
        trainer.close()
    rate = statistics.median(rates)
    found = {"steps per second": rate, "against CleanRL's 4,500": rate / CLEANRL}
    yield found | {"mean return of three seeds": statistics.mean(returns)}


def bench_atari(seconds: float) -> Figures:
    """Pong: the bare environments, and PPO with the Nature network in each mode."""
    config = PPOConfig(
        num_envs=16, rollout_length=32, num_epochs=3, num_minibatches=4, network="nature", hidden_sizes=(512,)
    )
    for name in PONGS:
        source = purerl.make(name, preprocessing="2015")
        idle: dict[str, list[float]] = {mode: [] for mode in MODES if mode not in ("serial", "inside")}
        makers = {f"{name}, bare": bare(source, config.num_envs)}
        for mode in (*idle, "inside"):
            makers[f"{name}, PPO {mode}"] = updates(ppo, source, config, HostSettings(mode=mode), idle.get(mode))
        rates = speeds(makers, seconds, rounds=2)
        share = {f"{of}, share left": rate / rates[f"{name}, bare"] for of, rate in rates.items() if "PPO" in of}
        yield rates | share | {f"{name}, idle {mode}": statistics.median(v[1:]) for mode, v in idle.items()}
    light = dataclasses.replace(config, network="mlp", hidden_sizes=(32,), num_epochs=1, num_minibatches=1)
    source = purerl.make(PONGS[0], preprocessing="2015")
    quick: list[float] = []
    speeds({"light": updates(ppo, source, light, HostSettings(mode="async"), quick)}, seconds, rounds=2)
    yield {f"{PONGS[0]}, idle async where learning is quick": statistics.median(quick[2:])}


PARTS: dict[str, Callable[[float], Figures]] = {
    "pool": bench_pool,
    "inside": bench_inside,
    "alternating": bench_alternating,
    "async": bench_async,
    "modes": bench_modes,
    "train": bench_train,
    "atari": bench_atari,
}


def bars(part: dict[str, Any]) -> str:
    """Return the modes' steps per second as bars, and what they were measured on."""
    rates = part["figures"]
    most, base = max(rates.values()), rates["serial"]
    lines = [f"    {mode:12} {'#' * round(50 * x / most):51}{x / base:.2f}x serial" for mode, x in rates.items()]
    return "\n".join([*lines, "", f"({_where(part)})", ""])


def shares(part: dict[str, Any]) -> str:
    """Return as a table what training leaves of the speed of bare Atari environments."""
    found, modes = part["figures"], [mode for mode in MODES if f"{PONGS[0]}, PPO {mode}" in part["figures"]]
    lines = [
        "Sixteen games of Pong, PPO with the Nature network: the share that training leaves of the bare games' speed",
        f"({_where(part)}):",
        "",
        f"| | bare, steps/s | {' | '.join(modes)} |",
        f"|---|---:|{'---:|' * len(modes)}",
    ]
    for name in PONGS:
        left = " | ".join(f"{found[f'{name}, PPO {mode}, share left']:.1%}" for mode in modes)
        lines.append(f"| {name} | {found[f'{name}, bare']:,.0f} | {left} |")
    idle = found[f"{PONGS[0]}, idle async where learning is quick"]
    lines += ["", f"Where learning is quicker than sampling, `async` leaves the games idle {idle:.0%} of the time.", ""]
    return "\n".join(lines)


def _where(part: dict[str, Any]) -> str:
    here = part["machine"]
    return f"{here['cores']} cores of an {here['processor']}, load {here['load']}"


def write_page(page: Path, figures: dict[str, Any]) -> None:
    """Put the modes, and Atari's share where it was measured, between the markers of a page."""
    text = page.read_text(encoding="utf-8")
    if not BARS.search(text):
        raise InputError(f"{page} has no lines '<!-- modes -->' and '<!-- end of modes -->' to write between")
    told = bars(figures["modes"]) + ("\n" + shares(figures["atari"]) if "atari" in figures else "")
    page.write_text(BARS.sub(lambda found: f"{found[1]}\n{told}\n{found[2]}", text), encoding="utf-8")


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--json", type=Path, help="where to write the figures; those of other parts stay")
    parser.add_argument("--readme", type=Path, help="also write the modes, as bars, and Atari's share into this page")
    args = parser.parse_args(arguments)
    for part in args.parts:
        if part not in PARTS:
            parser.error(f"unknown part '{part}'; allowed: {', '.join(PARTS)}")
    own = {name: version(name) for name in ("envpool", "ale-py") if importlib.util.find_spec(name.replace("-", "_"))}
    figures = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    for part in args.parts or [part for part in PARTS if part not in figures]:
        about = {"machine": machine(), "versions": versions() | own, "seconds of each": args.seconds}
        began, found = time.perf_counter(), {}
        for some in PARTS[part](args.seconds):
            found |= some
            for name, value in some.items():
                print(f"{part:12} {name:52} {_short(value):>14}", flush=True)
        figures[part] = about | {"figures": found, "seconds": round(time.perf_counter() - began)}
        if args.json:
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps(figures, indent=1) + "\n")
    if args.readme:
        write_page(args.readme, figures)


if __name__ == "__main__":
    main()
