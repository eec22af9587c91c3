"""Compares a learned objective with its rivals, on the tasks of its evolution and on others, with fresh seeds.

The rivals train the same number of agents for as long. They are the start of the search and, for a part of PPO, also
unchanged PPO and DPO, and PPO with a tuned learning rate and clip. The tuning uses as many training runs as the
evolution.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from purerl import registry
from purerl.errors import InputError
from purerl.evolution.evolve import Evolved
from purerl.evolution.fitness import centered_ranks, nan_is_worst
from purerl.evolution.inner_loop import Task, in_chunks, score
from purerl.evolution.plan import EvolvePlan
from purerl.evolution.tasks import make_task
from purerl.functional import statistics
from purerl.functional.drifts import DPO
from purerl.functional.objectives import Clip, Drifting
from purerl.loop.train import make_train
from purerl.reporting.display import number
from purerl.reporting.files import write_whole
from purerl.settings.options import MetaOptions, make_options
from purerl.types import AlgorithmFactory, Array, Key, PyTree
from purerl.xla import backend

RATES = (1e-4, 1e-1)  # learning rates that are tried, evenly over orders of magnitude
CLIPS = (0.02, 1.0)
TRIALS = 64  # settings that are tried
BOOTSTRAP = 0  # the seed of intervals


class Rival(NamedTuple):
    """A rival: an algorithm, and its changes to a task's config."""

    plug: Callable[[PyTree], Any]
    candidate: PyTree
    changes: Mapping[str, Any] = MappingProxyType({})


class ComparisonRow(NamedTuple):
    """The scores of one method on one task, or on all tasks together."""

    task: str
    held_out: bool
    method: str
    iqm: float
    interval: tuple[float, float]
    improvement: float  # how probably a training with the learned objective is better
    improvement_interval: tuple[float, float]


class MetaEvaluation(NamedTuple):
    """The result of a meta-evaluation."""

    scores: dict[str, dict[str, np.ndarray]]  # task -> method -> f32[meta-seeds * seeds]
    rows: list[ComparisonRow]
    tuned: dict[str, float]  # the tuned settings of PPO

    def text(self) -> str:
        """Return a table."""
        lines = [f"{'task':24} {'method':12} {'IQM':>9}  {'95% interval':>19}   P(learned is better)"]
        for row in self.rows:
            low, high = row.interval
            better = row.improvement_interval
            verdict = "" if row.method == "learned" else f"{row.improvement:.2f}  ({better[0]:.2f} .. {better[1]:.2f})"
            name = row.task + (" (held out)" if row.held_out else "")
            lines.append(
                f"{name:24} {row.method:12} {number(row.iqm):>9}  {number(low):>8} .. {number(high):>8}   {verdict}"
            )
        return "\n".join(lines)

    def table(self) -> dict[str, Any]:
        """Return the complete result for a JSON file."""
        scores = {
            task: {m: np.asarray(s, float).tolist() for m, s in by_method.items()}
            for task, by_method in self.scores.items()
        }
        return {"rows": [row._asdict() for row in self.rows], "tuned_ppo": self.tuned, "scores": scores}


