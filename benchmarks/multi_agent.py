"""Figures of many agents: `python -m benchmarks.multi_agent [step|memory|train|scale|learn|all] [--long]`.

    step    TagContinuous, 5 + 100 agents, 60 environments, random actions: this project against vectorized NumPy; on
            two cores with XLA_FLAGS=--xla_force_host_platform_device_count=2
    memory  1000 agents x 100 environments, K = 10: seconds to compile a step, bytes that it takes; bytes of an update
    train   TagGridWorld as WarpDrive ships it, A2C: steps per second, and the taggers' return at first and at last
    scale   TagGridWorld, partial observation: training steps per second over agents x environments
    learn   TagContinuous, 5 + 20: trained taggers against random runners, trained runners against those taggers

Short by default; --long takes the sizes that results are quoted from and writes what it finds to
results/multi_agent.csv (`scale`: results/multi_agent_scaling.csv and its picture), from which
`python scripts/learning_curves.py --table` makes a section of results/README.md. `learn` takes minutes.
"""

import argparse
import csv
import dataclasses
import math
import os
import platform
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import purerl
from benchmarks.numpy_tag import NumpyTag
from benchmarks.tag_learning import COMPARED, play_seeds
from purerl.algos.a2c import A2CConfig, a2c
from purerl.devices.memory import needed
from purerl.devices.sharding import lanes, make_mesh
from purerl.envs.tag.continuous import TagContinuous
from purerl.envs.tag.grid_world import TagGridWorld
from purerl.loop.train import make_train, make_trainer
from purerl.multi_agent.joint import multi_agent, policies_for
from purerl.settings.runs import settings
from purerl.stats import bootstrap_interval

RESULTS = Path(__file__).parent.parent / "results"
PATIENCE = 10.0  # seconds of calls, after which no more are made
COLUMNS = ("part", "what", "found", "goal", "machine")


class Row(NamedTuple):
    """A figure that was measured."""

    what: str
    found: str
    goal: str = ""


def stepping(env: Any, num_envs: int, steps: int) -> Any:
    """Return a compiled program of random play: key -> sums of all that comes out; on all devices that divide it."""
    mesh = make_mesh(math.gcd(num_envs, len(jax.devices())))
    num_envs //= mesh.size
    vector = purerl.vectorize(env, num_envs)

    def body(state: Any, key: Any) -> tuple[Any, Any]:
        key_action, key_step = jax.random.split(key)
        action = jax.vmap(env.action_space.sample)(jax.random.split(key_action, num_envs))
        state, observation, timestep = vector.step(key_step, state, action)
        return state, jax.tree.map(lambda x: jnp.sum(x, dtype=jnp.float32), (observation, timestep.reward))

    def run(key: Any) -> Any:
        state, _ = vector.reset(key)
        return jax.lax.scan(body, state, jax.random.split(key, steps))[1]

    split = lambda key: lanes(run, mesh)(jax.random.split(key, mesh.size))
    return jax.jit(split).lower(purerl_key(0)).compile()


def purerl_key(seed: int) -> Any:
    """Return a key of the fast generator, as training uses."""
    from purerl.prng import fast

    return fast(jax.random.key(seed))


def best_of(function: Any, repeats: int) -> float:
    """Return the shortest time of a call, in seconds: also right on a busy machine; two calls do if they are long."""
    times = []
    while len(times) < (repeats if sum(times) < PATIENCE else 2):
        began = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - began)
    return min(times)


def step(long: bool) -> list[Row]:
    """Compare random stepping with NumPy's."""
    env = TagContinuous(num_taggers=5, num_runners=100, side=20.0, time_limit=500, num_neighbors=10)
    num_envs, steps, repeats = 60, 100 if long else 20, 7 if long else 3
    compiled = stepping(env, num_envs, steps)
    ours = num_envs * steps / best_of(lambda: compiled(purerl_key(0)), repeats)
    slow = NumpyTag(env, num_envs)
    theirs = num_envs * 5 / best_of(lambda: [slow.step() for _ in range(5)], repeats)
    what = "TagContinuous, 5 + 100 agents, 60 environments, random actions: environment steps/s"
    if (count := len(jax.devices())) > 1:
        what += f", {count} devices (NumPy has one core)"
    return [Row(what, f"{ours:,.0f}, {ours / theirs:.1f} x vectorized NumPy's {theirs:,.0f}", "20 x")]


