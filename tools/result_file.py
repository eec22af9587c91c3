"""A published result: a CSV with a curve per seed; its head is TOML with the settings.

The lines of the head begin with "# ". The head is a complete `config.toml`, from which you can train again, and a table
`result` with the commit, the machine and the versions. `pandas.read_csv(path, comment="#")` reads the rest.
"""

import dataclasses
import hashlib
import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl import registry
from purerl.errors import InputError, hints
from purerl.host_environment import HostSource
from purerl.reporting import summary
from purerl.settings import runs
from purerl.settings.runs import Settings

FOLDER = Path(__file__).parents[1] / "results"
COLUMNS = ("seed", "env_steps", "episodes", "episode_return", "evaluation_return")


class Result(NamedTuple):
    """The content of a file of `results/`."""

    head: dict[str, Any]
    columns: dict[str, np.ndarray]  # f64[rows] each: COLUMNS

    @property
    def made(self) -> dict[str, Any]:
        """The table `result`: commit, machine, versions."""
        return self.head["result"]

    def final(self) -> np.ndarray:
        """Return f64[seeds]: the mean greedy return of each seed at the end."""
        last = self.columns["env_steps"] == self.columns["env_steps"].max()
        return self.columns["evaluation_return"][last]


def path_of(task: str, label: str, folder: Path = FOLDER) -> Path:
    """Return the path of a figure's result: results/TASK/LABEL.csv."""
    return folder / task.replace("/", "-") / f"{label}.csv"


def settings_of(run: Settings) -> dict[str, Any]:
    """Return the settings that decide a run's numbers, as written: algorithm, environment, config and parameters."""
    env = registry.make(run.environment, **run.parameters)
    whole = dataclasses.replace(run, parameters=env.parameters) if isinstance(env, HostSource) else run
    return chosen(tomllib.loads(runs.dump(whole, env)))


def chosen(head: dict[str, Any]) -> dict[str, Any]:
    """Return the same of a result's head."""
    _, config_class = registry.algorithm(head["algorithm"]) if head["algorithm"] != "random" else (None, None)
    names = hints(config_class) if config_class else {}
    picked = {name: head[name] for name in sorted(head) if name in names}
    return {"algorithm": head["algorithm"], "environment": head["environment"], "env": head.get("env", {}), **picked}


def same(head: dict[str, Any], run: Settings) -> bool:
    """Return whether a result was made with a run's settings, as far as they were there at its time."""
    recorded, current = chosen(head), settings_of(run)
    parameters = recorded.pop("env")
    return parameters.items() <= current["env"].items() and all(current[name] == recorded[name] for name in recorded)


def digest(table: dict[str, Any]) -> str:
    """Return a hash of settings, twelve hexadecimal digits."""
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:12]


def write(path: Path, text: str, columns: dict[str, np.ndarray], made: dict[str, Any]) -> None:
    """Write a result, completely or not at all.

    Args:
      path: the file to write.
      text: the run's config.toml.
      columns: from `metrics_csv.read`, of which `COLUMNS` are written.
      made: more entries of the table `result`.
    """
    made = {"settings_digest": digest(chosen(tomllib.loads(text))), **made, **provenance()}
    lines = [*text.rstrip().splitlines(), "", "[result]", *(f"{name} = {json.dumps(made[name])}" for name in made)]
    rows = zip(*(columns[name] for name in COLUMNS), strict=True)
    table = [",".join("" if np.isnan(value) else f"{value:.7g}" for value in row) for row in rows]
    body = "\n".join([*(f"# {line}".rstrip() for line in lines), ",".join(COLUMNS), *table])
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(body + "\n", encoding="utf-8")
    part.replace(path)


def read(path: Path) -> Result:
    """Return a result.

    Raises:
      InputError: if there is none or it is damaged.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        head = tomllib.loads("\n".join(line[2:] for line in lines if line.startswith("#")))
        rows = [line.split(",") for line in lines if line and not line.startswith("#")]
        table = np.array([[float(cell) if cell else np.nan for cell in row] for row in rows[1:]])
        return Result(head, {name: table[:, i] for i, name in enumerate(rows[0])})
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, IndexError) as error:
        raise InputError(f"{path} is not a result: {error}") from None


def provenance() -> dict[str, Any]:
    """Return commit, device and versions of here and now."""
    device = jax.devices()[0]
    return {"commit": commit(), "device": f"{device.platform} {device.device_kind}", **summary.versions()}


def commit() -> str:
    """Return the commit of the working tree, with "+changes" if the code differs from it."""

    def git(*args: str) -> str:
        done = subprocess.run(["git", *args], cwd=FOLDER.parent, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    code = ("purerl", "algos", "envs", "configs", ":!purerl/zoo")  # agents are results
    changed = git("status", "--porcelain", "--", *code)
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("+changes" if changed else "")
