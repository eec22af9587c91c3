"""The report of a machine, results/benchmark-MACHINE.json, and the blocks of Markdown pages that show it.

A block of a page names its file and its groups of figures, and ends with a second marker:

    <!-- benchmark: benchmark-MACHINE.json: training seeds -->
    <!-- end of benchmark -->
"""

import ast
import datetime
import hashlib
import json
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from benchmarks import tables
from benchmarks.groups import select
from benchmarks.tables import Table
from purerl.errors import InputError
from purerl.reporting import summary

PACKAGES = ("gymnax", "envpool", "ale-py")  # their environments are measured in this process
ROOT = Path(__file__).parents[1]
SOURCES = (  # on which the speed of training on a GPU depends
    *("algos/**/*.py", "envs/**/*.py", "purerl/**/*.py", "benchmarks/workers/*.py", "tests/test_gpu.py"),
    *(f"benchmarks/{name}.py" for name in ("contest", "gpu", "program_parts", "training")),
)
APART = ("commands", "evolution", "pool", "reporting", "sweeps", "testing")  # packages that it does not depend on
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NOT_ON_PAGES = ("return reached",)  # greedy, exploring and shaped returns cannot be compared; results/README.md does
BEGIN, END = "<!-- benchmark: {file}: {names} -->\n", "<!-- end of benchmark -->"
BLOCK = re.compile(r"<!-- benchmark: (\S*): ([\w. -]*) -->\n(.*?)<!-- end of benchmark -->", re.DOTALL)


def machine() -> dict[str, Any]:
    """Return what this machine is, and how busy it is with other things."""
    device, name, cpuinfo = jax.devices()[0], platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else []:
        if line.startswith("model name"):
            name = line.split(":")[1].strip()
            break
    return {
        "processor": name,
        "cores": os.cpu_count(),
        "devices": f"{jax.device_count()} x {device.device_kind}",
        "system": platform.system(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
    }


def code() -> str:
    """Return a hash of `SOURCES` without comments and docstrings, by which figures are those of a state of the code."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in SOURCES for path in ROOT.glob(pattern)):
        name = path.relative_to(ROOT)
        if name.parts[1] not in APART:
            digest.update(f"{name.as_posix()}\n{_statements(path.read_text())}".encode())
    return digest.hexdigest()[:12]


def _statements(source: str) -> str:
    """Return the statements of a module without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.unparse(tree)


def file_name(about: dict[str, Any]) -> str:
    """Return the name of a machine's file."""
    words = re.sub(r"\(.*?\)|CPU|Processor|\d+-Core", " ", about["processor"])
    kind = about["devices"].split(" x ")[1]
    parts = [*words.lower().split(), str(about["cores"]), *([] if kind == "cpu" else kind.lower().split())]
    return "benchmark-" + "-".join(re.sub(r"[^a-z0-9.]+", "-", part).strip("-") for part in parts) + ".json"


def read(path: Path) -> dict[str, Any]:
    """Return a report's groups by name; none if there is no report.

    Raises:
      InputError: if the file is not a report.
    """
    try:
        return json.loads(path.read_text())["groups"] if path.exists() else {}
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is no report of benchmarks: {error}") from None


def write(folder: Path, name: str, measured: Sequence[Table], settings: dict[str, Any]) -> Path:
    """Write one group of figures into the machine's report; the other groups stay as they were."""
    here = machine()
    path = folder / file_name(here)
    about = {"date": datetime.date.today().isoformat(), "machine": here, "versions": summary.versions(*PACKAGES)}
    group = about | {"code": code(), "settings": settings, "tables": [table._asdict() for table in measured]}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"groups": read(path) | {name: group}}, indent=1) + "\n")
    return path


def page(groups: dict[str, Any], names: Sequence[str]) -> str:
    """Return the groups of a report that `names` selects, as Markdown; neighbors with the same columns in one table."""
    sections: list[tuple[dict[str, list[str]], list[Table]]] = []  # names by where and when, and what was measured
    for name, group in ((name, groups[name]) for name in select(names) if name in groups):
        about = group["machine"]
        where = (
            f"{group['date']}: {about['processor']}, {about['cores']} cores, {about['devices']}, "
            f"jax {group['versions']['jax']}; load at the start {about['load']}."
        )
        measured = [tables.without(tables.from_json(table), NOT_ON_PAGES) for table in group["tables"]]
        if not sections or [table[:2] for table in measured] != [table[:2] for table in sections[-1][1]]:
            sections.append(({}, [table._replace(rows=[]) for table in measured]))
        sections[-1][0].setdefault(where, []).append(name)
        for joined, table in zip(sections[-1][1], measured, strict=True):
            joined.rows.extend(table.rows)
    parts = []
    for places, measured in sections:
        parts.append("\n".join(f"`python -m benchmarks {' '.join(found)}`, {where}" for where, found in places.items()))
        parts += map(tables.markdown, measured)
    return "\n\n".join(parts) + "\n"


def write_page(target: Path, path: Path | None = None) -> None:
    """Write the blocks of a Markdown page again, from a report; a block of which it has no group, from its own file.

    Args:
      target: the page.
      path: the report; without one, each block is written from its own file in `results/`.

    Raises:
      InputError: if the page has no block.
    """
    text = target.read_text(encoding="utf-8") if target.exists() else ""
    if not BLOCK.search(text):
        example = BEGIN.format(file="", names="training").strip()
        raise InputError(f"{target} has no lines such as '{example}' and '{END}' to write between")

    def block(found: re.Match[str]) -> str:
        names = found[2].split()
        own = (path.parent if path else ROOT / "results") / found[1]
        file = path if path and (not found[1] or set(select(names)) & set(read(path))) else own
        return BEGIN.format(file=file.name, names=found[2]) + page(read(file), names) + END

    target.write_text(BLOCK.sub(block, text), encoding="utf-8")
