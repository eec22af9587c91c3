"""Many agents: random steps, memory, training and learning in both games of tag, compared with vectorized NumPy.

Sizes below 1 measure small problems: `python -m benchmarks multi_agent --size 0.1`. `step` uses all available devices:
`--devices 2` divides a CPU.
"""

import dataclasses
import math
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import purerl
from benchmarks import tables
from benchmarks.groups import Request
from benchmarks.numpy_tag import NumpyTag
from benchmarks.tables import Table
from benchmarks.tag_learning import COMPARED, play_seeds
from benchmarks.timing import compiled, progress, seconds_of
from purerl.algos.a2c import A2CConfig, a2c
from purerl.devices.memory import needed
from purerl.devices.sharding import make_mesh, sharded_vmap
from purerl.envs.tag.continuous import TagContinuous
from purerl.envs.tag.grid_world import TagGridWorld
from purerl.extensions.groups.joint import multi_agent, policies_for
from purerl.prng import fast
from purerl.settings.runs import settings
from purerl.stats import bootstrap_interval
from purerl.training import make_train, make_trainer

PATIENCE = 10.0  # seconds of calls, after which no more are made
COLUMNS = tables.columns("what: text; measured: text; goal: text")
SCALE = tables.columns("agents: count; environments: count; steps/s: count; steps/s of agents: count")
Rows = list[list[str]]  # what, measured, goal


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

    split = lambda key: sharded_vmap(run, mesh)(jax.random.split(key, mesh.size))
    return compiled(split, fast(jax.random.key(0)))[0]


def best_of(function: Any, repeats: int) -> float:
    """Return the shortest time of a call, in seconds: also right on a busy machine; two calls do if they are long."""
    times: list[float] = []
    while len(times) < (repeats if sum(times) < PATIENCE else 2):
        times.append(seconds_of(function))
    return min(times)


def step(request: Request) -> list[Table]:
    """Compare random stepping with NumPy's."""
    env = TagContinuous(num_taggers=5, num_runners=100, side=20.0, time_limit=500, num_neighbors=10)
    num_envs, steps, repeats = (60, 100, 7) if request.size == 1 else (60, 20, 3)
    program = stepping(env, num_envs, steps)
    ours = num_envs * steps / best_of(lambda: program(fast(jax.random.key(0))), repeats)
    slow = NumpyTag(env, num_envs)
    theirs = num_envs * 5 / best_of(lambda: [slow.step() for _ in range(5)], repeats)
    what = "TagContinuous, 5 + 100 agents, 60 environments, random actions: environment steps/s"
    if (count := len(jax.devices())) > 1:
        what += f", {count} devices (NumPy has one core)"
    row = [what, f"{ours:,.0f}, {ours / theirs:.1f} x vectorized NumPy's {theirs:,.0f}", "20 x"]
    return [Table(title="Random steps", columns=COLUMNS, rows=[row])]


def memory(request: Request) -> list[Table]:
    """Compile one step and one update of many agents: the time and the memory."""
    env = TagContinuous(num_taggers=50, num_runners=950, side=20.0, num_neighbors=10)
    vector = purerl.vectorize(env, 100)
    key = fast(jax.random.key(0))
    state, _ = jax.eval_shape(vector.reset, key)
    action = jax.eval_shape(lambda k: jax.vmap(env.action_space.sample)(jax.random.split(k, 100)), key)
    program, seconds = compiled(vector.step, key, state, action)
    rows = [
        ["compiling a step", f"{seconds:.1f} s", "20 s"],
        ["its memory", f"{needed(program) / 1e9:.2f} GB", "4 GB"],
    ]
    config = A2CConfig(num_envs=100, rollout_length=20 if request.size == 1 else 5, hidden_sizes=(64, 64))
    trainer = make_trainer(multi_agent, env, policies_for(env, a2c, config))
    update, _ = compiled(trainer.step, jax.eval_shape(trainer.init, jax.random.key(0)), donate_argnums=0)
    rows.append([f"an update of {config.rollout_length} steps", f"{needed(update) / 1e9:.2f} GB", ""])
    if request.size == 1:
        run = stepping(env, 100, 10)
        speed = 100 * 10 / best_of(lambda: run(fast(jax.random.key(0))), 3)
        rows.append(["environment steps/s", f"{speed:,.0f}", ""])
    title = "TagContinuous, 1000 agents x 100 environments, K = 10"
    return [Table(title=title, columns=COLUMNS, rows=rows)]


