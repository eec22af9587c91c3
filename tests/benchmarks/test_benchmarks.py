"""Figures of `python -m benchmarks`: measured, written and shown."""

import importlib
import io
import math
import re
import sys
from pathlib import Path

import gymnax
import jax
import pytest
from click.testing import CliRunner
from rich.console import Console

import purerl
from benchmarks import __main__, convolutions, costs, environments, gpu, groups, report, tables, training
from benchmarks.contest import WORKERS, Failed, FrameworkProcess, Problem, Score, contest
from benchmarks.opponents import HOSTS, TRAINERS, Opponent, chosen, command, environment
from benchmarks.timing import ratios, spread
from purerl.errors import InputError

pytestmark = pytest.mark.publish

ROOT = Path(__file__).parents[2]
TINY = {"num_envs": 2, "rollout_length": 8, "num_minibatches": 1, "num_epochs": 1, "hidden_sizes": (4,)}
TASK = Problem(name="tiny", algorithm="ppo", environment="CartPole-v1", steps=32, settings=TINY)
REQUEST = groups.Request(trainers=[], hosts=[], gymnax=False, envs=[], runs=1, size=0.05)
CELLS = [
    (None, "rate", ""),
    ("did not start: no", "rate", "did not start: no"),
    (184_321.0, "rate", "184k"),
    (2_345_000.0, "rate", "2.35M"),
    ({"median": 12_000.0, "low": 11_000.0, "high": 13_000.0}, "rate", "12.0k (11.0k to 13.0k)"),
    ({"median": 1.5, "low": 1.5, "high": 1.5}, "ratio", "1.50x"),
    (35.2, "ratio", "35x"),
    (0.194, "share", "19%"),
    (0.0572, "share", "5.7%"),
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
    table = tables.Table(title="Missing", columns=[("why", "text")], rows=[["pip install 'purerl[gpu-compile]'"]])
    console.print(tables.show(table))
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
        "answer = {'seconds': 10.0, 'return': task['steps'], 'memory': 3000, 'curve': []}\n"
        "for line in sys.stdin: print(json.dumps(answer), flush=True)\n"
    )
    (folder / "broken.py").write_text("print('hello')\nraise ValueError('seven values, not six')\n")
    opponents = [
        Opponent(name=name, worker=str(folder / f"{name}.py"), packages=(), algorithms=("ppo",), python=sys.executable)
        for name in ("steady", "broken")
    ]
    return contest(TASK, opponents, runs=2)


def test_contest(scores):
    ours, steady, broken = scores
    assert len(ours.seconds) == 2 and all(0 < s < 10 for s in ours.seconds) and ours.compile_seconds > 0
    same = {"seconds": [10.0, 10.0], "returns": [32, 32], "memory": [3000, 3000], "curves": [[], []]}
    assert steady == Score(compile_seconds=1.5, **same)
    assert [at for at, _ in ours.curves[0]] == [16, 32]
    assert 1e8 < ours.memory[0] <= ours.memory[1]  # JAX alone is more
    assert broken.failure == "ValueError: seven values, not six"


def test_rows_of_a_contest(scores):
    rows = [training.row(TASK, who, score, scores[0], 0.5) for who, score in zip("abc", scores, strict=True)]
    ours, steady, broken = rows
    assert ours[3] is None and ours[4] == pytest.approx(0.5 * ours[2]["median"])
    assert steady[2] == spread([3.2]) and steady[3] == ratios([10.0, 10.0], scores[0].seconds)
    whole = scores[0].compile_seconds + sum(scores[0].seconds) / 2
    assert ours[9] == scores[0].memory[-1] and steady[9] == 3000
    assert ours[7] is None and steady[7] == pytest.approx((1.5 + 10.0) / whole)
    assert ours[8] is None and steady[8] == "not reached"
    assert broken[2] == "did not start: ValueError: seven values, not six"
    assert len(ours) == len(steady) == len(broken) == len(training.COLUMNS)
    page = tables.markdown(tables.Table(title="Tiny", columns=training.COLUMNS, rows=rows))
    assert page.count("| tiny") == 2 and page.endswith("\n\nDid not start: tiny, CartPole-v1 by c.")


def test_seconds_to_a_return():
    curves = [[(10, math.nan), (20, 1.0), (40, 4.0)], [(10, 0.0), (20, 3.0), (40, 8.0)]]
    score = Score(seconds=[4.0, 8.0, 80.0], returns=[], compile_seconds=2.0, memory=[1], curves=curves)
    assert score.whole == 10.0
    assert score.seconds_to(2.0, 40) == 2.0 + 8.0 / 2  # the mean of 1 and 3, after 20 of 40 steps
    assert score.seconds_to(2.1, 40) == 10.0 and score.seconds_to(6.1, 40) is None
    other = score._replace(returns=[2.0], seconds=[40.0], curves=[])
    task = TASK._replace(steps=40)
    assert training.row(task, "other", other, score, None)[8] == (2.0 + 40.0) / 6.0


