"""Learning curves of the settings in `configs/`, as they are published in `results/`.

python scripts/learning_curves.py CartPole-v1 --algorithms ppo dqn pqn c51 --seeds 10
python scripts/learning_curves.py --all       all that are missing
python scripts/learning_curves.py --table     results/README.md and the pictures, from the files
python scripts/learning_curves.py --check     the first steps again, compared with the published ones

A finished curve stays unless --again is given; a stopped one is resumed.
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
from figures import FIGURES, Figure, select
from result_file import COLUMNS, FOLDER, Result, path_of, read, same, write

from purerl import registry, stats
from purerl.errors import InputError
from purerl.host_environment import HostSource
from purerl.loop.train import make_trainer
from purerl.reporting import metrics_csv, plot
from purerl.reporting.files import write_whole
from purerl.run import agents, cache, plan, run
from purerl.run.trained_run import TrainedRun, load_run
from purerl.settings import agent_file, runs
from purerl.settings.runs import Settings
from purerl.types import Algorithm, Config, EnvironmentSpec

RUNS = Path("runs") / "curves"
MANY_AGENTS = "## Many agents"  # the last section of results/README.md
ROWS = 100  # of a curve
RANDOM_SEEDS = 5
HOST_SUITES = ("ale", "envpool", "gymnasium")  # their seeds cannot be vmapped
HOST_EPISODES = 32  # of the random policy and a seed, where environments run on the host
MOST_BYTES = 1_000_000  # of an agent that ships
CHECK_SEEDS = 4
CHECK_STEPS = 60_000  # environment steps per seed of a check


def settings_for(figure: Figure, seeds: int | None = None) -> Settings:
    """Return the settings of a figure's run."""
    changes = {name: value for name, value in figure.changes.items() if name != "env"}
    flags = {"seeds": seeds or figure.seeds, "keep_checkpoints": 1, "checkpoint_interval": 300, **changes}
    made = runs.settings(figure.algorithm, figure.task, flags, parameters=figure.changes.get("env"))
    interval = max(1, int(made.config.total_timesteps) // made.config.steps_per_update // ROWS)
    options = dataclasses.replace(made.options, log_interval=interval)
    return dataclasses.replace(made, options=options)


def train(figure: Figure, seeds: int | None, again: bool, results: Path = FOLDER) -> int:
    """Train a figure's agents, or resume, and write the result; return the exit code, 0 if it is written."""
    wanted, path = settings_for(figure, seeds), path_of(figure.task, figure.label, results)
    if path.exists() and not again:
        print(
            f"{path}: exists"
            if same(read(path).head, wanted)
            else f"{path}: exists, made with other settings; --again makes it again"
        )
        return 0
    folder = RUNS / figure.task.replace("/", "-") / figure.label
    began, parts = time.time(), dict(_parts(wanted, folder))
    for part, settings in parts.items():
        if part.exists() and (again or not _resumable(part, settings)):
            shutil.rmtree(part)
        code = run.resume(part, plain=True) if part.exists() else run.start(settings, part, plain=True)
        if code:
            return code
    first = plan.saved_settings(next(iter(parts)))
    whole = dataclasses.replace(first, options=dataclasses.replace(first.options, seeds=wanted.options.seeds))
    text = runs.dump(whole, registry.make(whole.environment, **whole.parameters))
    columns = [metrics_csv.read(part / "metrics.csv") for part in parts]
    joined = {name: np.concatenate([part[name] for part in columns]) for name in COLUMNS}
    frames = int(joined["env_steps"].max())
    write(path, text, joined, {"figure": figure.label, "frames": frames, "seconds": round(time.time() - began)})
    print(f"wrote {path}")
    ship(figure, list(parts), results)
    return 0


def ship(figure: Figure, parts: Sequence[Path], results: Path = FOLDER) -> None:
    """Write the agent of the seed with the highest final evaluation into the zoo, if its file is small enough."""
    finals = {part: metrics_csv.by_seed(metrics_csv.read(part / "metrics.csv"), "evaluation_return") for part in parts}
    last = [(float(y[-1]), part, seed) for part, curves in finals.items() for seed, (_, y) in curves.items() if len(y)]
    reached, part, seed = max(last)
    name = f"{figure.label}-{figure.task.replace('/', '-')}"
    ship_agent(load_run(part), seed, name, results, **{"return": f"{reached:.6g}"})


def ship_agent(trained: TrainedRun, seed: int, name: str, results: Path = FOLDER, **texts: str) -> None:
    """Write the agent of a seed into the zoo under a name, if its file is small enough; `texts` are told with it."""
    content = agents.content(trained, trained.agent_of(seed), seed, **texts)
    zoo = agent_file.ZOO if results == FOLDER else results / "zoo"
    path = zoo / f"{name}{agent_file.SUFFIX}"
    if len(content) > MOST_BYTES:
        path.unlink(missing_ok=True)
        return
    zoo.mkdir(exist_ok=True)
    write_whole(path, lambda file: file.write(content))
    print(f"wrote {path}")


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
        return plan.saved_settings(folder) == wanted
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


def draw(task: str, results: Path = FOLDER) -> None:
    """Draw all curves of a task into one picture, with the random policy's return as a line."""
    labels = [figure.label for figure in FIGURES if figure.task == task]
    there = {label: path for label in labels if (path := path_of(task, label, results)).exists()}
    if there:
        level = path_of(task, "random", results)
        levels = {"random policy": float(read(level).final().mean())} if level.exists() else {}
        of_others = [figure for figure in FIGURES if figure.task == task and figure.reference]
        levels |= {f"{figure.source}'s {figure.label}": figure.level for figure in of_others if figure.label in there}
        results_of = {label: read(path) for label, path in there.items()}
        ends = {label: found for label, found in results_of.items() if len(set(found.columns["env_steps"])) == 1}
        levels |= {label: float(found.final().mean()) for label, found in ends.items()}
        curves = [(label, found.columns) for label, found in results_of.items() if label not in ends]
        title = task if len(curves) > 1 else f"{curves[0][0]} on {task}"
        plot.draw(curves, title, results / f"{task.replace('/', '-')}.png", levels)


def table(results: Path = FOLDER) -> str:
    """Return results/README.md."""
    lines = [
        "# Results",
        "",
        "Written by `python scripts/learning_curves.py --table` from the files beside it. A file holds a curve per",
        "seed and, in its head, the complete settings, the commit and the machine; the head is a `config.toml`.",
        "Returns are sums of undiscounted rewards of 128 greedy episodes per seed at the end of training. IQM and the",
        "95% bootstrap interval are over seeds. References are published by others, with their settings; or a",
        "peer's own trainer made them here (`python scripts/peer_curves.py`): equal steps, rollouts and networks, 64",
        "episodes per seed.",
        "How settings were found: `search/README.md`.",
        *_overview(results),
    ]
    for task in dict.fromkeys(figure.task for figure in FIGURES):
        rows = _rows(task, results)
        if not rows:
            continue
        lines += ["", f"## {task}", "", _conditions(task, results), "", f"![]({task.replace('/', '-')}.png)", ""]
        lines += ["| algorithm | frames | seeds | mean | IQM | 95% interval | worst .. best seed | reference |"]
        lines += ["|---|---|---|---|---|---|---|---|", *rows]
    return "\n".join([*lines, *_board_games(results), *_many_agents(results)]) + "\n"


def _overview(results: Path) -> list[str]:
    """Return the table that opens the page: ours beside what others publish."""
    there = [(f, read(path)) for f in FIGURES if (path := path_of(f.task, f.label, results)).exists()]
    peers = {(f.task, f.algorithm): _of_peer(f, result) for f, result in there if f.peer}
    found = [(peers.get((f.task, f.label), f), result) for f, result in there if not f.peer]
    found = [(figure, result) for figure, result in found if figure.reference]
    if not found:
        return []
    lines = ["", "## Beside the references", "", "| task | algorithm | frames | ours, IQM | reference | |"]
    lines.append("|---|---|---|---|---|---|")
    for figure, result in found:
        ours = float(stats.iqm(result.final()))
        gap = ours - figure.level
        said = f"met, {_short(gap)} above" if gap >= 0 else f"missed by {_short(-gap)}"
        lines.append(
            f"| {figure.task} | {figure.label} | {result.made['frames']:,} | {_short(ours)} | "
            f"{figure.reference} ({figure.source}) | {said} |"
        )
    return lines


def _of_peer(figure: Figure, result: Result) -> Figure:
    """Return the figure whose reference is what a peer's own trainer reached."""
    low, high = stats.bootstrap_interval(jax.random.key(0), result.final())
    reached = f"{_short(stats.iqm(result.final()))}, {_short(low)} .. {_short(high)}"
    return figure._replace(reference=reached, source=f"{figure.peer}'s own, run here", peer="")


def _board_games(results: Path) -> list[str]:
    """Return the section on games in turns, from the files of `scripts/board_games.py`."""
    files = sorted((results / "games").glob("*.json"))
    if not files:
        return []
    lines = ["", "## Games in turns", "", "Written by `python scripts/board_games.py`: agents that learned against"]
    lines += [
        "themselves (`--self-play 8`) play from either seat; the mean over seeds. A look ahead sees the own move and"
    ]
    lines += ["each reply: it wins where it can, and does not let the other win at once. Perfect play follows from all"]
    lines += ["positions of a game, each worth what its best move leads to.", ""]
    lines += ["| game | algorithm | frames | seeds | against | move | games | won | drawn | lost |"]
    lines += ["|---|---|---|---|---|---|---|---|---|---|"]
    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))
        head = f"[{found['environment']}](games/{file.name}) | {found['algorithm']} | {found['frames']:,}"
        for opponent, by_seed in found["scores"].items():
            for rows in zip(*by_seed.values(), strict=True):
                shares = (f"{np.mean([row[name] for row in rows]):.1%}" for name in ("won", "drawn", "lost"))
                games = sum(row["games"] for row in rows)
                cells = [head, str(len(rows)), opponent, rows[0]["seat"], f"{games:,}", *shares]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def _many_agents(results: Path) -> list[str]:
    """Return the section that `python -m benchmarks multi_agent --readme results/README.md` writes, as it is."""
    page = results / "README.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return ["", text[text.index(MANY_AGENTS) :].rstrip("\n")] if MANY_AGENTS in text else []


