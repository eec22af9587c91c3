"""Write envs/README.md, the table of all environments: `python tools/environments_table.py [--measure]`.

Everything comes from the registry, the environments' spaces and their docstrings. Without --measure, the speeds are
copied from the present page.
"""

import argparse
import importlib
import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import purerl
from purerl.catalog.environments import ENVIRONMENTS, SUITES
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Stacked

PAGE = Path(__file__).parent.parent / "envs" / "README.md"
REPORTS = Path(__file__).parent.parent / "results" / "suites"
NUM_ENVS = 2048
OFFLINE = re.compile("could not download|Name or service not known|check your connection")  # causes without a network
INTRODUCTION = """\
# Environments

`purerl.make(id, **fields)` makes an environment. Fields that are numbers may be traced and vmapped; static fields are
part of the program's shape. Time limits and best returns hold for the default fields; limits are in steps. This page is
written by `python tools/environments_table.py`, and a test compares it with the registry and the docstrings.
"""
CHECKED = """\
`python tools/check_suite.py NAME` makes each id in its own process, steps it, checks the contract, and trains two
algorithms on it for 2,048 steps. Host environments are made and trained on. *Compiled in* covers `reset` and `step` of
one environment. Atari environments of `gymnasium` are covered under `ale`.
"""
HEADER = "| environment | observation | action | time limit | best possible return | source | steps/s |"


def page(speeds: dict[str, str], machine: str) -> str:
    """Return the page.

    Args:
      speeds: the last column, by id.
      machine: on which the speeds were measured.
    """
    lines = [INTRODUCTION, "## Native\n", HEADER, "|---|---|---|---|---|---|---|"]
    lines += [row(env_id, speeds.get(env_id, "")) for env_id in ENVIRONMENTS]
    lines += [f"\nSteps per second: random play of {NUM_ENVS} instances in one program, {machine}\n"]
    lines += ["## Third-party suites\n", "| ids | suite | extra | source |", "|---|---|---|---|"]
    lines += [suite_row(suite) for suite in sorted(SUITES)]
    return "\n".join([*lines, *every_id(sorted(REPORTS.glob("*.json")))]) + "\n"


