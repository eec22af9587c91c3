"""report.html: one or several runs on one self-contained page."""

import base64
import contextlib
import io
import mimetypes
import os
import shlex
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from purerl.catalog.metrics import meaning
from purerl.errors import InputError, printable
from purerl.reporting import metrics_csv, plot, summary
from purerl.reporting.files import short_names, write_whole
from purerl.settings import runs, toml
from purerl.settings.values import to_text
from purerl.trust import reading

FILE = "report.html"
VIDEOS = (".mp4", ".gif", ".webm")
TOGETHER = 12  # metrics in a picture
MOST_METRICS = 36  # in a page
LARGEST = 20_000_000  # bytes of a video that is put into the page
HEALTHY = "The metrics reference of the documentation (docs/metrics.md) also describes healthy values."
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top; }
th { font-weight: 600; } td, code { font-variant-numeric: tabular-nums; }
img, video { max-width: 100%; } code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
.wide { overflow-x: auto; } .wide td { overflow-wrap: anywhere; } .changed th::after { content: " *"; }
summary { cursor: pointer; } pre { background: #f5f5f5; padding: .6rem; overflow-x: auto; }
"""


def write_report(folder: Path, found: dict[str, Any] | None = None) -> Path:
    """Write a run's report.html: result, curve, metrics, settings, versions, command, video; return its path."""
    table, columns = _read(folder)
    found = _summary(folder) if found is None else found
    title = f"{table.get('algorithm', '')} on {table.get('environment', '')}"
    names = _known(columns)
    parts = [
        f"<h1>{_text(title)}</h1>",
        _facts(_result(table, columns, found)),
        "<h2>Learning curve</h2>",
        _image(_drawn([(folder.name, columns)], title, [plot.RETURNS.metric]), "learning curve"),
    ]
    if names:
        parts += ["<h2>Metrics</h2>", _meanings(names), *_pictures([(folder.name, columns)], names)]
    parts += [_video(path) for path in [*_videos(folder), *_videos(folder / "videos")[-1:]]]
    parts += ["<h2>Command</h2>", f"<pre>purerl train --config {_text(shlex.quote(str(folder / toml.RUN.file)))}</pre>"]
    parts += ["<h2>Settings</h2>", _settings(table)]
    if isinstance(versions := found.get("versions"), dict):
        parts += ["<h2>Versions</h2>", _facts(versions)]
    write_whole(folder / FILE, _page(title, parts))
    return folder / FILE


def write_comparison(folders: Sequence[Path], path: Path) -> Path:
    """Write a page that compares runs, with axes and a table of results for each task; return its path."""
    tasks: dict[str, list[tuple[Path, dict[str, Any], dict[str, np.ndarray]]]] = {}
    for folder in folders:
        table, columns = _read(folder)
        tasks.setdefault(str(table.get("environment", "")), []).append((folder, table, columns))
    parts = [f"<h1>{len(folders)} runs</h1>"]
    for task, there in tasks.items():
        parts.append(f"<h2>{_text(task)}</h2>")
        names = short_names([folder for folder, _, _ in there])
        curves = [(name, columns) for name, (_, _, columns) in zip(names, there, strict=True)]
        algorithms = [str(table.get("algorithm", "")) for _, table, _ in there]
        parts.append(_image(_drawn(curves, task, [plot.RETURNS.metric], algorithms), "learning curves"))
        results = {
            name: {"folder": folder} | _result(table, columns, _summary(folder))
            for name, (folder, table, columns) in zip(names, there, strict=True)
        }
        parts += [_grid(results), "<h3>Settings that differ</h3>"]
        settings = {name: toml.flat_table(table) for name, (_, table, _) in zip(names, there, strict=True)}
        parts.append(_grid(_different(settings)))
        shared = set.intersection(*(set(_known(columns)) for _, columns in curves))
        if shared:
            names = sorted(shared)
            parts += ["<h3>Metrics that all runs have</h3>", _meanings(names), *_pictures(curves, names, algorithms)]
    write_whole(path, _page(f"{len(folders)} runs", parts))
    return path


def _read(folder: Path) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    if not folder.is_dir():
        raise InputError(f"there is no run in {folder}: no such folder")
    return toml.read(folder / toml.RUN.file), metrics_csv.read(folder / "metrics.csv")


def _summary(folder: Path) -> dict[str, Any]:
    """Return a run's summary.json; {} if the run has not ended."""
    return summary.read(folder / "summary.json") if os.path.lexists(folder / "summary.json") else {}


def _result(table: Mapping[str, object], columns: dict[str, np.ndarray], found: dict[str, Any]) -> dict[str, Any]:
    """Return a run's results by name."""
    facts = {"algorithm": table.get("algorithm", ""), "seeds": len(set(columns["seed"].tolist()))}
    facts |= {"environment steps of each seed": f"{columns['env_steps'].max():,.0f}"}
    facts |= {"result": "the run has not ended"}
    with contextlib.suppress(*summary.WRONG):  # a damaged one
        facts |= {"result": summary.text(found)} if found else {}
    for name in ("status", "device", "wall_seconds", "compile_seconds"):
        value = found.get(name)
        if value is not None:
            words = ", ".join(map(str, value.values())) if isinstance(value, dict) else value
            facts[name.replace("_", " ")] = words
    return facts


def _known(columns: dict[str, np.ndarray]) -> list[str]:
    """Return the metrics that have a value in at least one row."""
    return [name for name in metrics_csv.metrics(columns) if np.isfinite(columns[name]).any()]


def _different(settings: dict[str, dict[str, object]]) -> dict[str, dict[str, Any]]:
    """Return the settings that differ between runs, by run."""
    names = list(dict.fromkeys(name for table in settings.values() for name in table))
    differ = [name for name in names if len({repr(table.get(name)) for table in settings.values()}) > 1]
    return {run: {name: table.get(name, "") for name in differ} for run, table in settings.items()}


def _meanings(names: Sequence[str]) -> str:
    """Return a table of the metrics' meanings, folded; metrics that only their author knows are left out."""
    known = {name: meaning(name) for name in names if meaning(name)}
    return f"<details><summary>What the metrics mean</summary>{_facts(known)}<p>{HEALTHY}</p></details>"


def _pictures(
    curves: Sequence[tuple[str, dict[str, np.ndarray]]], metrics: Sequence[str], algorithms: Sequence[str] = ()
) -> list[str]:
    """Return pictures of metrics, a dozen in each, and a line about those that are left out."""
    shown = metrics[:MOST_METRICS]
    groups = [shown[i : i + TOGETHER] for i in range(0, len(shown), TOGETHER)]
    left = f"<p>{len(metrics) - len(shown)} more metrics: draw them with <code>purerl plot RUN --metric NAME</code></p>"
    return [
        *(_image(_drawn(curves, "", group, algorithms), "metrics") for group in groups),
        *([left] if metrics != shown else []),
    ]


def _drawn(
    curves: Sequence[tuple[str, dict[str, np.ndarray]]],
    title: str,
    metrics: Sequence[str],
    algorithms: Sequence[str] = (),
) -> bytes:
    """Return a PNG with a panel for each metric."""
    across = min(len(metrics), 2)
    down = -(-len(metrics) // across)
    figure = plot.new_figure(8, 4.8) if len(metrics) == 1 else plot.new_grid(5.5, 3.1, across=across, down=down)
    for i, metric in enumerate(metrics):
        axes, view = figure.add_subplot(down, across, i + 1), plot.PlotView(metric=metric)
        plot.panel(axes, curves, title or metric, view, algorithms=algorithms)
        if len(metrics) == 1:
            continue
        axes.set_ylabel("")  # the title says it
        if i < len(metrics) - across:
            axes.set_xlabel("")
        if i and (legend := axes.get_legend()):
            legend.remove()  # the first panel names the runs
    file = io.BytesIO()
    plot.write(figure, file, "png")
    return file.getvalue()


def _image(data: bytes, alt: str) -> str:
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{base64.b64encode(data).decode()}">'


def _videos(folder: Path) -> list[Path]:
    """Return the videos in a folder by name; links are ignored."""
    there = folder.iterdir() if reading.is_folder(folder) else ()
    return sorted(path for path in there if path.suffix in VIDEOS and reading.is_file(path))


def _video(path: Path) -> str:
    if path.stat().st_size > LARGEST:
        return f"<p>{_text(path.name)}: see the folder</p>"
    kind = mimetypes.types_map.get(path.suffix, "application/octet-stream")
    source = f'src="data:{kind};base64,{base64.b64encode(reading.content(path, LARGEST)).decode()}"'
    shown = f"<img {source}>" if path.suffix == ".gif" else f"<video controls loop {source}></video>"
    return f"<h2>{_text(path.name)}</h2>{shown}"


def _facts(facts: Mapping[str, object]) -> str:
    rows = (f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in facts.items())
    return f"<table>{''.join(rows)}</table>"


def _settings(table: Mapping[str, object]) -> str:
    """Return the settings of a run as a table; changed settings have a star and their default."""
    usual = runs.defaults(table)
    lines, changed = [], 0
    for name, value in toml.flat_table(table).items():
        differs = name in usual and repr(usual[name]) != repr(value)
        default = f"default {_text(usual[name])}" if differs else ""
        mark = ' class="changed"' if differs else ""
        lines.append(f"<tr{mark}><th>{_text(name)}</th><td>{_text(value)}</td><td>{default}</td></tr>")
        changed += differs
    said = f"<p>* differs from the default ({changed} setting{'s' * (changed > 1)})</p>" if changed else ""
    return f'{said}<div class="wide"><table>{"".join(lines)}</table></div>'


def _grid(rows: Mapping[str, Mapping[str, object]]) -> str:
    """Return a table with a column for each run and a row for each name."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    if not names:
        return "<p>none</p>"
    head = "".join(f"<th>{_text(run)}</th>" for run in ("", *rows))
    cells = lambda name: "".join(f"<td>{_text(row.get(name, ''))}</td>" for row in rows.values())
    lines = "".join(f"<tr><th>{_text(name)}</th>{cells(name)}</tr>" for name in names)
    return f'<div class="wide"><table><tr>{head}</tr>{lines}</table></div>'


def _text(value: object) -> str:
    """Return a value of a file as text for the page, without tags or control characters."""
    return escape(printable(to_text(tuple(value) if isinstance(value, list) else value)))


def _page(title: str, parts: Sequence[str]) -> str:
    policy = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"  # no scripts, no network
    viewport = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{viewport}<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return f"<!doctype html><html><head>{head}<title>{_text(title)}</title><style>{STYLE}</style></head><body>" + (
        "\n".join([*parts, "</body></html>\n"])
    )
