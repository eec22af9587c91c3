"""The site: the code on its pages runs, the names exist, and every public name has a page."""

import importlib
import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest
from click.testing import CliRunner

import purerl
from purerl import registry
from purerl.catalog.algorithms import ALGORITHMS
from purerl.catalog.environments import ENVIRONMENTS
from purerl.commands.cli import cli
from purerl.extensions.host.learning import sampler_metrics
from purerl.loop.metrics import EpisodeStatistics
from purerl.reporting import metrics_csv
from tests.helpers.cli import unknown_parameters

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
OWN = sorted((DOCS / "own").glob("*.py"))
TEXTS = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
COMMANDS = sorted(
    {
        line
        for text in TEXTS.values()
        for line in re.findall(
            r"^    (?:pip install -q uv && )?(?:uv run )?(purerl .*)$", text.replace("\\\n", ""), re.MULTILINE
        )
    }
)
BLOCKS = {name: re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE) for name, text in TEXTS.items()}


def documented_modules():
    """Return the modules of the reference's pages."""
    texts = [page.read_text(encoding="utf-8") for page in sorted((DOCS / "api").glob("*.md"))]
    named = [name for text in texts for line in re.findall(r"^\[modules: (.*)\]$", text, re.M) for name in line.split()]
    found = []
    for name in named:
        package = name.removesuffix(".*")
        folder = ROOT.joinpath(*package.split("."))
        inside = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
        found += [f"{package}.{part}" for part in inside] if name.endswith(".*") else [name]
    entries = [path for entry in ALGORITHMS.values() for path in (entry.factory, entry.config)]  # on pages of their own
    return [*found, *dict.fromkeys(path.partition(":")[0] for path in (*entries, *ENVIRONMENTS.values()))]


@pytest.mark.parametrize("name", [name for name, blocks in BLOCKS.items() if blocks])
def test_the_python_of_a_page_runs_in_order(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(DOCS / "own")
    names = {"__name__": "page"}
    for block in BLOCKS[name]:
        block = re.sub(r"total_timesteps=\d[\d_]*", "total_timesteps=6_000", block)
        with jax.numpy_dtype_promotion("standard"):  # as users have it: optax.adam mixes dtypes
            exec(compile(block, name, "exec"), names)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_exist_with_these_options(command, monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "own")
    words = shlex.split(command, comments=True)[1:]
    result = CliRunner().invoke(cli, [*words, "--help"])
    assert result.exit_code == 0, result.output
    assert words[0] in result.output.splitlines()[0]
    assert unknown_parameters(words) == set()


def test_every_public_name_has_a_page():
    pages = documented_modules()
    modules = ("purerl", "purerl.devices", "purerl.xla")  # whose public names are modules themselves
    homes = {name: f"{home}.{name}" if home in modules else home for name, home in purerl._HOME_OF.items()}
    assert {name for name, home in homes.items() if home not in pages} == set()
    assert len(pages) == len(set(pages)), "a module is on two pages"


@pytest.mark.parametrize("name", documented_modules())
def test_every_public_name_of_a_page_is_documented(name):
    module = importlib.import_module(name)
    own = {
        key: thing
        for key, thing in vars(module).items()
        if not key.startswith("_") and callable(thing) and getattr(thing, "__module__", None) == name
    }
    members = {
        f"{key}.{part}": thing
        for key, owner in own.items()
        if inspect.isclass(owner)
        for part, thing in vars(owner).items()
        if not part.startswith("_") and (inspect.isfunction(thing) or isinstance(thing, property))
    }
    assert module.__doc__
    assert [key for key, thing in {**own, **members}.items() if not inspect.getdoc(thing)] == []


def test_flags_and_settings_that_other_projects_users_are_told_exist():
    columns = [line.split("|")[2] for line in TEXTS["coming-from.md"].splitlines() if line.count("|") == 3]
    told = {flag for cell in columns for flag in re.findall(r"`(--[a-z-]+)", cell)}
    help_pages = [CliRunner().invoke(cli, ["train", name, "CartPole-v1", "--help"]).output for name in ("ppo", "dqn")]
    assert told and {flag for flag in told if not any(f"{flag} " in page for page in help_pages)} == set()
    fields = set()
    for name in ("ppo", "dqn"):
        fields |= set(registry.algorithm(name)[1].__dataclass_fields__)
    table = TEXTS["coming-from.md"].split("## CleanRL")[0]
    settings = re.findall(r"^\| `[A-Z_`, ]+` \| (.*) \|$", table, re.M)
    assert settings and {name for row in settings for name in re.findall(r"`(\w+)`", row)} <= fields


def test_the_metrics_reference_is_complete():
    """Compared with the pinned updates of every algorithm, and with the names in the sources of the extensions."""
    golden = (ROOT / "tests" / "golden" / "updates.json").read_text()
    sources = "".join(path.read_text() for path in sorted((ROOT / "purerl" / "extensions").rglob("*.py")))
    logged = {
        *re.findall(r"\[1\]\['(\w+)'\]", golden),
        *metrics_csv.FIRST_COLUMNS,
        *EpisodeStatistics.clear(1).summary(),
        *re.findall(r'"(levels/\w+|reward_of_\w+)": ', sources),
        *sampler_metrics(SimpleNamespace(replay_ratio=1.0), idle=0.5, lag=1.0, ahead=1.0),
        "info/NAME",
        "POLICY/NAME",
    }
    cells = [line.split("|")[1] for line in TEXTS["metrics.md"].splitlines() if line.startswith("| `")]
    assert {name for cell in cells for name in re.findall(r"`([\w/]+)`", cell)} == logged


def test_every_environment_has_its_picture():
    pictures = {path.stem: path.stat().st_size for path in (DOCS / "gallery").glob("*.gif")}
    assert set(pictures) == set(ENVIRONMENTS), "run python tools/gallery.py"
    assert sum(pictures.values()) < 3e6


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_a_file_to_start_from_is_short_and_shown_whole(path):
    assert 20 <= len(path.read_text().splitlines()) <= 60
    assert f"{{literalinclude}} own/{path.name}" in TEXTS["make-it-yours.md"]


def test_the_link_check_finds_what_is_broken(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#x">1</a><a href="b.html#y">2</a><img src="no.png"><i id="x">')
    (tmp_path / "b.html").write_text('<a id="x" href="a.html#x"></a><a href="https://example.org/none">out</a>')
    command = [sys.executable, DOCS / "check_links.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "a.html: b.html#y: no such anchor",
        "a.html: no.png: no such file",
        "2 broken links in 2 pages",
    ]


def test_a_release_has_the_version_as_its_tag_and_a_dated_section(tmp_path):
    notes = lambda root, tag: subprocess.run(
        [sys.executable, root / ".ci" / "release_notes.py", tag], capture_output=True, text=True, timeout=60
    )
    (tmp_path / ".ci").mkdir()
    (tmp_path / "purerl" / "catalog").mkdir(parents=True)
    (tmp_path / ".ci" / "release_notes.py").write_text((ROOT / ".ci" / "release_notes.py").read_text())
    (tmp_path / "purerl" / "catalog" / "version.py").write_text('VERSION = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 1.2.0 (2026-01-02)\n\n- new\n\n## 1.1.0 (2025-01-02)\n\n- old\n"
    )
    assert notes(tmp_path, "v1.2.0").stdout == "- new\n"
    assert "the version v1.2.0" in notes(tmp_path, "v1.1.0").stderr
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 (unreleased)\n\n- new\n")
    refused = notes(tmp_path, "v1.2.0")
    assert refused.returncode == 1 and "a release has a date" in refused.stderr