def test_a_curve_is_drawn_where_it_is_asked_for(tmp_path):
    (tmp_path / "counting.py").write_text(
        f"import sys\nsys.path.insert(0, {str(WORKERS)!r})\n"
        "from protocol import serve\n"
        "evaluated = []\n"
        "def curve(seed): evaluated.append(seed); return [(len(evaluated), float(seed))]\n"
        "serve(lambda task: (0.0, lambda seed: seed), float, curve=curve)\n"
    )
    opponent = Opponent(
        name="counting",
        worker=str(tmp_path / "counting.py"),
        packages=(),
        algorithms=("ppo",),
        python=sys.executable,
    )
    with FrameworkProcess(TASK, opponent) as worker:
        assert worker.train(3).curve == [] and worker.train(4, curve=True).curve == [[1, 4.0]]


def test_an_opponent_has_packages_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "purejaxql").mkdir()
    monkeypatch.setenv("PYTHONPATH", "before")
    (opponent,), _, _ = chosen([f"purejaxql={tmp_path}"], tmp_path)
    assert opponent.python == sys.executable and opponent.checkout == str(tmp_path)
    assert environment(opponent)["PYTHONPATH"] == f"{tmp_path / 'purejaxql'}:before"
    assert environment(None)["PYTHONPATH"] == "before"


def test_tiny_problems_are_of_the_same_settings():
    tasks = [
        value.args[1] for name, value in vars(gpu).items() if name.startswith("measure_") and hasattr(value, "args")
    ]
    assert len(tasks) == 14
    for task in tasks:
        small = gpu.tiny(task)
        _, cls = training.registry.algorithm(task.algorithm)
        assert set(small.settings) == set(task.settings) and set(small.parameters or {}) == set(task.parameters or {})
        assert small.seeds <= 2 and 2 * cls(**small.settings).steps_per_update <= small.steps
        assert task.environment.startswith("craftax/") or purerl.make(task.environment, **(small.parameters or {}))


def test_a_contest_without_purerl_is_none():
    with pytest.raises(Failed, match="no_such_setting"):
        contest(TASK._replace(settings=TINY | {"no_such_setting": 1}), [], runs=1)


def test_host_environments_are_trained_by_their_loop():
    task = TASK._replace(environment="gymnasium/CartPole-v1")
    (score,) = contest(task, [], runs=1)
    assert score.compile_seconds > 0 and score.seconds[0] > 0 and score.returns[0] >= 8


def test_a_generation_of_an_evolution_is_a_training():
    (score,) = contest(TASK._replace(evolves=True, seeds=2, steps=512), [], runs=1)
    assert score.compile_seconds > 0 and score.seconds[0] > 0 and 8 <= score.returns[0] <= 500


def test_opponents():
    assert chosen(["gymnax", "envpool"]) == ([], [HOSTS["envpool"]], True)
    (named,), _, _ = chosen([f"sb3={sys.executable}"])
    assert command(named, Path("workers")) == [sys.executable, "workers/with_sb3.py"]
    (fresh,), _, _ = chosen(["rejax"])
    assert {"uv", "run", "--with=rejax==0.1.3"} <= {
        Path(word).name if "uv" in word else word for word in command(fresh, Path())
    }
    (here,), _, _ = chosen(["rejax"], Path("/no/where"))
    assert command(here, Path("workers")) == [sys.executable, "workers/with_rejax.py"] and here.site is None
    for opponent in (*TRAINERS.values(), *HOSTS.values()):
        assert (Path(training.__file__).parent / "workers" / opponent.worker).is_file()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["trainin"], "training"),
        (["pool.atary"], "pool.atari"),
        (["training", "--against", "rejaks"], "rejax"),
        (["training", "--against", "purejaxrl"], "purejaxrl=FOLDER"),
        (["training", "--against", "sb3=/no/such/python"], "no Python interpreter"),
        (["environments", "--envs", "CartPole-v9"], "CartPole-v1"),
        (["training", "--runs", "0"], "at least 1"),
    ],
)
def test_bad_input_is_an_error_before_anything_runs(words, complaint, tmp_path):
    result = CliRunner().invoke(__main__.command, [*words, "--out", str(tmp_path / "none")])
    assert isinstance(result.exception, InputError)
    assert complaint in str(result.exception)
    assert not (tmp_path / "none").exists()


