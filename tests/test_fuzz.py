"""Every reader of files, given damaged and hostile ones, raises a one-line `InputError` or returns a result.

PURERL_FUZZ_CASES=20000 gives each reader so many cases instead of a dozen, or of thousands in the longer half.
"""

import contextlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from purerl.errors import InputError
from purerl.evolution import plan as evolution_plan
from purerl.evolution.report import columns_of
from purerl.reporting import compare, metrics_csv, report, summary
from purerl.run import checksums, folders
from purerl.run.lifecycle import LongJob
from purerl.settings import agent_file, runs, toml
from purerl.sweeps import plan as sweep_plan
from purerl.trust import reading

CASES = int(os.environ.get("PURERL_FUZZ_CASES", "0"))
HOSTILE = ("1" * 5000, "9" * 400 + ".0", "1e400", "-inf", "nan", "1_000", "0x10", "\x1b[2J", "$\\frac$", "", "\0", "٣")


def cases(few, many):
    """Return decorators of a test of `few` cases by default, and a longer one of `many`."""
    options = {"deadline": None, "derandomize": True, "database": None}
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    long = pytest.param(CASES or many, marks=pytest.mark.long, id="many")

    def decorate(strategy, function):
        @pytest.mark.parametrize("count", [pytest.param(few, id="few"), long])
        def test(count, tmp_path):
            settings(max_examples=count, suppress_health_check=checks, **options)(
                given(strategy)(lambda case: function(case, tmp_path))
            )()

        return test

    return decorate


@contextlib.contextmanager
def in_one_line():
    """Let an `InputError` pass, if it is a line that steers no terminal."""
    try:
        yield
    except InputError as error:
        line = " ".join(str(error).split())
        assert line and line.isprintable(), line


numbers = st.one_of(
    st.integers(), st.floats(), st.sampled_from([10**30, -(10**18), 2**63, 2**64, 10**9, 1e308, float("inf"), True])
)
texts = st.one_of(st.text(max_size=20), st.sampled_from([*HOSTILE, "ppo", "Catch", "a:b", "os:abort", "x/y", "none"]))
leaves = st.one_of(st.none(), st.booleans(), numbers, texts)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)
deep = st.integers(1, 3000).map(lambda depth: "[" * depth + "]" * depth)
raw = st.one_of(  # a value as TOML or JSON has it, or nearly
    st.sampled_from([*HOSTILE, "1979-05-27", "[1, 'a', 2.5]", "{a = 1}", '"""x"""', "true", "1e9", "1e18", "-1", "[]"]),
    deep,
    st.text(max_size=12),
    texts.map(json.dumps),
    trees.map(lambda tree: json.dumps(tree)),
)
noise = st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=8), st.integers(0, 8))


def mutated(text, changes):
    """Return bytes in which some were replaced: (where, by what, how many are dropped) each."""
    data = bytearray(text)
    for where, new, dropped in changes:
        at = int(where * len(data))
        data[at : at + dropped] = new
    return bytes(data)


def edited(lines, edits, equals=" = "):
    """Return a text whose lines have other values: (which, value) each."""
    lines = list(lines)
    for which, value in edits:
        i = which % len(lines)
        name, found, _ = lines[i].partition(equals)
        lines[i] = f"{name}{equals}{value}" if found else f"{value}"
    return "\n".join(lines)


