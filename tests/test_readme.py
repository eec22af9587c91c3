"""The README's code runs unmodified, except for the number of steps; every name that it mentions exists."""

import dataclasses
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from purerl import registry, zoo
from purerl.catalog.algorithms import ALGORITHMS
from purerl.catalog.environments import ENVIRONMENTS, SUITES
from purerl.commands.cli import cli
from tests.helpers.cli import unknown_parameters

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^    (?:pip install -q uv && )?uv run (purerl .*)$", README, re.MULTILINE)


def inline_names(text):
    """Return the dotted names `purerl.a.b` that stand in backticks outside of code blocks."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return sorted(
        {name for code in re.findall(r"`([^`]+)`", prose) for name in re.findall(r"\bpurerl(?:\.\w+)+", code)}
    )


def test_it_is_short_and_its_commands_run_in_a_clone():
    assert len(README.splitlines()) <= 150
    assert not re.search(r"^    (?:pip install -q uv && )?purerl ", README, re.MULTILINE), "write uv run purerl"
    assert len(BLOCKS) >= 1 and len(COMMANDS) >= 3


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_python_block_runs_alone_and_prints_no_nan(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    block = re.sub(r"total_timesteps=\d[\d_]*", "total_timesteps=11_000", block)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert "nan" not in capsys.readouterr().out


def test_the_speedups_are_those_of_the_benchmarks():
    """The tasks of training next to peers, on the CPU; those of brax are shorter than usual and left out."""
    groups = ["training", "offpolicy", "suites.jaxmarl", "suites.craftax", "suites.pgx", "host", "evolution.speed"]
    found = speedups("benchmark-intel-xeon-2.json", groups, "purerl against it")
    whole = speedups("benchmark-intel-xeon-2.json", groups, "both against it")
    page = " ".join((ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8").split())
    comparison = " ".join((ROOT / "docs" / "comparison.md").read_text(encoding="utf-8").split())
    middle, low, high = statistics.median(found), min(found), max(found)
    extent = f"{len(found)} tasks is {middle:.1f}x, from {low:.2f}x to {high:.1f}x, without compilation."
    assert f"{extent} With compilation it is {statistics.median(whole):.1f}x." in page
    shown = f"a median of {middle:.1f}x the speed of the peer's own trainer over {len(found)} tasks on a CPU, from"
    assert f"{shown} {low:.2f}x to {high:.1f}x" in " ".join(README.split())
    assert (
        f"Over {len(found)} tasks on two CPU cores the median speedup is {middle:.1f}x, from {low:.2f}x" in comparison
    )
    gpu = "benchmark-intel-xeon-16-nvidia-h200.json"
    one, many = (
        speedups(gpu, ["gpu.ppo", "gpu.ppo-wide", "gpu.breakout"], "purerl against it"),
        speedups(gpu, ["gpu.seeds-2048"], "purerl against it"),
    )
    assert (
        f"{min(one):.1f}x to {max(one):.1f}x as fast as PureJaxRL for one agent, and {many[0]:.2f}x for 2,048" in page
    )
    sb3 = speedups("benchmark-amd-epyc-2.json", ["training", "offpolicy"], "purerl against it", "sb3")
    assert f"{min(sb3):.1f}x to {max(sb3):.0f}x as fast as stable-baselines3" in page


def speedups(file, groups, column, peer=""):
    """Return the speedups in some groups of a benchmark's file, over one peer or over all."""
    report = json.loads((ROOT / "results" / file).read_text())["groups"]
    found = []
    for table in (table for group in groups for table in report[group]["tables"]):
        names = [name for name, _ in table["columns"]]
        if column in names and "by" in names:
            rows = [row for row in table["rows"] if row[names.index(column)] and peer in row[names.index("by")]]
            found += [row[names.index(column)] for row in rows]
    return [value["median"] if isinstance(value, dict) else value for value in found]