def test_tasks_are_of_settings_that_exist():
    layers = 4 * 64 + 64 * 64 + 64 * 2, 4 * 64 + 64 * 64 + 64  # layers of policy and value
    forward, backward = 2 * sum(layers), 2 * sum(layers) + 2 * (sum(layers) - 2 * 4 * 64)
    by_hand = 4 * (forward + backward) + 2 * layers[0] + 2 * 2 * layers[1]  # acting; values, of successors, too
    for task in (*training.TRAINING, *training.OFF_POLICY):
        _, cls = training.registry.algorithm(task.algorithm)
        config = cls(**task.settings)
        assert task.steps >= config.steps_per_update, task.name
        if task.algorithm == "ppo" and task.environment == "CartPole-v1":
            assert training.arithmetic(task, config) == pytest.approx(by_hand, rel=0.01)


def test_tasks_are_as_gymnax_plays_them():
    for name, parameters in training.AS_GYMNAX.items():
        theirs, params = gymnax.make(name)
        ours = purerl.make(name, **parameters)
        assert ours.action_space.n == theirs.num_actions
        assert ours.time_limit == params.max_steps_in_episode
        assert ours.sticky_action_probability == 0  # gymnax has none
        assert name in {task.environment for task in training.TRAINING}


@pytest.mark.slow
def test_environments_take_turns_with_gymnax():
    host = HOSTS["gymnasium"]._replace(python=sys.executable)
    rows = environments.measure_one("CartPole-v1", 16, REQUEST._replace(gymnax=True, hosts=[host]))
    assert [row[:3] for row in rows] == [["CartPole-v1", 16, by] for by in ("purerl", "gymnax", "gymnasium")]
    ours, gymnax, hosted = rows
    assert gymnax[4]["median"] == pytest.approx(ours[3]["median"] / gymnax[3]["median"])
    assert hosted[3]["median"] > 0 and hosted[4]["median"] > 1
    assert all(len(row) == len(environments.COLUMNS) for row in rows)


def test_groups_and_their_parts_have_names():
    assert groups.select([]) == list(groups.DEFAULT)
    assert groups.select(["scale.halving", "scale"])[:2] == ["scale.halving", "scale.seeds"]
    for entry in groups.BENCHMARKS.values():
        module, _, function = entry.function.partition(":")
        assert callable(getattr(importlib.import_module(f"benchmarks.{module}"), function))


def test_groups_are_written_one_by_one(tmp_path, monkeypatch):
    measured = []

    def speed(request):
        measured.append(request.size)
        table = tables.Table(title="Speed", columns=tables.columns("what: text; steps/s: rate"), rows=[])
        return [table._replace(rows=[["ppo", spread([1e3, 2e3])]])]

    for name in ("training", "memory"):
        entry = groups.Benchmark("groups:speed", "")
        monkeypatch.setitem(groups.BENCHMARKS, name, entry)
    monkeypatch.setattr(groups, "speed", speed, raising=False)
    page, other = tmp_path / "README.md", "<!-- benchmark: other.json: gpu -->\n<!-- end of benchmark -->\n"
    page.write_text(f"before\n<!-- benchmark: : training -->\nold\n<!-- end of benchmark -->\n{other}after\n")
    words = ["--out", str(tmp_path), "--readme", str(page), "--size", "0.5", "--against", f"sb3={sys.executable}"]
    for names in (["training"], ["training", "memory", "--missing"]):
        result = CliRunner().invoke(__main__.command, [*names, *words], catch_exceptions=False)
        assert result.exit_code == 0
    assert measured == [0.5, 0.5]
    (path,) = tmp_path.glob("benchmark-*.json")
    stored = report.read(path)
    assert set(stored) == {"training", "memory"}
    assert stored["training"]["settings"] == {"runs": 5, "size": 0.5, "against": ["sb3"]}
    assert tables.from_json(stored["training"]["tables"][0]) == speed(REQUEST)[0]
    assert stored["training"]["versions"]["jax"] and stored["training"]["machine"]["processor"]
    text = page.read_text()
    assert "| ppo | 1.50k (1.00k to 2.00k) |" in text and "old" not in text and text.count("of benchmark") == 2
    assert text.startswith(f"before\n<!-- benchmark: {path.name}: training -->") and text.endswith("-->\nafter\n")
    with pytest.raises(InputError, match="has no lines"):
        report.write_page(tmp_path / "none.md", path)


@pytest.mark.parametrize("page", ["docs/benchmarks-tables.md", "results/README.md"])
def test_pages_show_the_reports(page):
    blocks = re.findall(report.BLOCK, (ROOT / page).read_text())
    assert blocks
    for file, names, block in blocks:
        assert "return reached" not in block
        assert block == report.page(report.read(ROOT / "results" / file), names.split())


