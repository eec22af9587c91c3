"""Training speed: purerl on the settings of published benchmarks, alone or beside others."""

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Any

import jax

import purerl
from benchmarks.contest import Score, Task, contest
from benchmarks.opponents import Opponent
from benchmarks.tables import Table
from benchmarks.timing import ratios, spread
from purerl import registry
from purerl.loop.train import make_trainer
from purerl.profiling.explain import matmul_peak
from purerl.profiling.flops import products

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
AS_GYMNAX = {"Breakout-MinAtar": {"action_set": "minimal", "sticky_action_probability": 0.0, "time_limit": 1000}}
# name, algorithm, environment, environment steps of each seed, settings, seeds
TRAINING = (
    ("PPO, 4 x 128", "ppo", "CartPole-v1", 500_000, {"num_envs": 4, "rollout_length": 128} | PPO, 1),
    ("PPO, 2048 x 32", "ppo", "CartPole-v1", 2**21, {"num_envs": 2048, "rollout_length": 32} | PPO, 1),
    ("PPO, 64 x 128, MLP", "ppo", "Breakout-MinAtar", 500_000, {"num_envs": 64, "rollout_length": 128} | BREAKOUT, 1),
    ("PQN, 32 x 64, 256 units", "pqn", "CartPole-v1", 200_000, PQN, 1),
)
OFF_POLICY = (
    ("DQN, 10 envs, batch 128 per 10 steps", "dqn", "CartPole-v1", 250_000, DQN, 1),
    ("DQN, the same, 16 seeds", "dqn", "CartPole-v1", 50_000, DQN, 16),
    ("SAC, batch 256 per step", "sac", "Pendulum-v1", 5_000, {}, 1),
    ("SAC, 64 units, batch 128 per two steps", "sac", "Pendulum-v1", 20_000, SAC_SMALL, 1),
)
COLUMNS = [
    ("task", "text"),
    ("by", "text"),
    ("environment steps/s", "rate"),
    ("purerl against it", "ratio"),
    ("share of matmul peak", "share"),
    ("return reached", "number"),
    ("compile", "seconds"),
]


def measure(title: str, rows: Sequence[tuple], opponents: Sequence[Opponent], runs: int, size: float) -> Table:
    """Return what purerl and its opponents do on these tasks.

    Args:
      title: of the table.
      rows: of tasks, as in `TRAINING`.
      opponents: who else trains.
      runs: how many trainings are timed, of each.
      size: a factor on the steps of each task.
    """
    cells = []
    for name, algorithm, environment, steps, given, seeds in rows:
        _, cls = registry.algorithm(algorithm)
        steps = max(int(steps * size), 2 * cls(**given).steps_per_update)
        settings = dataclasses.asdict(cls(**given, total_timesteps=steps))
        task = Task(name, algorithm, environment, steps, settings, seeds, AS_GYMNAX.get(environment))
        against = [o for o in opponents if algorithm in o.algorithms and (seeds == 1 or not o.slow)]
        before = matmul_peak()
        scores = contest(task, against, runs)
        share = arithmetic(task, cls(**given)) / max(before, matmul_peak())
        label = f"{name}, {environment}"
        cells += [
            row(label, who, score, scores[0], task, share)
            for who, score in zip(["purerl", *(o.name for o in against)], scores, strict=True)
        ]
    return Table(title, COLUMNS, cells)


def row(label: str, who: str, score: Score, ours: Score, task: Task, seconds_at_peak: float) -> list[Any]:
    """Return the cells of one framework on one task."""
    if score.failure is not None:
        return [label, who, f"did not start: {score.failure}", None, None, None, None]
    steps = task.steps * task.seeds
    rates = [steps / seconds for seconds in score.seconds]
    against = ratios(score.seconds, ours.seconds) if score is not ours else None
    share = statistics.median(rates) * seconds_at_peak if score is ours else None
    reached = None if math.isnan(score.reached) else score.reached
    return [label, who, spread(rates), against, share, reached, score.compile_seconds or None]


def arithmetic(task: Task, config: Any) -> float:
    """Return the operations of an environment step's matrix products, learning included, as the program is traced."""
    factory, _ = registry.algorithm(task.algorithm)
    trainer = make_trainer(factory, purerl.make(task.environment, **(task.parameters or {})), config)
    state = jax.eval_shape(trainer.init, jax.random.key(0))
    return products(trainer.step, state) / config.steps_per_update