edits = st.lists(st.tuples(st.integers(0, 200), raw), min_size=1, max_size=3)
RUN = """format = 1
version = "0.1.0"
algorithm = "ppo"
environment = "CartPole-v1"
extension = []
seeds = 2
seed = 0
start = "none"
num_envs = 2
rollout_length = 8
total_timesteps = 160
devices = "auto"
mesh = []
hidden_sizes = [8]
learning_rate = 0.001
max_grad_norm = 0.5
groups = 1
from_python = []

[env]
gravity = 9.8
time_limit = 500

# end
""".replace("groups = 1\n", "").splitlines()
SWEEP = [
    *RUN[:-6],
    "[search]",
    "trials = 2",
    "method = 'random'",
    "points = 5",
    "[over]",
    "gae_lambda = '0.5:0.9'",
    "# end",
]
EVOLUTION = """format = 1
objective = "ppo"

[evolution]
population = 2
generations = 1
strategy = "openes"
seeds = 1
devices = 1

[task."Catch"]
num_envs = 2
rollout_length = 4
total_timesteps = 80

[task."Catch".env]
rows = 5

# end
""".splitlines()
RESULT = {"per_seed": [1.0, None], "failed": 1, "failed_counted_as": 0.5, "mean": 1.0, "iqm": 1.0}
RESULT |= {"iqm_interval_95": None, "range": [0.5, 1.0]}
SUMMARY = {"format": 1, "final_return": RESULT, "env_steps_per_second": 10.0, "device": {"kind": "cpu"}}
SUMMARY |= {"versions": {"jax": "1"}, "status": "finished", "wall_seconds": 1.0, "env_steps": 10}
TABLE = """seed,update,env_steps,wall_seconds,episode_return,episode_length,episodes,evaluation_return,loss
0,1,10,0.5,1.0,2.0,3,,0.5
1,1,10,0.5,1.0,2.0,3,,0.5
0,2,20,0.6,1.5,2.0,3,2.0,0.25
1,2,20,0.6,1.5,2.0,3,2.0,nan
"""


def _settings(text, folder):
    (folder / "config.toml").write_text(text, encoding="utf-8", errors="surrogatepass")
    with in_one_line():
        toml.read_folder(folder, toml.RUN)
        with toml.told_of(folder / "config.toml"):
            runs.settings(None, None, {}, {}, folder / "config.toml")


test_settings = cases(25, 600)(edits.map(lambda found: edited(RUN, found)), _settings)
test_texts = cases(25, 600)(st.one_of(st.text(), raw, raw.map(lambda x: f"a = {x}")), _settings)


def _sweep(text, folder):
    (folder / "sweep.toml").write_text(text, encoding="utf-8", errors="surrogatepass")
    with in_one_line():
        sweep_plan.saved_plan(folder)


def _evolution(text, folder):
    (folder / "evolve.toml").write_text(text, encoding="utf-8", errors="surrogatepass")
    with in_one_line():
        evolution_plan.saved_plan(folder)


test_sweeps = cases(3, 20)(edits.map(lambda found: edited(SWEEP, found)), _sweep)
test_evolutions = cases(2, 15)(edits.map(lambda found: edited(EVOLUTION, found)), _evolution)


def _replaced(tree, path, value):
    """Return a tree of dicts with another value at one of its places."""
    if not isinstance(tree, dict) or not tree or not path:
        return value
    name = sorted(tree)[path[0] % len(tree)]
    return tree | {name: _replaced(tree[name], path[1:], value)}


summaries = st.one_of(
    st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=3), trees).map(
        lambda case: json.dumps(_replaced(SUMMARY, *case))
    ),
    st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=3), raw).map(
        lambda case: json.dumps(_replaced(SUMMARY, case[0], "HERE")).replace('"HERE"', case[1])
    ),
    raw,
    st.text(),
)


def _summary(text, folder):
    (folder / "summary.json").write_text(text, encoding="utf-8", errors="surrogatepass")
    (folder / "metrics.csv").write_text(TABLE)
    (folder / "config.toml").write_text("\n".join(RUN))
    columns = metrics_csv.read(folder / "metrics.csv")
    with in_one_line():
        summary.line(folder)
    with in_one_line():
        report._facts(report._result({}, columns, summary.read(folder / "summary.json")))
    with in_one_line():
        compare.load(folder)


test_summaries = cases(25, 600)(summaries, _summary)
tables = st.one_of(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 8), raw), min_size=1, max_size=4),
    st.lists(noise, min_size=1, max_size=4).map(lambda changes: mutated(TABLE.encode(), changes)),
    st.text().map(lambda text: text.encode("utf-8", errors="surrogatepass")),
)