def meta_evaluate(
    runs: Sequence[Evolved],
    held_out: Sequence[str] = (),
    *,
    mesh: Mesh | None = None,
    **options: object,
) -> MetaEvaluation:
    """Compare a learned objective with its start; a part of PPO also with PPO, DPO and a tuned PPO.

    Args:
      runs: one evolution, or several that differ in their seed: meta-seeds, whose objectives are pooled.
      held_out: environments outside the evolution; they use the config and the lifetime of the first task.
      mesh: a mesh of `purerl.devices.sharding`; None: the devices of the first run.
      **options: fields of `purerl.settings.options.MetaOptions`, such as seeds=32.

    Raises:
      InputError: if the objective is not a part of an algorithm of purerl, or a task is not possible.
    """
    seeds, tuning, kind = vars(make_options(MetaOptions, options)).values()
    plan = runs[0].plan
    mesh = plan.mesh if mesh is None else mesh
    if not plan.algorithm:
        raise InputError(f"meta-evaluate compares parts of purerl's algorithms; {plan.name} belongs to none of them")
    if any(run.plan.name != plan.name for run in runs):
        raise InputError(f"the runs evolved different objectives: {', '.join(sorted({run.plan.name for run in runs}))}")
    tasks = [*plan.tasks, *(_like(plan.tasks[0], name, plan) for name in held_out)]
    methods = {"start": Rival(plan.learner, runs[0].first)}
    if plan.algorithm == "ppo":
        methods |= {"PPO": Rival(_objective, Clip()), "DPO": Rival(_objective, Drifting(drift=DPO()))}
    tuned: dict[str, float] = {}
    if tuning > 0 and plan.algorithm == "ppo":
        tuned = tune_ppo(plan.tasks, max(1, round(plan.num_training_runs(runs[0].generation) * tuning)), kind, mesh)
        changes = {"learning_rate": tuned["learning_rate"]}
        methods["tuned PPO"] = Rival(plug=_objective, candidate=Clip(epsilon=tuned["clip_epsilon"]), changes=changes)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(plan.options.seed), 0x6D657461), seeds)
    scores: dict[str, dict[str, np.ndarray]] = {}
    for task in tasks:
        learned = [_scores(task, Rival(plan.learner, run.candidate), keys, kind, mesh) for run in runs]
        rivals = {name: _scores(task, rival, keys, kind, mesh) for name, rival in methods.items()}
        scores[task.name] = {"learned": np.concatenate(learned), **rivals}
    known = {task.name for task in plan.tasks}
    return MetaEvaluation(scores=scores, rows=_rows(scores, known), tuned=tuned)