def memory(long: bool) -> list[Row]:
    """Compile one step of many agents; tell how long that took and what it needs."""
    env = TagContinuous(num_taggers=50, num_runners=950, side=20.0, num_neighbors=10)
    vector = purerl.vectorize(env, 100)
    key = purerl_key(0)
    state, _ = jax.eval_shape(vector.reset, key)
    action = jax.eval_shape(lambda k: jax.vmap(env.action_space.sample)(jax.random.split(k, 100)), key)
    began = time.perf_counter()
    compiled = jax.jit(vector.step).lower(key, state, action).compile()
    seconds, what = time.perf_counter() - began, "TagContinuous, 1000 agents x 100 environments, K = 10"
    rows = [
        Row(f"{what}: compiling a step", f"{seconds:.1f} s", "20 s"),
        Row(f"{what}: its memory", f"{needed(compiled) / 1e9:.2f} GB", "4 GB"),
    ]
    config = A2CConfig(num_envs=100, rollout_length=20 if long else 5, hidden_sizes=(64, 64))
    for rebuild in (False, True):
        mine = dataclasses.replace(config, rebuild_observations=rebuild)
        trainer = make_trainer(multi_agent, env, policies_for(env, a2c, mine))
        shapes = jax.eval_shape(trainer.init, jax.random.key(0))
        num_bytes = needed(jax.jit(trainer.step, donate_argnums=0).lower(shapes).compile())
        how = "rebuilt" if rebuild else "kept"
        rows.append(
            Row(f"{what}: an update of {config.rollout_length} steps, observations {how}", f"{num_bytes / 1e9:.2f} GB")
        )
    if long:
        run = stepping(env, 100, 10)
        speed = 100 * 10 / best_of(lambda: run(purerl_key(0)), 3)
        rows.append(Row(f"{what}: environment steps/s", f"{speed:,.0f}"))
    return rows


def train(long: bool) -> list[Row]:
    """Train WarpDrive's shipped gridworld configuration, and where taggers meet the runner by chance.

    As shipped, taggers start 100 steps from the runner, and an episode has 100: no random walk gets there, so that
    there is nothing to learn from. Where starts are drawn there is, for a smaller entropy bonus or on a smaller grid.
    """
    often, drawn = {"rollout_length": 20, "entropy_coefficient": 0.001}, {"start": "drawn"}
    return [
        *_train("TagGridWorld, A2C as WarpDrive ships it", {}, {}, 200 if long else 20),
        *_train("the same, starts drawn, entropy 0.001, updates of 20 steps", drawn, often, 5000 if long else 20),
        *_train("the same on a grid of 20", drawn | {"size": 20}, often, 1000 if long else 20),
    ]