def _table(case, folder):
    if isinstance(case, list):
        rows = [line.split(",") for line in TABLE.splitlines()]
        for line, column, value in case:
            rows[line][column] = value
        case = "\n".join(map(",".join, rows)).encode("utf-8", errors="surrogatepass") + b"\n"
    path = folder / "metrics.csv"
    path.write_bytes(case)
    run = runs.settings("ppo", "CartPole-v1", {"seeds": 2})
    with in_one_line():
        columns = metrics_csv.read(path)
        for name in columns:
            metrics_csv.by_seed(columns, name)
        json.dumps(summary.summarize(run, columns, 2)["env_steps"])
    with in_one_line():
        metrics_csv.read(path, columns_of("evolution"))
    with in_one_line():
        metrics_csv.Log(path, upto=2, rows=4, tell=lambda line: None).close()
    for made in folder.iterdir():
        shutil.rmtree(made) if made.is_dir() else made.unlink()


test_tables = cases(15, 300)(tables, _table)
AGENT = agent_file.pack({"params/a": np.zeros((2, 3), np.float32)}, {"settings": "\n".join(RUN), "update": "3"})
headers = st.one_of(
    st.lists(noise, min_size=1, max_size=4).map(lambda changes: mutated(AGENT, changes)),
    st.binary(max_size=200),
    raw.map(lambda text: len(text.encode(errors="replace")).to_bytes(8, "little") + text.encode(errors="replace")),
    trees.map(lambda tree: len(json.dumps(tree)).to_bytes(8, "little") + json.dumps(tree).encode() + bytes(64)),
    st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=2), trees).map(
        lambda case: (
            text := json.dumps(_replaced(json.loads(AGENT[8 : 8 + AGENT[0] + 256 * AGENT[1]]), *case)).encode()
        )
        and len(text).to_bytes(8, "little") + text + bytes(24)
    ),
)


def _agent(data, folder):
    path = folder / "one.safetensors"
    path.write_bytes(data)
    for read in (agent_file.about, agent_file.shapes, agent_file.arrays, toml.read):
        with in_one_line():
            read(path)


test_agents = cases(25, 600)(headers, _agent)


class _Job:
    def __init__(self):
        self.metadata = {"wall_seconds": 0.0, "trained": 0, "rows": 0, "logged": -1}


def _notes(found, folder):
    job = _Job()
    LongJob.take_metadata(job, found)
    assert all(abs(value) <= 2**53 for value in job.metadata.values())
    assert all(type(value) is type(_Job().metadata[name]) for name, value in job.metadata.items())
    checksums.agrees(found.get("checksum"), {"a": np.zeros((2, 3), np.float32)})
    with in_one_line():
        reading.check_plain(found, "notes")
        checksums.of_notes(found)
    with in_one_line():
        folders.changes(folder / "config.toml", found.get("settings"), "\n".join(RUN), lambda name: True)


names = st.sampled_from(["wall_seconds", "trained", "rows", "logged", "checksum", "settings"])
parts = st.one_of(trees, st.fixed_dictionaries({"a": st.lists(st.tuples(trees, trees, trees), max_size=3)}))
test_notes = cases(25, 600)(
    st.dictionaries(names, st.one_of(parts, raw, edits.map(lambda found: edited(RUN, found)))), _notes
)


def _archive(changes, folder):
    path = folder / "curves.npz"
    np.savez_compressed(path, a=np.arange(6.0).reshape(2, 3), b=np.zeros(3, bool))
    path.write_bytes(mutated(path.read_bytes(), changes))
    with in_one_line(), reading.arrays(path, 1000) as (shapes, file):
        for name in shapes:
            np.asarray(file[name])


test_archives = cases(25, 600)(st.lists(noise, min_size=1, max_size=4), _archive)


def test_the_examples_are_read(tmp_path):
    """What is damaged above is right before."""
    (tmp_path / "config.toml").write_text("\n".join(RUN))
    assert runs.settings(None, None, {}, {}, tmp_path / "config.toml").config.hidden_sizes == (8,)
    (tmp_path / "summary.json").write_text(json.dumps(SUMMARY))
    (tmp_path / "metrics.csv").write_text(TABLE)
    assert summary.line(tmp_path).startswith("final return 1") and compare.load(tmp_path).failed == 1
    Path(tmp_path / "one.safetensors").write_bytes(AGENT)
    assert agent_file.arrays(tmp_path / "one.safetensors")["params/a"].shape == (2, 3)