def test_neighbors_of_equal_columns_are_one_table():
    def group(title, *row):
        table = tables.Table(title=title, columns=tables.columns("what: text; steps/s: rate"), rows=[list(row)])
        about = {"processor": "x", "cores": 1, "devices": "1 x cpu", "load": 0.1}
        return {"date": "today", "machine": about, "versions": {"jax": "1"}, "tables": [table._asdict()]}

    groups_ = {"gpu.ppo": group("A", "a", 1.0), "gpu.dqn": group("A", "b", 2.0), "gpu.brax": group("B", "c", 3.0)}
    page = report.page(groups_, ["gpu"])
    assert page.count("A:") == 1 and page.count("B:") == 1 and "| a | 1 |\n| b | 2 |\n" in page
    assert page.startswith("`python -m benchmarks gpu.ppo gpu.dqn`, today: x")
    later = report.page(groups_ | {"gpu.dqn": groups_["gpu.dqn"] | {"date": "later"}}, ["gpu"])
    assert "gpu.ppo`, today" in later and "\n`python -m benchmarks gpu.dqn`, later" in later and later.count("A:") == 1


def test_the_code_is_that_of_the_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "ROOT", tmp_path)
    for name in ("purerl/loop/train.py", "purerl/commands/train.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x = 1\n")
    before = report.code()
    (tmp_path / "purerl/commands/train.py").write_text("x = 2\n")
    (tmp_path / "purerl/loop/train.py").write_text('"""About it."""\n\nx = 1  # one\n')
    assert report.code() == before, "of another package, or of words"
    (tmp_path / "purerl/loop/train.py").write_text("x = 2\n")
    assert report.code() != before
    assert all(list(Path(report.__file__).parents[1].glob(pattern)) for pattern in report.SOURCES)


def test_a_cost_is_of_the_size_that_it_names(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "ENOUGH", 0.0)
    small = {"num_envs": 2, "rollout_length": 4, "num_minibatches": 1, "hidden_sizes": (4,)}
    axis = costs.Axis(name="environments", first=2, settings=small, setting="num_envs")
    one, two = (costs.cost_of(axis, count) for count in (64, 128))
    assert 1.8 < two.bytes / one.bytes < 2.1 and one.seconds > 0
    monkeypatch.setattr(costs, "AXES", (axis,))
    (table,) = costs.measure(REQUEST)
    assert [row[:2] for row in table.rows] == [["environments", count] for count in (2, 4, 8)]
    costs.draw(table, tmp_path / "costs.png")
    assert (tmp_path / "costs.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "none.json").write_text('{"groups": {}}')
    failed = CliRunner().invoke(costs.command, [str(tmp_path / "none.json"), str(tmp_path / "costs.png")])
    assert isinstance(failed.exception, InputError) and "has no group costs" in str(failed.exception)


@pytest.mark.parametrize("work", ["forward", "trained"])
def test_arithmetic_of_a_network_for_images(work):
    network = convolutions.Network(name="MinAtar", kind="minatar", shape=(10, 10, 4), units=8, samples=0)
    run, operations = convolutions.program(network, batch=2, count=3, work=work)
    first, rest = 8 * 8 * 16 * 9 * 4, 8 * 8 * 16 * 8 + 8 * convolutions.OUTPUTS  # products of a sample
    passes = 1 if work == "forward" else 3  # backwards, the first layer has no gradient of its samples
    bias = 8 * 8 * 16  # bias of the convolution: its gradient is a product
    assert operations == pytest.approx(2 * 2 * (passes * (first + rest) - (passes > 1) * (first - bias)))
    result = run()
    if work == "forward":
        assert [out.shape for out in result] == 3 * [(2, convolutions.OUTPUTS)]
    else:
        counts = [int(leaf) for leaf in jax.tree.leaves(result[1]) if leaf.ndim == 0]
        assert 3 in counts  # steps of Adam


def test_names_of_machines_are_file_names():
    found = {"processor": "AMD EPYC 9R14 96-Core Processor", "cores": 2, "devices": "1 x cpu"}
    assert report.file_name(found) == "benchmark-amd-epyc-9r14-2.json"
    gpu = {"processor": "Intel(R) Xeon(R) CPU", "cores": 16, "devices": "1 x NVIDIA H200"}
    assert report.file_name(gpu) == "benchmark-intel-xeon-16-nvidia-h200.json"


def test_nothing_reached_is_no_number():
    score = Score(seconds=[1.0], returns=[math.nan], compile_seconds=0.0, memory=[1])
    assert training.row(TASK, "x", score, score, 1.0)[5] is None