def _rows(task: str, results: Path) -> list[str]:
    figures = [figure for figure in FIGURES if figure.task == task]
    rows = [_row(figure, read(path)) for figure in figures if (path := path_of(task, figure.label, results)).exists()]
    level = path_of(task, "random", results)
    if rows and level.exists():
        rows.append(_row(Figure(task=task, algorithm="random"), read(level)))
    return rows


def _row(figure: Figure, result: Result) -> str:
    final = result.final()
    low, high = stats.bootstrap_interval(jax.random.key(0), final)
    reference = f"{figure.reference} ({figure.source})" if figure.reference else ""
    name = f"[{figure.label}]({figure.task.replace('/', '-')}/{figure.label}.csv)"
    cells = [name, f"{result.made['frames']:,}", str(len(final)), _short(final.mean()), _short(stats.iqm(final))]
    cells += [f"{_short(low)} .. {_short(high)}", f"{_short(final.min())} .. {_short(final.max())}", reference]
    return f"| {' | '.join(cells)} |"


def _short(value: Any) -> str:
    return f"{float(value):.1f}" if abs(value) >= 10 else f"{float(value):.2f}"


def _conditions(task: str, results: Path) -> str:
    """Return the conditions of a task's returns: time limit, sticky actions, action set; of a suite's, all settings."""
    figures = [figure for figure in FIGURES if figure.task == task]
    if "/" in task:  # the suite may not be installed here
        labels = [figure.label for figure in figures]
        made = next(path for label in labels if (path := path_of(task, label, results)).exists())
        given = read(made).head.get("env", {})
        return (
            "; ".join(f"{name}: {value}" for name, value in given.items()) + "." if given else "As the suite makes it."
        )
    given = settings_for(figures[0]).parameters
    env = registry.make(task, **given)
    limit = getattr(env, "time_limit", None)
    conditions = [f"{name.capitalize().replace('_', ' ')}: {value}." for name, value in given.items()]
    conditions += [f"Time limit: {f'{limit} steps' if limit else 'none'}."]
    if hasattr(env, "sticky_action_probability"):
        conditions += [f"Sticky actions: {env.sticky_action_probability:g}.", f"Actions: {env.action_space.n}."]
    return " ".join(conditions)


