"""What `python -m benchmarks` measures, keeps and shows."""

import io
import json
import math
import re
import sys
from pathlib import Path

import gymnax
import pytest
from click.testing import CliRunner
from rich.console import Console

import purerl
from benchmarks import environments, report, tables, training
from benchmarks.contest import Failed, Score, Task, contest
from benchmarks.opponents import HOSTS, TRAINERS, Opponent, chosen, command
from benchmarks.timing import ratios, spread
from purerl.commands.cli import cli
from purerl.errors import InputError

README = Path(__file__).parents[2] / "README.md"
TINY = {"num_envs": 2, "rollout_length": 8, "num_minibatches": 1, "num_epochs": 1, "hidden_sizes": (4,)}
CELLS = [
    (None, "rate", ""),
    ("did not start: no", "rate", "did not start: no"),
    (184_321.0, "rate", "184k"),
    (2_345_000.0, "rate", "2.35M"),
    ({"median": 12_000.0, "low": 11_000.0, "high": 13_000.0}, "rate", "12.0k (11.0k to 13.0k)"),
    ({"median": 1.5, "low": 1.5, "high": 1.5}, "ratio", "1.50x"),
    (35.2, "ratio", "35x"),
    (0.194, "share", "19%"),
    (3.14159, "seconds", "3.14 s"),
    (760_000_000, "bytes", "0.76 GB"),
    (2048, "count", "2,048"),
]


@pytest.mark.parametrize(("value", "kind", "text"), CELLS)
def test_cells(value, kind, text):
    assert tables.cell(value, kind) == text
    assert kind in tables.KINDS


def test_brackets_are_shown():
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(tables.show(tables.Table("Missing", [("why", "text")], [["pip install 'purerl[gpu-compile]'"]])))
    assert "purerl[gpu-compile]" in console.export_text()


def test_spread_and_ratios():
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "low": 1.0, "high": 3.0}
    assert ratios([2.0, 9.0, 4.0], [1.0, 3.0]) == {"median": 2.5, "low": 2.0, "high": 3.0}


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """A real contest: purerl, a framework that takes ten seconds to train, and one that does not start."""
    folder = tmp_path_factory.mktemp("workers")
    (folder / "steady.py").write_text(
        "import json, sys\n"
        "task = json.loads(input())\n"
        "print(json.dumps({'compile': 1.5}), flush=True)\n"
        "for line in sys.stdin: print(json.dumps({'seconds': 10.0, 'return': task['steps']}), flush=True)\n"
    )
    (folder / "broken.py").write_text("print('hello')\nraise ValueError('seven values, not six')\n")
    opponents = [
        Opponent(name, str(folder / f"{name}.py"), (), ("ppo",), python=sys.executable) for name in ("steady", "broken")
    ]
    return contest(Task("tiny", "ppo", "CartPole-v1", 32, TINY), opponents, runs=2)


def test_contest(scores):
    ours, steady, broken = scores
    assert len(ours.seconds) == 2 and all(0 < s < 10 for s in ours.seconds) and ours.compile_seconds > 0
    assert steady == Score([10.0, 10.0], 1.5, 32.0)
    assert broken.failure == "ValueError: seven values, not six"


def test_rows_of_a_contest(scores):
    task = Task("tiny", "ppo", "CartPole-v1", 32, TINY)
    ours, steady, broken = (
        training.row("tiny", who, score, scores[0], task, 0.5) for who, score in zip("abc", scores, strict=True)
    )
    assert ours[3] is None and ours[4] == pytest.approx(0.5 * ours[2]["median"])
    assert steady[2] == spread([3.2]) and steady[3] == ratios([10.0, 10.0], scores[0].seconds)
    assert broken[2] == "did not start: ValueError: seven values, not six"
    assert len(ours) == len(steady) == len(broken) == len(training.COLUMNS)


def test_a_contest_without_purerl_is_none():
    with pytest.raises(Failed, match="no_such_setting"):
        contest(Task("tiny", "ppo", "CartPole-v1", 32, TINY | {"no_such_setting": 1}), [], runs=1)


def test_opponents():
    assert chosen(["gymnax"]) == ([], ["gymnax"])
    (named,), _ = chosen([f"sb3={sys.executable}"])
    assert command(named, Path("workers")) == [sys.executable, "workers/with_sb3.py"]
    (fresh,), _ = chosen(["rejax"])
    assert {"uv", "run", "--with=rejax==0.1.3"} <= {
        Path(word).name if "uv" in word else word for word in command(fresh, Path())
    }
    for opponent in (*TRAINERS.values(), *HOSTS.values()):
        assert (Path(training.__file__).parent / "workers" / opponent.worker).is_file()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["trainin"], "training"),
        (["training", "--against", "rejaks"], "rejax"),
        (["training", "--against", "purejaxrl"], "purejaxrl=FOLDER"),
        (["training", "--against", "sb3=/no/such/python"], "no Python interpreter"),
        (["environments", "--envs", "CartPole-v9"], "CartPole-v1"),
        (["training", "--runs", "0"], "at least 1"),
    ],
)
def test_bad_input_is_told_before_anything_runs(words, complaint, tmp_path):
    result = CliRunner().invoke(cli, ["benchmark", *words, "--out", str(tmp_path / "none")])
    assert isinstance(result.exception, InputError)
    assert complaint in str(result.exception)
    assert not (tmp_path / "none").exists()


