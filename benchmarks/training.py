"""Training speed: purerl with the settings of published benchmarks, alone or compared with others."""

import dataclasses
import functools
import math
import statistics
from collections.abc import Sequence
from typing import Any

import jax

import purerl
from benchmarks import replays, tables
from benchmarks.contest import Problem, Score, contest
from benchmarks.groups import Request
from benchmarks.tables import FAILED, Table
from benchmarks.timing import ratios, spread
from purerl import registry
from purerl.extensions.self_play.sides import both_sides
from purerl.host_environment import HostSource
from purerl.profiling.explain import matmul_peak
from purerl.profiling.flops import products
from purerl.training import make_trainer

PPO = {  # PureJaxRL's for CartPole
    "learning_rate": 2.5e-4,
    "num_epochs": 4,
    "num_minibatches": 4,
    "clip_epsilon": 0.2,
    "entropy_coefficient": 0.01,
    "value_coefficient": 0.5,
    "max_grad_norm": 0.5,
    "hidden_sizes": (64, 64),
    "activation": "tanh",
}
BREAKOUT = PPO | {"learning_rate": 5e-3, "num_minibatches": 8, "network": "mlp", "activation": "relu"}
PQN = {"num_envs": 32, "rollout_length": 64, "num_epochs": 4, "num_minibatches": 16, "hidden_sizes": (256, 256)}
DQN = {  # PureJaxRL's
    "num_envs": 10,
    "hidden_sizes": (120, 84),
    "batch_size": 128,
    "replay_capacity": 10_000,
    "learning_starts": 10_000,
    "target_update_interval": 50,
    "exploration_fraction": 0.5,
}
SAC_SMALL = {"num_envs": 4, "num_gradient_steps": 2, "hidden_sizes": (64, 64), "batch_size": 128}
BRAX = {
    "num_envs": 256,
    "rollout_length": 16,
    "num_minibatches": 8,
    "num_epochs": 4,
    "hidden_sizes": (128, 128),
    "activation": "silu",
    "learning_rate": 3e-4,
    "learning_rate_schedule": "constant",
    "discount": 0.97,
    "clip_epsilon": 0.3,
    "entropy_coefficient": 1e-2,
    "max_grad_norm": 0.5,
    "normalize_observation": True,
}
BRAX_SAC = {
    "num_envs": 64,
    "num_gradient_steps": 16,
    "learning_starts": 2**13,
    "normalize_observation": True,
}
ALPHAZERO = {  # as pgx's example: Gumbel's search, each rollout learned from once
    "num_envs": 128,
    "rollout_length": 32,
    "num_simulations": 32,
    "num_epochs": 1,
    "num_minibatches": 8,
    "discount": 1.0,
    "epsilon": 0.0,
    "hidden_sizes": (128, 128),
    "learning_rate": 1e-3,
    "network": "mlp",
}
MEMORY = {"rnn": "gru", "hidden_sizes": (64,)}
MAPPO = PPO | MEMORY | {"num_envs": 16, "rollout_length": 128, "activation": "relu"}
QMIX = MEMORY | {
    "num_envs": 8,
    "rollout_length": 25,
    "batch_size": 32,
    "replay_capacity": 125_000,
    "learning_starts": 10_000,
}
CRAFTAX = {
    "num_envs": 256,
    "rollout_length": 64,
    "num_minibatches": 8,
    "gae_lambda": 0.8,
    "max_grad_norm": 1.0,
    "hidden_sizes": (128, 128, 128),
}
AS_GYMNAX = {"Breakout-MinAtar": {"action_set": "minimal", "sticky_action_probability": 0.0, "time_limit": 1000}}


def problem(name: str, algorithm: str, environment: str, steps: int, settings: dict[str, Any], **more: Any) -> Problem:
    """Return a problem whose environment is as gymnax plays it, unless `more` gives its parameters."""
    given: dict[str, Any] = {"parameters": AS_GYMNAX.get(environment)} | more
    return Problem(name=name, algorithm=algorithm, environment=environment, steps=steps, settings=settings, **given)


