"""Crafted folders: nothing that they name runs, is written elsewhere or reaches the terminal."""

import html
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faults import runner
from benchmarks.faults.kills import PROGRAMS
from benchmarks.faults.tally import Case, References, Verdict, campaign, ended
from benchmarks.groups import Request
from benchmarks.tables import Table

MODULE = """
import pathlib
pathlib.Path({mark!r}).write_text("it ran")
from purerl.envs.classic.cartpole import CartPole as Env
def start(key):
    pathlib.Path({mark!r}).write_text("it ran")
"""
READERS = {
    "train --resume": "train --resume {run} --plain --no-cache",
    "train --config": "train --config {run}/config.toml --plain --no-cache --out new",
    "evaluate": "evaluate {run} --episodes 2",
    "play": "play Catch --policy {run} --terminal",
    "explain": "explain --config {run}/config.toml",
    "sweep --config": "sweep --config {run}/config.toml --over learning_rate=1e-3:1e-2 --plain --no-cache --out new",
    "plot": "plot {run}",
    "compare": "compare {run} {other}",
}
INJECTION = "\\u001b]0;TAKEN\\u0007\\u001b[2J<script>alert(1)</script>"
ESCAPES = ("\x1b]0;TAKEN", "\x1b[2J")
MEMORY = 3 * 10**9  # bytes that a crafted file may not fill


def measure(request: Request) -> list[Table]:
    """Open each folder once, or until the time is up."""
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
        return campaign("crafted folders", cases(References(Path(folder))), request.seconds(0.1))


def cases(references: References, seed: int | None = None) -> Iterator[Case]:
    """Yield each combination of what is crafted and who reads it once, in a random order."""
    found: list[Case] = []
    for name, craft in CRAFTS.items():
        for reader in READERS:
            found.append(Case(kind=name, name=reader, attempt=partial(_run, craft, READERS[reader], references)))
    for name, (craft, kind) in SEARCHES.items():
        for words in _searchers(kind):
            found.append(
                Case(kind=name, name=words.split(" {")[0], attempt=partial(_search, craft, kind, words, references))
            )
    yield from random.Random(seed).sample(found, len(found))


def _set(name: str, value: str) -> Callable[[Path], None]:
    """Return what sets a name in config.toml."""

    def craft(folder: Path) -> None:
        path = folder / "config.toml"
        lines = path.read_text().splitlines()
        path.write_text("\n".join(f'{name} = "{value}"' if line.startswith(f"{name} = ") else line for line in lines))

    return craft


def _more(text: str) -> Callable[[Path], None]:
    """Return what puts lines before the end of config.toml."""

    def craft(folder: Path) -> None:
        path = folder / "config.toml"
        path.write_text(path.read_text().replace("# end", f"{text}\n# end"))

    return craft


def _modules(folder: Path) -> None:
    """Add modules next to the run."""
    for name in ("click", "numpy", "jax", "sitecustomize", "orbax", "crafted", "matplotlib"):
        (folder / f"{name}.py").write_text(MODULE.format(mark=str(folder.parent / "mark")))


def _pickles(folder: Path) -> None:
    """Arrays that are pickles, which NumPy would run."""
    with (folder / "curves.npz").open("wb") as file:
        np.savez(file, trained=np.array([_Marks(str(folder.parent / "mark"))], object))
    for path in (folder / "checkpoints").rglob("_CHECKPOINT_METADATA"):
        path.write_bytes((folder / "curves.npz").read_bytes())


class _Marks:
    def __init__(self, path: str):
        self._path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self._path,)


