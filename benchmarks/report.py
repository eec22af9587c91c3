"""What was measured, on what: kept in results/benchmark-MACHINE.json, and shown in the README."""

import datetime
import json
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from benchmarks import tables
from benchmarks.tables import Table
from purerl.errors import InputError
from purerl.reporting import summary

IN_README = ("training", "offpolicy", "seeds", "compile", "memory", "gpu")  # environments have a page of their own
OPPONENT = "gymnax"  # its environments are measured in this process
BEGIN, END = "<!-- benchmark: {name} -->", "<!-- end of benchmark -->"
BLOCK = re.compile(r"<!-- benchmark: (\S*) -->\n(.*?)<!-- end of benchmark -->", re.DOTALL)


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


def file_name(found: dict[str, Any]) -> str:
    """Return the name of a machine's file."""
    words = re.sub(r"\(.*?\)|CPU|Processor|\d+-Core", " ", found["processor"])
    kind = found["devices"].split(" x ")[1]
    parts = [*words.lower().split(), str(found["cores"]), *([] if kind == "cpu" else kind.lower().split())]
    return "benchmark-" + "-".join(re.sub(r"[^a-z0-9.]+", "-", part).strip("-") for part in parts) + ".json"


def keep(folder: Path, groups: dict[str, Sequence[Table]], settings: dict[str, Any]) -> Path:
    """Write what was measured into the machine's file; groups that were not measured now stay as they were."""
    here = machine()
    path = folder / file_name(here)
    held = json.loads(path.read_text())["groups"] if path.exists() else {}
    versions = summary.versions(OPPONENT)
    about = {"date": datetime.date.today().isoformat(), "machine": here, "versions": versions, "settings": settings}
    for name, measured in groups.items():
        held[name] = about | {"tables": [table._asdict() for table in measured]}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"groups": held}, indent=1) + "\n")
    return path


def page(kept: dict[str, Any]) -> str:
    """Return a machine's figures as Markdown, as they stand in the README."""
    parts = []
    for name, group in ((name, kept["groups"][name]) for name in IN_README if name in kept["groups"]):
        about = group["machine"]
        parts.append(
            f"`python -m benchmarks {name}`, {group['date']}: {about['processor']}, {about['cores']} cores, "
            f"{about['devices']}, jax {group['versions']['jax']}; load at the start {about['load']}."
        )
        parts += [tables.markdown(tables.of_json(table)) for table in group["tables"]]
    return "\n\n".join(parts) + "\n"


def write_readme(readme: Path, path: Path) -> None:
    """Put a machine's figures between the markers of a README.

    Raises:
      InputError: if there are none.
    """
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    if not BLOCK.search(text):
        raise InputError(f"{readme} has no lines '{BEGIN.format(name='')}' and '{END}' to write between")
    block = BEGIN.format(name=path.name) + "\n" + page(json.loads(path.read_text())) + END
    readme.write_text(BLOCK.sub(lambda _: block, text), encoding="utf-8")