TRAINING = (
    problem("PPO, 4 x 128", "ppo", "CartPole-v1", 500_000, {"num_envs": 4, "rollout_length": 128} | PPO),
    problem("PPO, 2048 x 32", "ppo", "CartPole-v1", 2**21, {"num_envs": 2048, "rollout_length": 32} | PPO),
    problem(
        "PPO, 64 x 128, MLP", "ppo", "Breakout-MinAtar", 500_000, {"num_envs": 64, "rollout_length": 128} | BREAKOUT
    ),
    problem("PQN, 32 x 64, 256 units", "pqn", "CartPole-v1", 200_000, PQN),
)
OFF_POLICY = (
    problem("DQN, 10 envs, batch 128 per 10 steps", "dqn", "CartPole-v1", 250_000, DQN),
    problem("DQN, the same, 16 seeds", "dqn", "CartPole-v1", 50_000, DQN, seeds=16),
    problem("SAC, batch 256 per step", "sac", "Pendulum-v1", 5_000, {}),
    problem("SAC, 64 units, batch 128 per two steps", "sac", "Pendulum-v1", 20_000, SAC_SMALL),
)
SPREAD = "jaxmarl/MPE_simple_spread_v3"
SUITES = {
    "jaxmarl": (
        problem("IPPO, 16 x 128", "ppo", SPREAD, 2**20, {"num_envs": 16, "rollout_length": 128} | PPO),
        problem("MAPPO with memory, 16 x 128", "mappo", SPREAD, 2**17, MAPPO, parameters={"global_state": True}),
        problem("QMIX with memory, 8 x 25", "qmix", SPREAD, 2**17, QMIX, parameters={"global_state": True}),
        problem(
            "IPPO with memory, 16 x 128",
            "ppo",
            "jaxmarl/HeuristicEnemySMAX",
            2**16,
            MAPPO,
            parameters={"scenario": "3m"},
        ),
        problem(
            "IPPO, 16 x 128, MLP",
            "ppo",
            "jaxmarl/overcooked",
            2**18,
            {"num_envs": 16, "rollout_length": 128, "network": "mlp"} | PPO,
            parameters={"layout": "cramped_room", "shaped_reward": 1.0},
        ),
    ),
    "craftax": (problem("PPO, 256 x 64", "ppo", "craftax/Craftax-Classic-Symbolic-v1", 2**17, PPO | CRAFTAX),),
    "brax": tuple(
        problem(label, algorithm, f"brax/{robot}", steps, settings, parameters={"backend": "spring"})
        for label, algorithm, steps, settings in (
            ("PPO, 256 x 16", "ppo", 2**19, BRAX),
            ("SAC, 64 envs, 16 gradient steps", "sac", 2**15, BRAX_SAC),
        )
        for robot in ("ant", "halfcheetah")
    ),
    "pgx": (
        problem(
            "PPO, 64 x 128, MLP",
            "ppo",
            "pgx/minatar-breakout",
            2**19,
            {"num_envs": 64, "rollout_length": 128, "learning_rate_schedule": "constant"} | BREAKOUT,
        ),
        problem(
            "AlphaZero, 128 x 32, 32 simulations", "alphazero", "pgx/connect_four", 2**16, ALPHAZERO, self_play=True
        ),
    ),
}
PONG = {
    "num_envs": 8,
    "rollout_length": 128,
    "network": "nature",
    "share_body": True,
    "hidden_sizes": (512,),
    "activation": "relu",
    "clip_epsilon": 0.1,
}
HOST = (
    problem("PPO, 8 x 128, Nature", "ppo", "envpool/Pong-v5", 2**13, PPO | PONG, parameters={"preprocessing": "2015"}),
    problem("SAC, batch 256 per step", "sac", "gymnasium/HalfCheetah-v4", 5_000, {}),
)
EVOLVED = (
    problem(
        "LPO, a generation of 64 candidates, 16 x 32",
        "ppo",
        "CartPole-v1",
        2**14,
        {"num_envs": 16, "rollout_length": 32} | PPO,
        seeds=64,
        evolves=True,
    ),
)
COLUMNS = tables.columns(
    "task: text; by: text; environment steps/s: rate; purerl against it: ratio; share of matmul peak: share; "
    "return reached: number; compile: seconds; both against it: ratio; to its return: ratio; memory: bytes"
)