def tune_ppo(
    tasks: Sequence[Task], num_runs: int, kind: str, mesh: Mesh | None = None, tell: Callable[[str], None] = print
) -> dict[str, float]:
    """Search PPO's learning rate and clip at random, with a given total number of training runs.

    Args:
      tasks: settings are ranked on each; the best mean rank wins.
      num_runs: training runs in all, shared evenly by at most `TRIALS` settings; each has at least one.
      kind: "final" or "auc": the score compared.
      mesh: a mesh of `purerl.devices.sharding`.
      tell: a function that is called with a line of progress from time to time.

    Returns:
      learning_rate and clip_epsilon.
    """
    trials = max(2, min(TRIALS, num_runs // len(tasks)))
    rounds = max(1, num_runs // (trials * len(tasks)))
    draws = np.random.default_rng(0).uniform(size=(2, trials))
    rates, clips = (
        np.exp(np.log(low) + u * np.log(high / low)) for u, (low, high) in zip(draws, (RATES, CLIPS), strict=True)
    )
    rates, clips = rates.astype(np.float32), clips.astype(np.float32)

    def all_trials(task: Task, key: Key) -> Array:
        def one(rate: Array, clip: Array) -> Array:
            return live(
                task, Rival(plug=_objective, candidate=Clip(epsilon=clip), changes={"learning_rate": rate}), key, kind
            )

        return in_chunks(one, (jnp.asarray(rates), jnp.asarray(clips)), None, mesh)

    ranks = np.zeros(trials)
    for task in tasks:
        compiled = backend.jit(partial(all_trials, task))
        for n in range(rounds):
            scores = jax.device_get(compiled(jax.random.fold_in(jax.random.key(1), n)))
            ranks += np.asarray(centered_ranks(nan_is_worst(jnp.asarray(scores))))
            if n in (0, rounds // 2):
                tell(f"tuning PPO on {task.name}: {(n + 1) * trials:,} of {rounds * trials:,} training runs")
    best = int(np.argmax(ranks))
    return {
        "learning_rate": float(rates[best]),
        "clip_epsilon": float(clips[best]),
        "training_runs": rounds * trials * len(tasks),
    }


def live(task: Task, rival: Rival, key: Key, kind: str) -> Array:
    """Train once and return the score, f32[]."""
    key_env, key_train = jax.random.split(key)
    env = task.env if task.redraw is None else task.redraw(key_env, task.env)
    config = dataclasses.replace(task.config, **rival.changes)
    _, metrics = make_train(rival.plug(rival.candidate), env, config, task.total_timesteps)(key_train)
    return score(metrics, kind)


def _scores(task: Task, rival: Rival, keys: Key, kind: str, mesh: Mesh | None) -> np.ndarray:
    lives = lambda keys: in_chunks(lambda key: live(task, rival, key, kind), (keys,), None, mesh)
    run = backend.jit(lives)
    return np.asarray(jax.device_get(run(keys)))


def _like(task: Task, name: str, plan: EvolvePlan) -> Task:
    """Return a held-out task: another environment with the config and the lifetime of the first task."""
    known = {field.name: getattr(task.config, field.name) for field in dataclasses.fields(task.config)}
    known["total_timesteps"] = task.total_timesteps  # a task from Python has it next to its config
    flags = {key: value for key, value in known.items() if value is not None}
    held = make_task(plan.algorithm, name, flags, {})
    kinds = [type(space).__name__ for space in (task.env.action_space, held.env.action_space)]
    if kinds[0] != kinds[1]:
        raise InputError(f"tasks must have actions of one kind: {task.name} ({kinds[0]}), {name} ({kinds[1]})")
    return held


def _objective(candidate: PyTree) -> AlgorithmFactory:
    return partial(registry.algorithm("ppo")[0], objective=candidate)


def _rows(scores: Mapping[str, Mapping[str, np.ndarray]], trained: set[str]) -> list[ComparisonRow]:
    rows = []
    for task, by_method in scores.items():
        worst = np.nanmin([np.nan if np.isnan(v).all() else np.nanmin(v) for v in by_method.values()])
        for method, values in by_method.items():
            known = np.where(np.isfinite(values), values, worst)  # a failed run counts as the worst
            known = known[np.isfinite(known)]
            ends = (
                statistics.bootstrap_interval(jax.random.key(BOOTSTRAP), known) if len(known) > 1 else (np.nan, np.nan)
            )
            row = _row(task, task not in trained, method, [by_method])
            center = float(statistics.iqm(known)) if len(known) else np.nan
            rows.append(row._replace(iqm=center, interval=(float(ends[0]), float(ends[1]))))
    for held_out, name in ((False, "all training tasks"), (True, "all held-out tasks")):
        group = [by_method for task, by_method in scores.items() if (task not in trained) == held_out]
        rows += [_row(name, held_out, method, group) for method in (group[0] if len(group) > 1 else ())]
    return rows


def _row(name: str, held_out: bool, method: str, group: Sequence[Mapping[str, np.ndarray]]) -> ComparisonRow:
    """Compare a method with the learned objective on a group of tasks, and return the row."""
    better, ends = improvement([of["learned"] for of in group], [of[method] for of in group])
    return ComparisonRow(
        task=name,
        held_out=held_out,
        method=method,
        iqm=np.nan,
        interval=(np.nan, np.nan),
        improvement=better,
        improvement_interval=ends,
    )


def improvement(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> tuple[float, tuple[float, float]]:
    """Return the probability that one of `ours` beats one of `theirs`, the mean over tasks, and its 95% interval.

    Args:
      ours, theirs: f32[seeds] per task; NaN is worse than anything.
    """
    pair = [_worst_for_nan(np.stack(scores, axis=1)) for scores in (ours, theirs)]
    low, high = statistics.bootstrap_interval(
        jax.random.key(BOOTSTRAP), *pair, statistic=statistics.probability_of_improvement
    )
    return float(statistics.probability_of_improvement(*pair)), (float(low), float(high))


def _worst_for_nan(scores: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(scores), np.finfo(np.float32).min, scores)


def save(found: MetaEvaluation, folder: Path) -> Path:
    """Write meta_evaluation.json into an evolution's folder; return its path."""
    path = folder / "meta_evaluation.json"
    write_whole(path, json.dumps(_without_nan(found.table()), indent=2, allow_nan=False) + "\n")
    return path


def _without_nan(value: object) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