def _links(folder: Path) -> None:
    """Links where a command writes."""
    for name in ("summary.json", "curve.png", "summary.json.part", "metrics.csv.part", "metrics.csv.damaged"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(folder.parent / "precious")


def _linked_checkpoints(folder: Path) -> None:
    """Checkpoints that are a folder elsewhere, with files that look unfinished."""
    (folder / "checkpoints").rename(folder.parent / "elsewhere")
    (folder.parent / "elsewhere" / "000000001.orbax-checkpoint-tmp-1").mkdir()
    (folder / "checkpoints").symlink_to(folder.parent / "elsewhere")


def _bomb(folder: Path) -> None:
    """An array of 4 GB in a file that is small."""
    from orbax.checkpoint import v1 as ocp

    newest = max((folder / "checkpoints").glob("[0-9]*[0-9]"))
    stored: Any = ocp.metadata(str(newest))
    arrays = {name: np.zeros(array.shape, array.dtype) for name, array in stored.metadata.items()}
    arrays |= {next(iter(arrays)): np.zeros(10**9, np.float32)}
    shutil.rmtree(newest)
    ocp.save(str(newest), arrays, custom_metadata=dict(stored.custom_metadata))


def _long_numbers(folder: Path) -> None:
    """Sizes that no memory holds."""
    path = folder / "config.toml"
    path.write_text(path.read_text().replace("num_envs = 2\n", "num_envs = 1000000000000\n"))


def _nested(folder: Path) -> None:
    """Arrays in arrays, which exhaust a parser's stack."""
    _more("x = " + "[" * 100_000 + "]" * 100_000)(folder)


CRAFTS = {
    "an environment of a module": _set("environment", "crafted:Env"),
    "an environment of Gymnasium's by module": _set("environment", "gymnasium/crafted:Env-v0"),
    "a function as the environment": _set("environment", "os:abort"),
    "an algorithm of a module": _set("algorithm", "crafted:start"),
    "modules beside the run": _modules,
    "pickles": _pickles,
    "links where a command writes": _links,
    "checkpoints that are a link": _linked_checkpoints,
    "control characters in a name": _set("environment", INJECTION),
    "control characters in a key": _more(f'"{INJECTION}" = 1'),
    "sizes that no memory holds": _long_numbers,
    "arrays in arrays": _nested,
    "an array of 4 GB": _bomb,
}


def _run(craft: Callable[[Path], None], words: str, references: References, work: Path) -> Verdict:
    reference, _ = references("train", PROGRAMS["train"][0].split())
    folder, other = work / "job", work / "other"
    shutil.copytree(reference, folder)
    shutil.copytree(reference, other)
    return _open(craft, folder, words.format(run=folder, other=other), work)


def _open(craft: Callable[[Path], None], folder: Path, words: str, work: Path) -> Verdict:
    (work / "precious").write_text("precious")
    (work / "crafted.py").write_text(MODULE.format(mark=str(work / "mark")))
    craft(folder)
    kept = sorted(path.name for path in (work / "elsewhere").glob("*"))
    done = runner.run(*words.split(), cwd=folder)
    verdict = ended(done)._replace(command=f"{done.command}\n{done.text[-800:]}")
    wrong = ""
    if (work / "mark").exists():
        wrong = "code of the folder ran"
    now = sorted(path.name for path in (work / "elsewhere").glob("*"))
    if (work / "precious").read_text() != "precious" or not set(kept) <= set(now):
        wrong = "something elsewhere was changed"
    if any(escape in done.text for escape in ESCAPES):
        wrong = "control characters reach the terminal"
    if done.bytes > MEMORY:
        wrong = f"it filled {done.bytes / 1e9:.1f} GB"
    for page in folder.rglob("*.html"):
        if "<script>alert" in html.unescape(page.read_text()).replace(html.escape("<script>alert"), ""):
            wrong = "text reaches the page" if "<script>alert" in page.read_text() else wrong
    return verdict._replace(lost=wrong)


def _replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    """Return what replaces a text in a file of settings."""

    def craft(folder: Path) -> None:
        text = (folder / name).read_text()
        if old not in text:
            raise RuntimeError(f"{name} has no {old!r}")
        (folder / name).write_text(text.replace(old, new))

    return craft


def _python(folder: Path) -> None:
    """A file of what was built in Python, which names functions."""
    calls = {"learner": {"name": "logging.config:dictConfig"}, "factory": {"name": "os:system"}}
    (folder / "python.json").write_text(json.dumps(calls))
    for name in ("evolve.toml", "sweep.toml"):
        if (folder / name).exists():
            text = (folder / name).read_text()
            (folder / name).write_text("\n".join(line for line in text.splitlines() if "objective" not in line))


SEARCHES = {
    "an objective of a module": (
        _replaced("evolve.toml", 'objective = "ppo"', 'objective = "crafted:start"'),
        "evolve",
    ),
    "an objective that is a function": (
        _replaced("evolve.toml", 'objective = "ppo"', 'objective = "logging.config:dictConfig"'),
        "evolve",
    ),
    "a task of a module": (_replaced("evolve.toml", "Catch", "crafted:Env"), "evolve"),
    "a strategy of a module": (
        _replaced("evolve.toml", 'strategy = "openes"', 'strategy = "evosax:crafted"'),
        "evolve",
    ),
    "a file of Python's names": (_python, "evolve"),
    "a sweep over a module": (_replaced("sweep.toml", 'environment = "Catch"', 'environment = "crafted:Env"'), "sweep"),
    "a sweep of an algorithm of a module": (
        _replaced("sweep.toml", 'algorithm = "a2c"', 'algorithm = "crafted:start"'),
        "sweep",
    ),
    "pickles in a sweep": (_pickles, "sweep"),
    "Python's names in a sweep": (_python, "sweep"),
}


def _searchers(kind: str) -> list[str]:
    return [f"{kind} --resume {{}} --plain --no-cache", *(["meta-evaluate {} --seeds 1"] if kind == "evolve" else [])]


def _search(craft: Callable[[Path], None], kind: str, words: str, references: References, work: Path) -> Verdict:
    program = {"evolve": "evolve", "sweep": "sweep, random"}[kind]
    reference, _ = references(program, PROGRAMS[program][0].split())
    folder = work / "job"
    shutil.copytree(reference, folder)
    return _open(craft, folder, words.format(folder), work)
