"""The scores of discovered objectives and of their rivals: PPO, DPO and a PPO tuned with as many training runs.

Every method trains with the same config and keys, on the tasks of the evolutions and on unseen tasks.
"""

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import purerl
from purerl.algos.ppo import ppo
from purerl.evolution.evolve import Evolved
from purerl.evolution.fitness import centered_ranks, nan_is_worst
from purerl.evolution.inner_loop import in_chunks, score
from purerl.evolution.tasks import make_task
from purerl.functional.drifts import DPO, RecoveryDrift
from purerl.functional.objectives import ActorCriticLoss, Clip, Drifting, Mixture
from purerl.loop.train import make_train
from purerl.reporting.files import write_whole
from purerl.types import AlgorithmFactory, Array, Key
from purerl.xla import backend

TRAINED = ("CartPole-v1", "Catch", "FrozenLake-v1")
LIFE = 16_384  # environment steps of a training run in an evolution
CONFIG = {  # config of every training run
    "num_envs": 16,
    "rollout_length": 32,
    "num_epochs": 4,
    "num_minibatches": 4,
    "learning_rate": 4e-3,
    "network": "mlp",
    "hidden_sizes": (64, 64),
}
UNSEEN = {  # task -> environment steps
    "Acrobot-v1": 2 * LIFE,
    "PositionOnlyCartPole": 2 * LIFE,
    "RepeatPrevious": 2 * LIFE,
    "DiscountingChain": LIFE,
    "GridWorld": LIFE,
    "Breakout-MinAtar": LIFE,
    "SpaceInvaders-MinAtar": LIFE,
    "FourRooms": LIFE,
}
SEEDS = 10
KIND = "auc"  # the mean return over a training run: what evolutions maximize and PPO is tuned for
VALUE_CLIP = 0.2  # PPO's default
TRIALS = 40  # settings of PPO that are tried
RATES, CLIPS = (5e-4, 5e-2), (0.05, 1.0)  # ranges of those trials, log-uniform; half of the trials clip the value


class Method(NamedTuple):
    """A column of the table: an algorithm and its config."""

    factory: AlgorithmFactory
    config: Any
    loss: Any = None  # loss of PPO; methods that differ only in the loss share a compiled program


def ppo_by(loss: Any, learning_rate: Any = CONFIG["learning_rate"]) -> Method:
    """Return PPO's loop with a loss."""
    config = dataclasses.replace(_config(), learning_rate=learning_rate)
    return Method(factory=partial(ppo, loss=loss), config=config, loss=loss)


def _config() -> Any:
    return make_task("ppo", "CartPole-v1", CONFIG, {}).config


def whole_loss(objective: Any, value_clip: Any = VALUE_CLIP) -> ActorCriticLoss:
    """Return PPO's loss with an objective."""
    return ActorCriticLoss(objective=objective, value_clip=value_clip)


def rivals(tuned: Mapping[str, float]) -> dict[str, Method]:
    """Return PPO, DPO, PPO without its clip or without the clip of its value, and a tuned PPO by name."""
    return {
        "PPO": ppo_by(whole_loss(Clip())),
        "PPO, no clip": ppo_by(whole_loss(Drifting(drift=RecoveryDrift(slope=0.0, curvature=0.0)))),
        "DPO": ppo_by(whole_loss(Drifting(drift=DPO()))),
        "PPO, no value clip": ppo_by(whole_loss(Clip(), None)),
        "tuned PPO": ppo_by(
            loss=whole_loss(Clip(epsilon=tuned["clip_epsilon"]), VALUE_CLIP if tuned["clips_value"] else None),
            learning_rate=tuned["learning_rate"],
        ),
    }


def discovered(run: Evolved) -> Method:
    """Return the method of a discovery: a part of PPO with the config of all, a rule with that of its evolution."""
    config = run.plan.tasks[0].config
    if isinstance(run.candidate, ActorCriticLoss):
        return ppo_by(run.candidate, config.learning_rate)
    if isinstance(run.candidate, Drifting):
        return ppo_by(whole_loss(run.candidate, config.value_clip), config.learning_rate)
    config = _config() if run.plan.algorithm == "ppo" else config
    return Method(factory=run.plan.learner(run.candidate), config=config)


def trained(env: Any, steps: int, method: Method, key: Key) -> Array:
    """Train once and return the score, f32[]."""
    return score(make_train(method.factory, env, method.config, steps)(key)[1], KIND)


def scores_of(task: str, steps: int, chosen: Sequence[Method], seeds: int) -> np.ndarray:
    """Return the scores f32[methods, seeds] on a task; the keys are those of all methods."""
    env, keys = purerl.make(task), jax.random.split(jax.random.key(0x6F626A), seeds)
    found = np.zeros((len(chosen), seeds), np.float32)
    by_loss = [i for i, method in enumerate(chosen) if method.loss is not None]
    if by_loss:
        found[by_loss] = _by_losses(env, steps, [chosen[i] for i in by_loss], keys)
    for i, method in enumerate(chosen):
        if method.loss is None:
            run = backend.jit(
                lambda keys, method=method: in_chunks(partial(trained, env, steps, method), (keys,), None)
            )
            found[i] = jax.device_get(run(keys))
    return found