def test_tasks_are_of_settings_that_exist():
    layers = 4 * 64 + 64 * 64 + 64 * 2, 4 * 64 + 64 * 64 + 64  # of policy and value
    forward, backward = 2 * sum(layers), 2 * sum(layers) + 2 * (sum(layers) - 2 * 4 * 64)
    by_hand = 4 * (forward + backward) + 2 * layers[0] + 2 * 2 * layers[1]  # acting; values, of successors, too
    for name, algorithm, environment, steps, given, _ in (*training.TRAINING, *training.OFF_POLICY):
        _, cls = training.registry.algorithm(algorithm)
        config = cls(**given)
        assert steps >= config.steps_per_update, name
        if algorithm == "ppo" and environment == "CartPole-v1":
            task = Task(name, algorithm, environment, steps, given)
            assert training.arithmetic(task, config) == pytest.approx(by_hand, rel=0.01)


def test_tasks_are_as_gymnax_plays_them():
    for name, parameters in training.AS_GYMNAX.items():
        theirs, params = gymnax.make(name)
        ours = purerl.make(name, **parameters)
        assert ours.action_space.n == theirs.num_actions
        assert ours.time_limit == params.max_steps_in_episode
        assert ours.sticky_action_probability == 0  # gymnax has none
        assert name in {environment for _, _, environment, *_ in training.TRAINING}


@pytest.mark.slow
def test_environments_take_turns_with_gymnax():
    host = HOSTS["gymnasium"]._replace(python=sys.executable)
    rows = environments.measure_one("CartPole-v1", 16, True, [host], 1, 0.005)
    assert [row[:3] for row in rows] == [["CartPole-v1", 16, by] for by in ("purerl", "gymnax", "gymnasium")]
    ours, gymnax, hosted = rows
    assert gymnax[4]["median"] == pytest.approx(ours[3]["median"] / gymnax[3]["median"])
    assert hosted[3]["median"] > 0 and hosted[4]["median"] > 1
    assert all(len(row) == len(environments.COLUMNS) for row in rows)


def test_figures_are_kept_by_group(tmp_path):
    table = tables.Table("Speed", [("what", "text"), ("steps/s", "rate")], [["ppo", spread([1e3, 2e3])]])
    path = report.keep(tmp_path, {"training": [table]}, {"runs": 1})
    assert report.keep(tmp_path, {"memory": [table]}, {"runs": 2}) == path
    kept = json.loads(path.read_text())["groups"]
    assert set(kept) == {"training", "memory"} and kept["training"]["settings"] == {"runs": 1}
    assert tables.of_json(kept["training"]["tables"][0]) == table
    assert kept["training"]["versions"]["jax"] and kept["training"]["machine"]["processor"]
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- benchmark:  -->\nold\n<!-- end of benchmark -->\nafter\n")
    report.write_readme(page, path)
    assert "| ppo | 1.50k (1.00k to 2.00k) |" in page.read_text() and "old" not in page.read_text()
    assert page.read_text().startswith("before\n") and page.read_text().endswith("\nafter\n")
    report.write_readme(page, path)
    assert page.read_text().count("of benchmark") == 1
    with pytest.raises(InputError, match="has no lines"):
        report.write_readme(tmp_path / "none.md", path)


def test_the_readme_shows_what_is_kept():
    named = re.findall(report.BLOCK, README.read_text())
    assert len(named) == 1
    name, block = named[0]
    if name:
        assert block == report.page(json.loads((README.parent / "results" / name).read_text()))


def test_names_of_machines_are_file_names():
    found = {"processor": "AMD EPYC 9R14 96-Core Processor", "cores": 2, "devices": "1 x cpu"}
    assert report.file_name(found) == "benchmark-amd-epyc-9r14-2.json"
    gpu = {"processor": "Intel(R) Xeon(R) CPU", "cores": 16, "devices": "1 x NVIDIA H200"}
    assert report.file_name(gpu) == "benchmark-intel-xeon-16-nvidia-h200.json"


def test_nothing_reached_is_no_number():
    task = Task("tiny", "ppo", "CartPole-v1", 32, TINY)
    score = Score([1.0], 0.0, math.nan)
    assert training.row("tiny", "x", score, score, task, 1.0)[5] is None