class Comparison(NamedTuple):
    """New seeds beside the published ones, after the same number of steps."""

    figure: Figure
    env_steps: int
    new: np.ndarray  # f64[CHECK_SEEDS]
    published: np.ndarray  # f64[seeds]

    @property
    def worse(self) -> bool:
        """Whether the new mean is below the published one by more than chance explains, z > 4."""
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
    for figure in figures:
        elsewhere = figure.peer or figure.task.partition("/")[0] in HOST_SUITES
        if elsewhere or not path_of(figure.task, figure.label).exists():
            continue
        pair = check(figure)
        worse += pair.worse
        means = f"new {pair.new.mean():.1f}, published {pair.published.mean():.1f}"
        print(f"{'WORSE' if pair.worse else 'ok   '} {figure.task} {figure.label} after {pair.env_steps:,}: {means}")
    return int(worse > 0)


def make_pages(tasks: Sequence[str], results: Path = FOLDER) -> None:
    """Write the pictures of some tasks and results/README.md."""
    for task in tasks:
        draw(task, results)
    (results / "README.md").write_text(table(results), encoding="utf-8")


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
    for figure in figures:
        if figure.peer:
            print(f"{figure.label} on {figure.task}: left out, `python scripts/peer_curves.py` makes it")
            continue
        if not runs.defaults_path(figure.algorithm, figure.task).is_file():
            print(f"{figure.label} on {figure.task}: left out, as configs/ has no settings for it yet")
            continue
        code = train(figure, given.seeds, given.again)
        if code:
            return code
        play_randomly(figure.task, given.again, parameters=settings_for(figure).parameters)
        make_pages([figure.task])
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main, "learning_curves"))