def _by_losses(env: Any, steps: int, chosen: Sequence[Method], keys: Key) -> np.ndarray:
    """Return the scores f32[methods, seeds] of methods that differ in PPO's loss and learning rate: one program."""
    members = tuple(method.loss for method in chosen)
    rates = jnp.asarray([method.config.learning_rate for method in chosen], jnp.float32)

    def one(index: Array, key: Key) -> Array:
        return trained(env, steps, ppo_by(Mixture(members=members, index=index), rates[index]), key)

    index = jnp.repeat(jnp.arange(len(chosen)), keys.size)
    run = backend.jit(lambda index, keys: in_chunks(one, (index, keys), None))
    found = run(index, jnp.concatenate([keys] * len(chosen)))
    return np.asarray(jax.device_get(found)).reshape(len(chosen), keys.size)


def seeds_of_trials(runs: int) -> int:
    """Return how often the tuning of PPO trains with each setting on each task."""
    return max(1, runs // (TRIALS * len(TRAINED)))


def tune_ppo(runs: int) -> dict[str, float]:
    """Search PPO's learning rate, its clip and whether it clips the value, with so many training runs.

    Every setting trains as often on each of the `TRAINED` tasks; the best mean rank over tasks wins.
    """
    draws = np.random.default_rng(0).uniform(size=(2, TRIALS))
    rates, clips = (low * (high / low) ** u for u, (low, high) in zip(draws, (RATES, CLIPS), strict=True))
    value_clips = np.where(np.arange(TRIALS) % 2 == 0, VALUE_CLIP, np.inf)
    settings = [jnp.asarray(x, jnp.float32) for x in (rates, clips, value_clips)]
    seeds = seeds_of_trials(runs)
    ranks, since = np.zeros(TRIALS), time.process_time()
    for name in TRAINED:
        env = purerl.make(name)

        def one(rate: Array, clip: Array, value_clip: Array, key: Key, env: Any = env) -> Array:
            return trained(env, LIFE, ppo_by(whole_loss(Clip(epsilon=clip), value_clip), rate), key)

        repeated = [jnp.repeat(x, seeds) for x in settings]
        keys = jnp.concatenate([jax.random.split(jax.random.key(1), seeds)] * TRIALS)
        run = backend.jit(lambda *members, one=one: in_chunks(one, members, None))
        scores = np.asarray(jax.device_get(run(*repeated, keys))).reshape(TRIALS, seeds).mean(axis=1)
        ranks += np.asarray(centered_ranks(nan_is_worst(jnp.asarray(scores))))
        print(f"tuned PPO on {name}: {TRIALS * seeds} training runs", flush=True)
    best = int(np.argmax(ranks))
    return {
        "learning_rate": float(rates[best]),
        "clip_epsilon": float(clips[best]),
        "clips_value": bool(np.isfinite(value_clips[best])),
        "training_runs": TRIALS * seeds * len(TRAINED),
        "cpu_seconds": round(time.process_time() - since, 1),
    }


def compare(found: Mapping[str, Evolved], path: Path, tasks: Mapping[str, int], seeds: int = SEEDS) -> None:
    """Train with the rivals and every discovery on every task, where a score is missing."""
    table = read_table(path) if path.exists() else {"tuned_ppo": {}, "scores": {}, "cpu_seconds": 0.0}
    num_runs = max((run.plan.num_training_runs(run.generation) for run in found.values()), default=0)
    if table["tuned_ppo"].get("training_runs", 0) < TRIALS * len(TRAINED) * seeds_of_trials(num_runs):
        table["tuned_ppo"] = tune_ppo(num_runs)
        for row in table["scores"].values():
            row.pop("tuned PPO", None)
        save(table, path)
    add_scores(rivals(table["tuned_ppo"]) | methods_of(found), table, path, tasks=tasks, seeds=seeds)


def methods_of(found: Mapping[str, Evolved]) -> dict[str, Method]:
    """Return the methods of discoveries."""
    return {name: discovered(run) for name, run in found.items()}


def add_scores(
    known: Mapping[str, Method],
    table: dict[str, Any],
    path: Path,
    *,
    tasks: Mapping[str, int],
    seeds: int = SEEDS,
) -> None:
    """Train with every method on every task, where a score is missing; the file is written after each task."""
    for name, steps in tasks.items():
        row = table["scores"].setdefault(name, {})
        missing = [method for method in known if method not in row]
        if not missing:
            continue
        since = time.process_time()
        scores = scores_of(name, steps, [known[method] for method in missing], seeds)
        row.update(
            {
                method: [float(x) if np.isfinite(x) else None for x in line]
                for method, line in zip(missing, scores, strict=True)
            }
        )
        table["cpu_seconds"] = round(table["cpu_seconds"] + time.process_time() - since, 1)
        save(table, path)
        print(name, {method: np.array(line, np.float32).mean().round(3) for method, line in row.items()}, flush=True)


def read_table(path: Path) -> dict[str, Any]:
    """Return the tuned settings of PPO and the scores, as `compare` wrote them."""
    return json.loads(path.read_text())


def save(table: Mapping[str, Any], path: Path) -> None:
    """Write a table as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(table, indent=1) + "\n")