def train(request: Request) -> list[Table]:
    """Train WarpDrive's shipped gridworld configuration, and variants where random taggers can reach the runner.

    As shipped, taggers start 100 steps from the runner, and an episode has 100 steps: no random walk gets there, so
    there is nothing to learn from. With random starts, there is, for a smaller entropy bonus or on a smaller grid.
    """
    often, drawn = {"rollout_length": 20, "entropy_coefficient": 0.001}, {"start": "drawn"}
    updates = (200, 5000, 1000) if request.size == 1 else (20, 20, 20)
    rows = [
        *_train("as WarpDrive ships it", {}, {}, updates[0]),
        *_train("starts drawn, entropy 0.001, updates of 20 steps", drawn, often, updates[1]),
        *_train("the same on a grid of 20", drawn | {"size": 20}, often, updates[2]),
    ]
    return [Table(title="TagGridWorld, A2C", columns=COLUMNS, rows=rows)]


def _train(what: str, parameters: dict[str, Any], changes: dict[str, Any], updates: int) -> Rows:
    settled = settings("a2c", "TagGridWorld", {})
    env = purerl.make("TagGridWorld", **{**settled.parameters, **parameters})
    config = dataclasses.replace(settled.config, **changes)
    program = make_train(multi_agent, env, policies_for(env, a2c, config), updates * config.steps_per_update)
    run, _ = compiled(program, jax.random.key(0))
    began = time.perf_counter()
    _, metrics = jax.block_until_ready(run(jax.random.key(0)))
    speed = updates * config.steps_per_update / (time.perf_counter() - began)
    returns = np.asarray(metrics.episodes["info/return_taggers"])
    returns = returns[~np.isnan(returns)]
    fifth = max(1, len(returns) // 5)
    first, last = returns[:fifth].mean(), returns[-fifth:].mean()
    return [
        [f"{what}: environment steps/s", f"{speed:,.0f}", ""],
        [f"{what}: a tagger's return, first and last fifth of {updates} updates", f"{first:.3f}, {last:.3f}", ""],
    ]


def scale(request: Request) -> list[Table]:
    """Measure training over agents x environments."""
    agents, envs = ((5, 50, 500), (20, 100, 400)) if request.size == 1 else ((5, 50), (20, 80))
    rows = []
    for n in agents:
        for num_envs in envs:
            env = TagGridWorld(num_taggers=n - 1, size=100, full_observation=False)
            config = A2CConfig(num_envs=num_envs, rollout_length=20, hidden_sizes=(32, 32))
            trainer = make_trainer(multi_agent, env, policies_for(env, a2c, config))
            state, update = jax.jit(trainer.init)(jax.random.key(0)), jax.jit(trainer.step)
            jax.block_until_ready(update(state))
            speed = config.steps_per_update / best_of(lambda update=update, state=state: update(state), 5)
            rows.append([n, num_envs, round(speed), round(speed * n)])
            progress(f"{n:5} x {num_envs:4}: {speed:11,.0f} steps/s, {speed * n:13,.0f} of agents")
    return [Table(title="TagGridWorld, A2C, agents x environments", columns=SCALE, rows=rows)]


def learn(request: Request) -> list[Table]:
    """Train taggers against random runners, then runners against those taggers, and count."""
    settled = settings("ppo", "TagContinuous", {})
    env, config = purerl.make("TagContinuous", **settled.parameters), settled.config
    seeds, steps, episodes = (5, int(config.total_timesteps), 64) if request.size == 1 else (2, 16_000, 16)
    reached = play_seeds(env, config, steps, seeds, episodes)
    interval = lambda values: "{:.2f} .. {:.2f}".format(
        *bootstrap_interval(jax.random.key(0), values, statistic=jnp.mean)
    )
    rows = [[name, f"{values.mean():.2f} ({interval(values)})", ""] for name, values in reached.items()]
    for better, worse, goal in COMPARED:
        ratio = reached[better] / np.maximum(reached[worse], 1e-9)
        rows.append([f"{better} / {worse}", f"{ratio.mean():.2f} x ({interval(ratio)})", goal])
    title = f"TagContinuous, 5 + 20 agents, {seeds} seeds of {steps:,} steps, 95% intervals over seeds"
    return [Table(title=title, columns=COLUMNS, rows=rows)]
