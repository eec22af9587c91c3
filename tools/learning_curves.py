"""Learning curves of the settings in `configs/`, as they are published in `results/`.

    python tools/learning_curves.py CartPole-v1 --algorithms ppo dqn pqn c51 --seeds 10
    python tools/learning_curves.py --all       all missing curves
    python tools/learning_curves.py --table     results/README.md and the pictures, from the files
    python tools/learning_curves.py --check     the first steps again, compared with the published ones

Finished curves are kept unless you pass --again. A stopped one is resumed; one with too few seeds gets the others.
"""

import argparse
import dataclasses
import json
import shutil
import sys
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from exit_code import exit_code
from figures import Figure, select, settings_for, with_settings
from result_file import COLUMNS, FOLDER, path_of, read, same, settings_of, write
from results_page import make_pages

from purerl import registry, zoo
from purerl.errors import InputError
from purerl.host_environment import HostSource
from purerl.reporting import metrics_csv
from purerl.reporting.files import write_whole
from purerl.run import agents, cache, opening, plan
from purerl.run.trained_run import TrainedRun, load_run
from purerl.settings import agent_file, runs
from purerl.settings.options import RunOptions
from purerl.settings.runs import Settings
from purerl.training import make_trainer
from purerl.types import Algorithm, Config, EnvironmentSpec

RUNS = Path("runs") / "curves"
RANDOM_SEEDS = 5
HOST_SUITES = ("ale", "envpool", "gymnasium")  # their seeds cannot be vmapped
HOST_EPISODES = 32  # episodes of the random policy per seed, for host environments
MOST_BYTES = 1_000_000  # size limit of an agent that ships
CHECK_SEEDS = 4
CHECK_STEPS = 60_000  # environment steps per seed of a check


def train(figure: Figure, seeds: int | None, again: bool, results: Path = FOLDER) -> int:
    """Train a figure's agents, or resume, and write the result; return the exit code, 0 if it is written."""
    wanted, path = settings_for(figure, seeds), path_of(figure.task, figure.label, results)
    before = read(path) if path.exists() and not again else None
    if before is not None and not same(before.head, wanted):
        print(f"{path}: exists, made with other settings; --again makes it again")
        return 0
    there = before.head["seeds"] if before else 0
    missing = wanted.options.seeds - there
    if missing <= 0:
        print(f"{path}: exists")
        return 0
    folder = RUNS / figure.task.replace("/", "-") / (f"{figure.label}-from-seed-{there}" if there else figure.label)
    options = dataclasses.replace(wanted.options, seed=wanted.options.seed + there, seeds=missing)
    began, parts = time.time(), dict(_parts(dataclasses.replace(wanted, options=options), folder))
    for part, settings in parts.items():
        if part.exists() and (again or not _resumable(part, settings)):
            shutil.rmtree(part)
        code = opening.resume(part, plain=True) if part.exists() else opening.start(settings, part, plain=True)
        if code:
            return code
    columns = [metrics_csv.read(part / "metrics.csv") for part in parts]
    joined = {name: np.concatenate([part[name] for part in columns]) for name in COLUMNS}
    made = {"figure": figure.label, "frames": int(joined["env_steps"].max()), "seconds": round(time.time() - began)}
    if figure.judged:
        joined["evaluation_return"] = _judged(figure, list(parts), joined)
        made["judged"] = ", ".join(f"{name} = {value}" for name, value in figure.judged.items())
    if before:
        joined = {name: np.concatenate([before.columns[name], joined[name]]) for name in COLUMNS}
        made["seconds"] += before.made["seconds"]
        made["earlier"] = f"seeds below {there}, at commit {before.made['commit']}"
    write(path, _head(plan.saved_settings(next(iter(parts))), wanted.options), joined, made)
    print(f"wrote {path}")
    ship(figure, list(parts), results, above=float(before.final().max()) if before else float("-inf"))
    return 0


def _head(saved: Settings, wanted: RunOptions) -> str:
    """Return the text of the settings of all seeds, given those of the run of some."""
    whole = dataclasses.replace(saved, options=dataclasses.replace(saved.options, seed=wanted.seed, seeds=wanted.seeds))
    return runs.dump(whole, registry.make(whole.environment, **whole.parameters))