def test_the_table_of_algorithms_is_the_catalog():
    """The action spaces, whether they are recurrent, and whether they are for teams, of each."""
    found = {}
    for line in README.splitlines():
        if "](algos/" in line and line.count("|") == 6:
            _, _, names, actions, recurrent, teams, _ = (cell.strip() for cell in line.split("|"))
            found |= dict.fromkeys(re.findall(r"\[([\w-]+)\]", names), (actions, recurrent, teams))
    every = ("discrete", "multi-discrete", "continuous", "dict")
    answer = {True: "yes", False: "no"}
    wanted = {}
    for name, entry in ALGORITHMS.items():
        actions = "any" if entry.actions == every else ", ".join(sorted(entry.actions, key=every.index))
        fields = {field.name for field in dataclasses.fields(registry.algorithm(name)[1])}
        wanted[name] = (actions, answer["rnn" in fields], answer[entry.teams])
    assert found == wanted


READ_AS_FILES = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "docs/*.md",
    "docs/[!enr]*/*.md",
    "docs/environments/*.md",
    "results/**/*.md",
    "envs/*.md",
)


@pytest.mark.parametrize("pattern", READ_AS_FILES)
def test_links_and_pictures_are_there(pattern):
    """Also for readers without the site, where links to folders are not followed."""
    missing = []
    for page in sorted(ROOT.glob(pattern)):
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        links = re.findall(r"\]\(([^)#]+)[^)]*\)", text) + re.findall(r'src="([^"]+)"', text)
        there = (
            lambda link, page=page: (page.parent / link).exists()
            and (ROOT / os.path.normpath(page.parent / link)).exists()
        )
        missing += [f"{page.relative_to(ROOT)}: {x}" for x in links if "://" not in x and not there(x)]
    assert not missing


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_exist_with_these_options(command):
    """Parsed by the real command line up to its help page, without training."""
    words = shlex.split(command)[1:]
    result = CliRunner().invoke(cli, [*words, "--help"])
    assert result.exit_code == 0, result.output
    assert words[0] in result.output.splitlines()[0]
    assert unknown_parameters(words) == set()


def test_the_readme_names_the_two_commands():
    assert "pip install -q uv && uv run purerl train ppo CartPole-v1" in README
    assert "pip install -q uv && uv run pytest" in README


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_it_counts_the_environments(page):
    assert f" {len(ENVIRONMENTS)} native " in (ROOT / page).read_text(encoding="utf-8")


def test_it_counts_algorithms_suites_and_agents():
    assert f" {len(ALGORITHMS)} algorithms, " in " ".join(README.split())
    comparison = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    assert all(f"\n| algorithms | {len(ALGORITHMS)} | 6" in page for page in (README, comparison))
    assert f" {len(SUITES)} adapters " in README and f" the {len(zoo.names())} trained agents" in README


def test_no_page_promises_a_package_index():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    found = [page.name for page in pages for line in page.read_text(encoding="utf-8").splitlines() if promises(line)]
    assert found == []


def promises(line):
    """Return whether a line installs purerl by its name from an index, as if it were published."""
    named = re.search(r"(pip install|uv add) (-\S+ )*['\"]?purerl['\"\[]", line)
    return named and "@ git" not in line and "Once purerl is installed" not in line


@pytest.mark.parametrize("file", ["README.md", "envs/README.md"])
def test_inline_names_resolve_after_import_purerl(file):
    """In a fresh process: the first attribute is public, so it resolves by itself, and the others follow from it."""
    names = inline_names((ROOT / file).read_text(encoding="utf-8"))
    assert names, "the file mentions no name"
    script = (
        "import functools, sys, purerl\n"
        "for name in sys.argv[1:]:\n"
        "    first, *others = name.split('.')[1:]\n"
        "    assert first in purerl.__all__, name\n"
        "    functools.reduce(getattr, others, getattr(purerl, first))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_inline_names_are_found_in_prose_alone():
    text = "Call `purerl.make(id)` or `x = purerl.stats.iqm(y)`.\n```python\npurerl.nothing\n```\npurerl.no_code"
    assert inline_names(text) == ["purerl.make", "purerl.stats.iqm"]
