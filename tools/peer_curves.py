"""Learning curves of other frameworks' own trainers, next to ours in `results/`.

    python tools/peer_curves.py brax/ant                  brax in a temporary environment that uv makes
    python tools/peer_curves.py --peers brax=PYTHON       all missing curves, with an interpreter that has brax
    python tools/peer_curves.py --peers jaxmarl=FOLDER    a checkout of a peer that is not a package

Steps, rollouts, networks and settings are those of `configs/`, except for the changes of the figure. Settings that
purerl does not have, such as a reward scale, are as the peer ships them.
Finished curves are kept unless you pass --again.
"""

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from exit_code import exit_code
from figures import FIGURES, Figure, settings_for, with_settings
from result_file import COLUMNS, FOLDER, path_of, write
from results_page import make_pages

from purerl import registry
from purerl.errors import InputError, unknown
from purerl.settings import runs

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.contest import Failed, FrameworkProcess, Problem
from benchmarks.opponents import TRAINERS, Opponent, chosen


def train(figure: Figure, opponent: Opponent, results: Path = FOLDER) -> None:
    """Let a peer train each seed of a figure, and write the result.

    Raises:
      Failed: if it does not start, or stops.
    """
    made, began = settings_for(figure), time.time()
    problem = Problem(
        name=figure.label,
        algorithm=figure.algorithm,
        environment=figure.task,
        steps=int(made.config.total_timesteps),
        settings=dataclasses.asdict(made.config),
        parameters=dict(made.parameters),
    )
    rows: list[tuple[float, ...]] = []
    with FrameworkProcess(problem, opponent) as worker:
        for seed in range(figure.seeds):
            training = worker.train(seed, curve=True)
            rows += [(seed, steps, problem.episodes, reached, reached) for steps, reached in training.curve]
            print(f"{figure.label} on {figure.task}, seed {seed}: {training.reached:.5g} in {training.seconds:.0f} s")
    columns: dict[str, np.ndarray] = dict(zip(COLUMNS, np.array(rows).T, strict=True))
    text = runs.dump(made, registry.make(made.environment, **made.parameters))
    frames, packages = int(columns["env_steps"].max()), ", ".join(opponent.packages)
    seconds = round(time.time() - began)
    write(
        path_of(figure.task, figure.label, results),
        text,
        columns,
        {"figure": figure.label, "trainer": packages, "frames": frames, "seconds": seconds},
    )


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    figures = [figure for figure in FIGURES if figure.peer]
    tasks = list(dict.fromkeys(figure.task for figure in figures))
    parser.add_argument("tasks", nargs="*", help=", ".join(tasks))
    parser.add_argument("--peers", nargs="+", default=[], help="NAME=PYTHON, or NAME=FOLDER of a checkout")
    parser.add_argument("--again", action="store_true", help="also those that exist")
    given = parser.parse_args(args)
    if wrong := next((task for task in given.tasks if task not in tasks), None):
        raise unknown("task with a peer's curve", wrong, tasks)
    packages = [name for name in TRAINERS if any(f.peer == name for f in figures) and not TRAINERS[name].needs_checkout]
    found, _, _ = chosen(given.peers or packages)
    opponents = {opponent.name: opponent for opponent in found}
    wanted = [f for f in figures if f.peer in opponents and (not given.tasks or f.task in given.tasks)]
    for figure in with_settings(wanted):
        path = path_of(figure.task, figure.label)
        if path.exists() and not given.again:
            print(f"{path}: exists")
        else:
            try:
                train(figure, opponents[figure.peer])
            except Failed as failure:
                raise InputError(f"{figure.peer} on {figure.task}: {failure}") from failure
            print(f"wrote {path}")
            make_pages([figure.task])
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main, "peer_curves"))