def measure(request: Request) -> list[Table]:
    """Return the speed of algorithms that learn from rollouts."""
    return [contest_table("Training, one seed, compilation left out", TRAINING, request)]


def measure_off_policy(request: Request) -> list[Table]:
    """Return the speed of algorithms that learn from a replay, and of the replay alone."""
    return [
        contest_table("Training from a replay, compilation left out", OFF_POLICY, request),
        replays.measure(request),
    ]


def measure_suite(name: str, request: Request) -> list[Table]:
    """Return the speed on environments of a suite that comes with trainers of its own."""
    return [contest_table(f"Training on environments of {name}, compilation left out", SUITES[name], request)]


measure_brax, measure_craftax, measure_jaxmarl, measure_pgx = (
    functools.partial(measure_suite, name) for name in ("brax", "craftax", "jaxmarl", "pgx")
)


def measure_host(request: Request) -> list[Table]:
    """Return the speed on host environments, which step while the agent learns."""
    return [contest_table("Training on host environments, compilation left out", HOST, request)]


def measure_evolution(request: Request) -> list[Table]:
    """Return the speed of a generation of an objective's evolution."""
    return [contest_table("Evolving an objective, compilation left out", EVOLVED, request)]


def contest_table(title: str, problems: Sequence[Problem], request: Request) -> Table:
    """Return the speed on some problems, alone or compared with the opponents that can solve them."""
    rows = []
    for given in problems:
        _, cls = registry.algorithm(given.algorithm)
        steps = max(int(given.steps * request.size), 2 * cls(**given.settings).steps_per_update)
        config = cls(**given.settings, total_timesteps=steps)
        task = given._replace(steps=steps, settings=dataclasses.asdict(config))
        suite = task.environment.partition("/")[0] if "/" in task.environment else ""
        able = [o for o in request.trainers if task.algorithm in o.algorithms and suite in o.suites]
        against = [o for o in able if task.seeds == 1 or not o.slow]
        before = matmul_peak()
        scores = contest(task, against, request.runs)
        peak, operations = max(before, matmul_peak()), arithmetic(task, config)
        share = None if operations is None else operations / peak
        names = ["purerl", *(opponent.name for opponent in against)]
        rows += [row(task, name, score, scores[0], share) for name, score in zip(names, scores, strict=True)]
    return Table(title=title, columns=COLUMNS, rows=rows)


def row(task: Problem, who: str, score: Score, ours: Score, seconds_at_peak: float | None) -> list[Any]:
    """Return the cells of one framework on one problem."""
    label = f"{task.name}, {task.environment}"
    if score.failure is not None:
        return [label, who, FAILED + score.failure, *[None] * (len(COLUMNS) - 3)]
    rates = [task.steps * task.seeds / seconds for seconds in score.seconds]
    reached = None if math.isnan(score.mean_return) else score.mean_return
    against = share = both = sooner = None
    if score is ours:
        share = statistics.median(rates) * seconds_at_peak if seconds_at_peak else None
    else:
        against, both = ratios(score.seconds, ours.seconds), score.whole / ours.whole
        if reached is not None and any(ours.curves):
            seconds = ours.seconds_to(reached, task.steps)
            sooner = "not reached" if seconds is None else score.whole / seconds
    compiling, memory = score.compile_seconds or None, max(score.memory)
    return [label, who, spread(rates), against, share, reached, compiling, both, sooner, memory]


def arithmetic(task: Problem, config: Any) -> float | None:
    """Return the operations of an environment step's matrix products, learning included, as the program is traced.

    There is no one program of a host environment: None.
    """
    factory, _ = registry.algorithm(task.algorithm)
    env = purerl.make(task.environment, **(task.parameters or {}))
    if isinstance(env, HostSource):
        return None
    env = both_sides(env) if task.self_play else env
    trainer = make_trainer(factory, env, config)
    state = jax.eval_shape(trainer.init, jax.random.key(0))
    return products(trainer.step, state) / config.steps_per_update