def _train(what: str, parameters: dict[str, Any], changes: dict[str, Any], updates: int) -> list[Row]:
    settled = settings("a2c", "TagGridWorld", {})
    env = purerl.make("TagGridWorld", **{**settled.parameters, **parameters})
    config = dataclasses.replace(settled.config, **changes)
    program = make_train(multi_agent, env, policies_for(env, a2c, config), updates * config.steps_per_update)
    run = jax.jit(program).lower(jax.random.key(0)).compile()
    began = time.perf_counter()
    _, metrics = jax.block_until_ready(run(jax.random.key(0)))
    speed = updates * config.steps_per_update / (time.perf_counter() - began)
    returns = np.asarray(metrics["info/return_taggers"])
    returns = returns[~np.isnan(returns)]
    part = max(1, len(returns) // 5)
    first, last = returns[:part].mean(), returns[-part:].mean()
    return [
        Row(f"{what}: environment steps/s", f"{speed:,.0f}"),
        Row(f"{what}: a tagger's return, first and last fifth of {updates} updates", f"{first:.3f}, {last:.3f}"),
    ]


def scale(long: bool) -> list[Row]:
    """Measure training over agents x environments; write the table and its picture."""
    agents, envs = ((5, 50, 500), (20, 100, 400)) if long else ((5, 50), (20, 80))
    rows = []
    for n in agents:
        for num_envs in envs:
            env = TagGridWorld(num_taggers=n - 1, size=100, full_observation=False)
            config = A2CConfig(num_envs=num_envs, rollout_length=20, hidden_sizes=(32, 32))
            trainer = make_trainer(multi_agent, env, policies_for(env, a2c, config))
            state, one = jax.jit(trainer.init)(jax.random.key(0)), jax.jit(trainer.step)
            jax.block_until_ready(one(state))
            seconds = best_of(lambda one=one, state=state: one(state), 5)
            speed = config.steps_per_update / seconds
            rows.append((n, num_envs, round(speed), round(speed * n)))
            print(f"scale: {n:5} x {num_envs:4}: {speed:11,.0f} steps/s, {speed * n:13,.0f} of agents", flush=True)
    if long:
        _write(rows)
    least, most = rows[0], rows[-1]
    told = f"{least[3]:,} and {most[3]:,}"
    return [Row(f"TagGridWorld, A2C: agent steps/s of {least[0]} x {least[1]} and of {most[0]} x {most[1]}", told)]


def _write(rows: list[tuple[int, int, int, int]]) -> None:
    from matplotlib.figure import Figure

    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "multi_agent_scaling.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([("agents", "environments", "steps_per_second", "agent_steps_per_second"), *rows])
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for num_envs in sorted({row[1] for row in rows}):
        mine = [row for row in rows if row[1] == num_envs]
        axes.semilogx([row[0] for row in mine], [row[3] for row in mine], "o-", label=f"{num_envs} environments")
    axes.set(xlabel="agents in each environment", ylabel="agent steps per second", title="TagGridWorld, A2C")
    axes.set_ylim(bottom=0)  # level: each doubling of agents or environments costs twice as much
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(RESULTS / "multi_agent_scaling.png", dpi=150)


def learn(long: bool) -> list[Row]:
    """Train taggers against random runners, then runners against those taggers, and count."""
    settled = settings("ppo", "TagContinuous", {})
    env, config = purerl.make("TagContinuous", **settled.parameters), settled.config
    seeds, steps, episodes = (5, int(config.total_timesteps), 64) if long else (2, 16_000, 16)
    found = play_seeds(env, config, steps, seeds, episodes)
    interval = lambda values: "{:.2f} .. {:.2f}".format(
        *bootstrap_interval(jax.random.key(0), values, statistic=jnp.mean)
    )
    what = f"TagContinuous, 5 + 20 agents, {seeds} seeds of {steps:,} steps"
    rows = [Row(f"{what}: {name}", f"{x.mean():.2f} ({interval(x)})") for name, x in found.items()]
    for better, worse, goal in COMPARED:
        ratio = found[better] / np.maximum(found[worse], 1e-9)
        rows.append(Row(f"{better} / {worse}", f"{ratio.mean():.2f} x ({interval(ratio)})", goal))
    return rows


PARTS = {"step": step, "memory": memory, "train": train, "scale": scale, "learn": learn}


def record(part: str, rows: list[Row]) -> None:
    """Put a part's rows in place of those that results/multi_agent.csv has of it."""
    path, machine = RESULTS / "multi_agent.csv", f"{len(os.sched_getaffinity(0))} cores of {platform.machine()}"
    machine = f"{machine}, jax {jax.__version__}, {jax.default_backend()}, load {os.getloadavg()[0]:.1f}"
    kept = []
    if path.exists():
        with path.open(newline="") as file:
            kept = [tuple(row.values()) for row in csv.DictReader(file) if row["part"] != part]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *kept, *((part, *row, machine) for row in rows)])


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "all"], default="all")
    parser.add_argument("--long", action="store_true", help="the sizes that results are quoted from")
    given = parser.parse_args()
    for name in PARTS if "all" in given.parts else given.parts:
        rows = PARTS[name](given.long)
        for row in rows:
            print(f"{name}: {row.what}: {row.found}{f' (goal: {row.goal})' if row.goal else ''}", flush=True)
        if given.long:
            record(name, rows)


if __name__ == "__main__":
    main()
