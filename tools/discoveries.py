"""Discovered objectives, as they are published in `results/objectives/`.

python tools/discoveries.py                     everything missing: evolve, tune PPO, train on every task, the page
python tools/discoveries.py --only actor-critic these discoveries or ablations, separated by commas
python tools/discoveries.py --page              only the page, from the files

A stopped evolution is resumed. Existing scores are kept, so you can add discoveries one by one. Every method trains
with the same config and keys; PPO is tuned with as many training runs as an evolution had.
"""

import argparse
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from discoveries_page import write_page
from discovery_scores import CONFIG, LIFE, TRAINED, UNSEEN, add_scores, compare, methods_of, read_table
from exit_code import exit_code
from result_file import FOLDER

from purerl import zoo
from purerl.evolution.evolve import load
from purerl.settings import objective_file

RUNS = Path("runs") / "objectives"
RULE_CONFIG = {  # config of agents that learn by a rule, which takes one gradient step per rollout
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
        config={name: value for name, value in CONFIG.items() if name != "learning_rate"},  # which OPEN replaces
    ),
}
ABLATIONS = {  # evolutions of "lpo" with one change each
    "lpo-seed": Discovery(objective="lpo", words=f"{LPO} --seed 1", about="another seed"),
    "lpo-worst": Discovery(objective="lpo", words=f"{LPO} --across-tasks worst", about="the worst task counts"),
    "lpo-tasks": Discovery(
        objective="lpo",
        words=f"{LPO} --tasks {','.join((*TRAINED, 'Asterix-MinAtar', 'BernoulliBandit', 'TMaze'))}",
        about="six tasks: also Asterix-MinAtar, BernoulliBandit and TMaze",
    ),
    "lpo-life": Discovery(
        objective="lpo", words=f"{LPO} --total-timesteps {4 * LIFE}", about="training runs 4x as long"
    ),
    "lpo-generations": Discovery(objective="lpo", words=f"{LPO} --generations 240", about="240 generations"),
}


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
        ablated = methods_of({name: run for name, run in ended.items() if name in ABLATIONS})
        table = read_table(path) if path.exists() else {"scores": {}, "cpu_seconds": 0.0}
        add_scores(ablated, table, path, tasks=tasks)
    about = {name: (found.about, " ".join(["purerl", *command(name)])) for name, found in DISCOVERIES.items()}
    print(f"wrote {write_page(out, about, TRAINED, {name: found.about for name, found in ABLATIONS.items()})}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main, "discoveries.py"))
