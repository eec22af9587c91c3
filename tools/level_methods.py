"""Compare ways to choose levels on the held-out levels of an environment, at equal environment steps.

    python tools/level_methods.py Maze --seeds 3 --methods dr,accel
    python tools/level_methods.py Maze --seeds 5 --name Maze-160 --env.max_walls 160 --levels-capacity 512

Each method and seed is a run of `purerl train` in its own folder below --runs; a stopped run is resumed. Then every
agent plays each held-out level, and the table is written as NAME.json, plotted as NAME.png and shown in
results/README.md. --train METHODS only trains these methods, and writes nothing.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from result_file import FOLDER
from results_page import LEVEL_METHODS, make_pages

METHODS = ("dr", "robust-plr", "accel")


def train(folder: Path, environment: str, method: str, seed: int, more: list[str]) -> None:
    """Train one agent, or resume its run; do nothing if it is complete."""
    if (folder / "summary.json").exists():
        return
    begun = (folder / "config.toml").exists()
    line = ["--resume", str(folder)] if begun else ["ppo", environment, "--levels", method, "--seed", str(seed)]
    line += [] if begun else ["--evaluations", "0", "--out", str(folder), *more]
    subprocess.run([sys.executable, "-m", "purerl", "train", *line, "--plain"], check=True)


def solved(folder: Path, episodes: int) -> dict:
    """Return what the agent of a run reaches: {level: share of episodes solved}, and its settings."""
    from purerl.extensions.levels import held_out
    from purerl.run.trained_run import load_run

    run = load_run(folder)
    levels = held_out.chosen_levels(run.plan.env, held_out.ALL, run.settings.environment)
    results = held_out.play_levels(run, run.plan, levels, episodes, seed=0)
    config = run.settings.config
    steps = int(run.state.num_updates) * config.steps_per_update
    shares = dict(zip(results.names, results.solved[0].round(4).tolist(), strict=True))
    return {"seed": run.settings.options.seed, "env_steps": steps, "solved": shares}


def draw(found: dict, path: Path) -> None:
    """Draw the mean share that each method solves of each level, with the single seeds as dots."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    levels = list(next(iter(found.values()))[0]["solved"])
    figure, axis = plt.subplots(figsize=(10, 4))
    width = 0.8 / len(found)
    for i, (method, runs) in enumerate(found.items()):
        shares = np.array([[*run["solved"].values(), np.mean(list(run["solved"].values()))] for run in runs])
        x = np.arange(len(levels) + 1) + (i - (len(found) - 1) / 2) * width
        axis.bar(x, shares.mean(axis=0), 0.9 * width, label=LEVEL_METHODS[method], color=f"C{i}")
        axis.plot(np.tile(x, (len(shares), 1)), shares, ".", color="black", markersize=3)
    axis.set_xticks(range(len(levels) + 1), [*levels, "all"], rotation=35, ha="right")
    axis.set_ylabel("episodes solved")
    axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Train what is missing, then play, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=64, help="on each level")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--train", help="train these methods alone, separated by commas")
    parser.add_argument("--runs", type=Path, default=Path("runs/levels"))
    parser.add_argument("--name", help="of the files, where the environment's is not enough")
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder of results/README.md")
    given, more = parser.parse_known_args()  # the rest is for purerl train, such as --total-timesteps 1e6
    methods = (given.train or given.methods).split(",")
    name = given.name or given.environment
    folder = lambda method, seed: given.runs / f"{name}-{method}-{seed}"
    for seed in range(given.seeds):
        for method in methods:
            train(folder(method, seed), given.environment, method, seed, more)
    if given.train:
        return
    found = {
        method: [solved(folder(method, seed), given.episodes) for seed in range(given.seeds)] for method in methods
    }
    out = given.results / "levels"
    out.mkdir(parents=True, exist_ok=True)
    about = {"environment": given.environment, "episodes": given.episodes, "arguments": more, "methods": found}
    (out / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n")
    draw(found, out / f"{name}.png")
    make_pages([], given.results)
    for method, runs in found.items():
        means = [float(np.mean(list(run["solved"].values()))) for run in runs]
        each = ", ".join(f"{mean:.1%}" for mean in means)
        print(
            f"{LEVEL_METHODS[method]}: {np.mean(means):.1%} of the episodes on held-out levels solved; by seed {each}"
        )


if __name__ == "__main__":
    main()