def _judged(figure: Figure, parts: Sequence[Path], columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return f64[rows], the evaluations of agents that are judged in another environment: at the end, else NaN."""
    played = [load_run(part).evaluate(**figure.judged).episode_return.mean(axis=1) for part in parts]
    returns = np.full(len(columns["env_steps"]), np.nan)
    returns[columns["env_steps"] == columns["env_steps"].max()] = np.concatenate(played)  # both by seed
    return returns


def ship(figure: Figure, parts: Sequence[Path], results: Path = FOLDER, above: float = float("-inf")) -> None:
    """Write the agent of the seed with the highest final evaluation into the zoo, if its file is small enough.

    The agent in the zoo stays if no run exceeds the return `above`.
    """
    finals = {part: metrics_csv.by_seed(metrics_csv.read(part / "metrics.csv"), "evaluation_return") for part in parts}
    last = [(float(y[-1]), part, seed) for part, curves in finals.items() for seed, (_, y) in curves.items() if len(y)]
    reached, part, seed = max(last)
    if reached <= above:
        return
    name = f"{figure.label}-{figure.task.replace('/', '-')}"
    ship_agent(load_run(part), seed, name, results, **{"return": f"{reached:.6g}"})


def ship_agent(trained: TrainedRun, seed: int, name: str, results: Path = FOLDER, **texts: str) -> None:
    """Write the agent of a seed into the zoo under a name, with `texts`, if its file is small enough."""
    content = agents.content(trained, trained.agent_of(seed), seed, target=False, **texts)
    path = _zoo_folder(name, results) / f"{name}{agent_file.SUFFIX}"
    if len(content) > MOST_BYTES:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(exist_ok=True)
        write_whole(path, content)
        print(f"wrote {path}")
    if path.parent == zoo.CLONE:
        names = sorted(file.stem for file in zoo.CLONE.glob(f"*{agent_file.SUFFIX}"))
        zoo.NAMES.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def _zoo_folder(name: str, results: Path) -> Path:
    """Return the package's folder for an agent that ships there already, else the clone's."""
    if results != FOLDER:
        return results / "zoo"
    return zoo.PACKAGE if (zoo.PACKAGE / f"{name}{agent_file.SUFFIX}").exists() else zoo.CLONE


def _parts(wanted: Settings, folder: Path) -> Iterator[tuple[Path, Settings]]:
    """Return a figure's runs: all seeds in one program, but on the host one after the other."""
    options = wanted.options
    if options.seeds == 1 or wanted.environment.partition("/")[0] not in HOST_SUITES:
        yield folder, wanted
        return
    for seed in range(options.seed, options.seed + options.seeds):
        alone = dataclasses.replace(options, seeds=1, seed=seed)
        yield folder / f"seed-{seed}", dataclasses.replace(wanted, options=alone)


def _resumable(folder: Path, wanted: Settings) -> bool:
    """Return whether a stopped run is the wanted one."""
    try:
        saved = plan.saved_settings(folder)
        return saved.options == wanted.options and settings_of(saved) == settings_of(wanted)
    except InputError:
        return False


def random_policy(spec: EnvironmentSpec, settings: Config) -> Algorithm:
    """Return an algorithm that draws its actions from the space and learns nothing."""

    def act(agent: Any, carry: Any, key: jax.Array, observation: Any, explore: bool) -> tuple[Any, Any, Any]:
        keys = jax.random.split(key, jax.tree.leaves(observation)[0].shape[0])
        return jax.vmap(spec.action_space.sample)(keys), carry, ()

    return Algorithm(
        init=lambda key: (),
        initial_carry=lambda num_envs: (),
        act=act,
        update=lambda agent, key, rollout: (agent, {}),
    )


def play_randomly(
    task: str, again: bool, results: Path = FOLDER, parameters: Mapping[str, Any] = types.MappingProxyType({})
) -> None:
    """Write the result of the random policy on a task, with the environment's changed parameters."""
    path = path_of(task, "random", results)
    if path.exists() and not again:
        return
    env = registry.make(task, **parameters)
    trainer = make_trainer(random_policy, env, Config())
    keys = jax.random.split(jax.random.key(0), RANDOM_SEEDS)
    if isinstance(env, HostSource):
        played = np.stack([trainer.evaluate((), key, HOST_EPISODES).episode_return for key in keys])
        trainer.close()  # type: ignore[attr-defined]
    else:
        played = np.asarray(jax.jit(jax.vmap(lambda key: trainer.evaluate((), key).episode_return))(keys))
    columns = {"seed": np.arange(RANDOM_SEEDS), "evaluation_return": played.mean(axis=1)}
    columns |= {"env_steps": np.zeros(RANDOM_SEEDS), "episodes": np.full(RANDOM_SEEDS, played.shape[1])}
    columns["episode_return"] = columns["evaluation_return"]
    lines = "".join(f"\n{name} = {json.dumps(value)}" for name, value in parameters.items())
    text = f'algorithm = "random"\nenvironment = "{task}"\n[env]{lines}'
    write(path, text, columns, {"figure": "random", "frames": 0, "seconds": 0})


class Comparison(NamedTuple):
    """New seeds compared with the published ones, after the same number of steps."""

    figure: Figure
    env_steps: int
    new: np.ndarray  # f64[CHECK_SEEDS]
    published: np.ndarray  # f64[seeds]

    @property
    def worse(self) -> bool:
        """Whether the new mean is significantly below the published one, z > 4."""
        spread = np.hypot(
            np.std(self.new, ddof=1) / len(self.new) ** 0.5, np.std(self.published, ddof=1) / len(self.published) ** 0.5
        )
        return bool(np.mean(self.new) < np.mean(self.published) - 4 * spread - 1e-6)


def check(figure: Figure, results: Path = FOLDER, steps: int = CHECK_STEPS) -> Comparison:
    """Train new seeds for the first steps of a published curve, and compare the returns of their episodes there."""
    published = read(path_of(figure.task, figure.label, results))
    curves = metrics_csv.by_seed(published.columns, "episode_return")
    known = min((x for x, _ in curves.values()), key=len)
    end = int(known[known <= max(steps, known[0])][-1])
    begin = int(max([0, *known[known < end]]))
    wanted = settings_for(figure)
    factory, _ = registry.algorithm(figure.algorithm)
    trainer = make_trainer(factory, registry.make(figure.task, **wanted.parameters), wanted.config)
    per_update = wanted.config.steps_per_update

    def returns(key: jax.Array) -> jax.Array:
        _, metrics = jax.lax.scan(lambda state, _: trainer.step(state), trainer.init(key), None, end // per_update)
        late = slice(begin // per_update, None)
        episodes, mean = metrics.episodes["episodes"][late], metrics.episodes["episode_return"][late]
        return jnp.sum(jnp.where(episodes > 0, mean * episodes, 0.0)) / jnp.maximum(jnp.sum(episodes), 1.0)

    keys = jax.random.split(jax.random.key(1_000), CHECK_SEEDS)
    new = np.asarray(jax.jit(jax.vmap(returns))(keys), np.float64)
    old = np.array([y[x == end][0] for x, y in curves.values() if (x == end).any()])
    return Comparison(figure=figure, env_steps=end, new=new, published=old)


def check_all(figures: Sequence[Figure]) -> int:
    """Compare all published curves; return the exit code, 1 if one got worse."""
    worse = 0
    for figure in with_settings(figures):
        elsewhere = figure.peer or figure.task.partition("/")[0] in HOST_SUITES
        if elsewhere or not path_of(figure.task, figure.label).exists():
            continue
        pair = check(figure)
        worse += pair.worse
        means = f"new {pair.new.mean():.1f}, published {pair.published.mean():.1f}"
        print(f"{'WORSE' if pair.worse else 'ok   '} {figure.task} {figure.label} after {pair.env_steps:,}: {means}")
    return int(worse > 0)


def arguments(args: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help="environments, such as CartPole-v1")
    parser.add_argument("--algorithms", nargs="+", default=[], help="all with a figure there if none is named")
    parser.add_argument("--seeds", type=int, help="10; 5 for MinAtar")
    parser.add_argument("--all", action="store_true", help="every figure")
    parser.add_argument("--again", action="store_true", help="also those that exist")
    parser.add_argument("--table", action="store_true", help="only write the pictures and results/README.md")
    parser.add_argument("--check", action="store_true", help="compare short runs with the published curves")
    return parser.parse_args(args)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    given = arguments(args)
    figures = select(given.tasks, given.algorithms)
    tasks = list(dict.fromkeys(figure.task for figure in figures))
    cache.enable()
    if given.table:
        make_pages(tasks)
        return 0
    if given.check:
        return check_all(figures)
    if not given.tasks and not given.all:
        raise InputError("name a task, such as CartPole-v1, or --all")
    for figure in with_settings(figures):
        if figure.peer:
            print(f"{figure.label} on {figure.task}: left out, `python tools/peer_curves.py` makes it")
            continue
        code = train(figure, given.seeds, given.again)
        if code:
            return code
        play_randomly(figure.task, given.again, parameters=settings_for(figure).parameters | figure.judged)
        make_pages([figure.task])
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main, "learning_curves"))