def every_id(files: list[Path]) -> list[str]:
    """Return the lines on reports of `tools/check_suite.py`."""
    if not files:
        return []
    lines = ["\n## Compatibility\n", CHECKED, "| suite | version | date | ids | pass | trained by | compiled in |"]
    lines += ["|---|---|---|---|---|---|---|"]
    failed: dict[tuple[str, str], list[str]] = {}  # ids by suite with parameters, and cause
    for file in files:
        report = json.loads(file.read_text())
        suite, ids = report["suite"], report["ids"]
        hold = sum(not found["failed"] for found in ids.values())
        untested = sum(bool(OFFLINE.search(found["failed"] or "")) for found in ids.values())
        by = sorted({done for found in ids.values() for done in found["done"]} - {"made", "stepped", "checked"})
        times = [found["compile_seconds"] for found in ids.values() if found["compile_seconds"] is not None]
        compiled = f"{np.median(times):.1f} s; at most {max(times):.1f}" if times else ""
        made = "".join(f", {name} {value}" for name, value in report["fields"].items())
        for name, found in ids.items():
            if found["failed"]:
                cause = found["failed"].replace(f"{name} cannot be made: ", "").replace(name, "it")
                failed.setdefault((f"`{suite}`{made}", cause), []).append(name.partition("/")[2] or name)
        cells = [
            f"`{suite}`{made}",
            report["versions"][report["package"]],
            report["date"],
            str(len(ids)) if report["offered"] == len(ids) else f"{len(ids)} of {report['offered']}",
            str(hold) + (f"; {untested} not tested" if untested else ""),
            ", ".join(by),
            compiled,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    for heading, offline in (
        ("These ids fail:", False),
        ("These ids were not tested: they download files first.", True),
    ):
        causes = [
            f"- {suite}: {', '.join(names)}" + ("" if offline else f": {cause}")
            for (suite, cause), names in failed.items()
            if bool(OFFLINE.search(cause)) == offline
        ]
        lines += [f"\n{heading}\n", *causes] if causes else []
    return lines


def row(env_id: str, speed: str) -> str:
    """Return the line of a native environment."""
    env = purerl.make(env_id)
    doc = paragraph(type(env).__doc__)
    limit = getattr(env, "time_limit", None)
    cells = [
        f"[{env_id}](../docs/environments/{env_id}.md)",
        describe(env.observation_space),
        describe(env.action_space),
        "none" if limit is None else str(limit),
        best_return(doc),
        source(doc) or source(" ".join(paragraph(base.__doc__) for base in type(env).__mro__[1:-1])),
        speed,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def suite_row(suite: str) -> str:
    """Return the line of an adapter, from its docstrings, so that no suite need be installed."""
    entry = SUITES[suite]
    module = importlib.import_module(entry.module)
    classes = [x for x in vars(module).values() if isinstance(x, type) and x.__module__ == entry.module]
    sources = [source(paragraph(x.__doc__)) for x in (*classes, module) if "Source: " in (x.__doc__ or "")]
    how = "none" if entry.extra is None else f"`{entry.extra}`"
    what = paragraph(module.__doc__).split(", as `")[0]
    cells = [f"[`{suite}/NAME`](adapters/{suite}.py), such as `{entry.example}`", what, how, *(sources[:1] or [""])]
    return f"| {' | '.join(cells)} |"


def describe(space: Space) -> str:
    """Return a short form of a space, such as f32[4]."""
    match space:
        case Discrete(n=n):
            return f"0 .. {n - 1}"
        case MultiDiscrete(nvec=nvec):
            return " x ".join(f"0 .. {n - 1}" for n in nvec)
        case Stacked():
            return f"{space.n} x ({describe(space.space)})"
        case Dict():
            return ", ".join(f"{name}: {describe(part)}" for name, part in sorted(space.spaces.items()))
    assert isinstance(space, Box)
    dtype = {"float32": "f32", "int32": "i32", "uint8": "u8"}.get(
        jnp.dtype(space.dtype).name, str(jnp.dtype(space.dtype))
    )
    bounds = {tuple(map(float, pair)) for pair in np.broadcast(np.asarray(space.low), np.asarray(space.high))}
    low, high = min(bounds)
    same = dtype != "bool" and len(bounds) == 1 and np.isfinite([low, high]).all()
    return f"{dtype}{list(space.shape)}" + (f" in {low:.3g} .. {high:.3g}" if same else "")


def paragraph(doc: str | None) -> str:
    """Return a docstring with its paragraphs on one line each."""
    first, _, rest = (doc or "").partition("\n")
    text = f"{first}\n{textwrap.dedent(rest)}".strip()
    return "\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text))


BEST = (  # patterns of the best possible return in docstrings, and its form on the page
    (r"[Bb]est possible return: (.+?)", "{}"),
    (r"[Bb]est (?:possible )?expected return: (.+?)", "{} (expected)"),
    (r"[Bb]est return is (.+?)", "{}"),
    (r"would give (.+?)", "below {}"),
    (r"no policy gets more than (.+?)", "at most {}"),
    (r"No return is above (.+?)", "at most {}"),
    (r"(No bound) on the return", "unbounded"),
)


def best_return(doc: str) -> str:
    """Return the best possible return that a docstring names."""
    for pattern, form in BEST:
        if found := re.search(pattern + r"(?:\. |\.?\n|\.?$)", doc):
            return form.format(found[1])
    return "not known"


def source(doc: str) -> str:
    """Return the source that a docstring names, without the remarks that follow it."""
    found = re.search(r"Source: (.+)", doc)
    return re.split(r";|, whose|, with the|, as in bsuite", found[1])[0].rstrip(".") if found else ""


def read(text: str) -> tuple[dict[str, str], str]:
    """Return the speeds on a page, by id, and the machine on which they were measured."""
    rows = re.findall(r"^\| \[([^\]`]+)\]\(.*\| ([^|]*) \|$", text, re.MULTILINE)
    machine = re.search(r"^Steps per second: .* program, (.*)$", text, re.MULTILINE)
    return dict(rows), machine[1] if machine else "not measured yet."


def measure() -> tuple[dict[str, str], str]:
    """Measure every native environment; return its speed by id, and the machine."""
    sys.path.append(str(PAGE.parents[1]))  # benchmarks/ is not a part of the package
    from benchmarks import environments
    from benchmarks.timing import processor_seconds

    key, speeds = jax.random.key(0), {}
    for env_id in ENVIRONMENTS:
        program = environments.build(environments.ours(purerl.make(env_id), NUM_ENVS), NUM_ENVS, 0.05)
        best = processor_seconds(lambda program=program: program.call(key))
        speeds[env_id] = short(program.steps / best)
        print(env_id, speeds[env_id], flush=True)
    device = jax.devices()[0]
    unit = "per second of one core's time, " if device.platform == "cpu" else ""
    return speeds, f"{unit}the fastest of seven runs on {device.device_kind}, jax {jax.__version__}."


def short(speed: float) -> str:
    """Return a speed as 1.2M or 340k, to two digits."""
    rounded = float(f"{speed:.2g}")
    return f"{rounded / 1e6:g}M" if rounded >= 1e6 else f"{rounded / 1e3:g}k"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="measure the speeds")
    args: Any = parser.parse_args()
    speeds, machine = measure() if args.measure else read(PAGE.read_text() if PAGE.exists() else "")
    PAGE.write_text(page(speeds, machine))


if __name__ == "__main__":
    main()
