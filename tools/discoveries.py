"""Discovered objectives, as they are published in `results/objectives/`.

python tools/discoveries.py                     all that is missing: evolve, tune PPO, train on every task, the page
python tools/discoveries.py --only actor-critic these discoveries or ablations, separated by commas
python tools/discoveries.py --page              the page alone, from the files

A stopped evolution is resumed. A score that is there stays, so that discoveries can be added one by one. Every method
trains with the same config, from the same keys; PPO is tuned with as many training runs as an evolution had.
"""

import argparse
import dataclasses
import json
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from discoveries_page import write_page
from exit_code import exit_code
from result_file import FOLDER

import purerl
from purerl import zoo
from purerl.algos.ppo import ppo
from purerl.evolution.evolve import Evolved, load
from purerl.evolution.fitness import centered_ranks, nan_is_worst
from purerl.evolution.inner_loop import in_chunks, score
from purerl.evolution.tasks import make_task
from purerl.functional.drifts import DPO, RecoveryDrift
from purerl.functional.objectives import ActorCriticLoss, Clip, Drifting, Mixture
from purerl.loop.train import make_train
from purerl.reporting.files import write_whole
from purerl.settings import objective_file
from purerl.types import AlgorithmFactory, Array, Key
from purerl.xla import backend

RUNS = Path("runs") / "objectives"
TRAINED = ("CartPole-v1", "Catch", "FrozenLake-v1")
LIFE = 16_384  # environment steps of a training run in an evolution
CONFIG = {  # of every training run
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
RATES, CLIPS = (5e-4, 5e-2), (0.05, 1.0)  # of those trials, log-uniform; half of them clip the value


RULE_CONFIG = {  # of agents that learn by a rule, which takes one gradient step per rollout
    name: value for name, value in CONFIG.items() if name not in ("num_epochs", "num_minibatches")
} | {"rollout_length": 8}


class Discovery(NamedTuple):
    """What is evolved, and how: the arguments of `purerl evolve`."""

    objective: str
    words: str  # the arguments that do not set the config
    about: str  # what is discovered, for the page
    config: dict[str, Any] = CONFIG


LPO = "--population 32 --shaping rank --generations 60 --sigma 0.05 --meta-learning-rate 0.02"
DISCOVERIES = {
    "actor-critic": Discovery(
        objective="actor-critic",
        words="--strategy cma_es --population 16 --shaping rank --generations 25 --sigma 0.05",
        about="PPO's complete loss, three numbers: the clip range and the weights of the value loss and the entropy.",
    ),
    "dpo": Discovery(
        objective="dpo",
        words="--strategy cma_es --population 16 --shaping rank --generations 15 --sigma 0.3 --learning-rate 0.0144 "
        "--value-clip none",
        about="The two numbers of DPO's drift, with the learning rate of the tuned PPO and an unclipped value.",
    ),
    "lpo": Discovery(
        objective="lpo",
        words=LPO,
        about="A network of 1,152 weights on top of PPO's clip.",
    ),
    "lpo-zero": Discovery(
        objective="lpo-zero",
        words=LPO,
        about="The same network from a drift of zero.",
    ),
    "recovery": Discovery(
        objective="recovery",
        words="--strategy cma_es --population 16 --shaping rank --generations 15 --sigma 0.3",
        about="The two numbers of a closed form of what both evolutions of LPO found.",
    ),
    "lpg": Discovery(
        objective="lpg",
        words="--method meta-gradient --population 16 --generations 3000 --meta-learning-rate 0.001",
        about="A whole update rule: a recurrent network of random weights, which gets no loss, value or advantage.",
        config=RULE_CONFIG,
    ),
    "open": Discovery(
        objective="open",
        words="--hidden-sizes 32,32 --population 16 --shaping rank --generations 40 --sigma 0.1 "
        "--meta-learning-rate 0.03",
        about="An optimizer that replaces Adam. Its network makes no steps at first. It was evolved on smaller agents.",
        config={name: value for name, value in CONFIG.items() if name != "learning_rate"},  # which it replaces
    ),
}
ABLATIONS = {  # evolutions of "lpo" with one change each
    "lpo-seed": Discovery(objective="lpo", words=f"{LPO} --seed 1", about="another seed"),
    "lpo-worst": Discovery(objective="lpo", words=f"{LPO} --across-tasks worst", about="the worst task counts"),
    "lpo-tasks": Discovery(
        objective="lpo",
        words=f"{LPO} --tasks {','.join((*TRAINED, 'Asterix-MinAtar', 'Freeway-MinAtar', 'PointMass'))}",
        about="six tasks: also Asterix-MinAtar, Freeway-MinAtar and PointMass",
    ),
    "lpo-life": Discovery(
        objective="lpo", words=f"{LPO} --total-timesteps {4 * LIFE}", about="training runs 4x as long"
    ),
    "lpo-generations": Discovery(objective="lpo", words=f"{LPO} --generations 240", about="240 generations"),
}


class Method(NamedTuple):
    """A column of the table: an algorithm and its config."""

    factory: AlgorithmFactory
    config: Any
    loss: Any = None  # of PPO; methods that differ in it alone share a compiled program


def ppo_by(loss: Any, learning_rate: Any = CONFIG["learning_rate"]) -> Method:
    """Return PPO's loop with a loss."""
    config = dataclasses.replace(_config(), learning_rate=learning_rate)
    return Method(factory=partial(ppo, loss=loss), config=config, loss=loss)


def _config() -> Any:
    return make_task("ppo", "CartPole-v1", CONFIG, {}).config


def command(name: str) -> list[str]:
    """Return the command line of an evolution."""
    found = (DISCOVERIES | ABLATIONS)[name]
    flat = lambda value: ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    config = [word for key, value in found.config.items() for word in (f"--{key.replace('_', '-')}", flat(value))]
    tasks = ["--tasks", ",".join(TRAINED), "--total-timesteps", str(LIFE)]
    return ["evolve", found.objective, *tasks, *config, *shlex.split(found.words)]  # a flag's last value counts


def evolve(name: str) -> int:
    """Evolve, or resume, and publish what was found; return the exit code."""
    folder, before = RUNS / name, resource.getrusage(resource.RUSAGE_CHILDREN)
    if not (folder / "summary.json").exists():
        begun = (folder / "evolve.toml").exists()
        words = ["evolve", "--resume", str(folder)] if begun else [*command(name), "--out", str(folder)]
        code = subprocess.run([sys.executable, "-m", "purerl", *words, "--devices", "1", "--plain"]).returncode
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if not folder.exists():  # refused
            return code
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        timed = folder / "cpu_seconds.txt"
        earlier = float(timed.read_text()) if timed.exists() else 0.0
        timed.write_text(f"{earlier + spent:.1f}\n")
        if code:
            return code
    return 0


def publish(name: str, results: Path) -> None:
    """Copy what an evolution wrote to its results, and its objective to the zoo."""
    folder, out = RUNS / name, results / name
    out.mkdir(parents=True, exist_ok=True)
    for file in ("generations.csv", "evolve.toml", "summary.json", "cpu_seconds.txt", "report/closed_form.txt"):
        if (folder / file).exists():
            shutil.copy(folder / file, out / Path(file).name)
    for picture in ("fitness.png", "heat_maps.png", "slices.png"):
        if (folder / "report" / picture).exists():
            shutil.copy(folder / "report" / picture, out / picture)
    if results == FOLDER / "objectives" and name in DISCOVERIES:
        zoo.OBJECTIVES.mkdir(exist_ok=True)
        shutil.copy(folder / objective_file.NAME, zoo.OBJECTIVES / f"{name}.safetensors")


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
    table = _table(path) if path.exists() else {"tuned_ppo": {}, "scores": {}, "cpu_seconds": 0.0}
    wanted = max((run.plan.trainings(run.generation) for run in found.values()), default=0)
    if table["tuned_ppo"].get("training_runs", 0) < TRIALS * len(TRAINED) * seeds_of_trials(wanted):
        table["tuned_ppo"] = tune_ppo(wanted)
        for row in table["scores"].values():
            row.pop("tuned PPO", None)
        save(table, path)
    add_scores(rivals(table["tuned_ppo"]) | discoveries(found), table, path, tasks=tasks, seeds=seeds)


def discoveries(found: Mapping[str, Evolved]) -> dict[str, Method]:
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


def _table(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def save(table: Mapping[str, Any], path: Path) -> None:
    """Write a table as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(table, indent=1) + "\n")


def main() -> int:
    """Do what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = DISCOVERIES | ABLATIONS
    parser.add_argument("--only", default=",".join(every), help="discoveries or ablations, separated by commas")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    given, out = parser.parse_args(), FOLDER / "objectives"
    if not given.page:
        for name in given.only.split(","):
            if code := evolve(name):
                return code
            publish(name, out if name in DISCOVERIES else out / "ablations")
        tasks = dict.fromkeys(TRAINED, LIFE) | UNSEEN
        ended = {name: load(RUNS / name) for name in every if (RUNS / name / "summary.json").exists()}
        compare({name: run for name, run in ended.items() if name in DISCOVERIES}, out / "scores.json", tasks)
        path = out / "ablations" / "scores.json"
        ablated = discoveries({name: run for name, run in ended.items() if name in ABLATIONS})
        table = _table(path) if path.exists() else {"scores": {}, "cpu_seconds": 0.0}
        add_scores(ablated, table, path, tasks=tasks)
    about = {name: (found.about, " ".join(["purerl", *command(name)])) for name, found in DISCOVERIES.items()}
    print(f"wrote {write_page(out, about, TRAINED, {name: found.about for name, found in ABLATIONS.items()})}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main, "discoveries.py"))
