"""Sweeps: one program per shape, and bit-identical results however trials are divided, killed or placed."""

import contextlib
import csv
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial

import jax
import numpy as np
import pytest

import purerl
from purerl import LogUniform, Uniform, make_train
from purerl.algos.ppo import PPOConfig, ppo
from purerl.devices import memory
from purerl.envs.bsuite.catch import Catch
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import InputError
from purerl.functional.objectives import Clip
from purerl.settings import runs
from purerl.settings.options import RunOptions
from purerl.settings.ranges import Choices
from purerl.settings.runs import settings
from purerl.sweeps import chunks, halving, population, search
from purerl.sweeps.plan import SearchOptions, make_sweep_plan, saved_plan
from purerl.sweeps.result import Curves
from purerl.sweeps.sweep import make_search, resume, start
from tests.helpers import reinforce
from tests.helpers.processes import own_devices
from tests.helpers.runs import edited

CONFIG = PPOConfig(num_envs=2, rollout_length=16, num_minibatches=2, num_epochs=2, hidden_sizes=(8,))


OVER = {
    "learning_rate": LogUniform(1e-4, 1e-1),
    "num_envs": [2, 4],
    "env.gravity": Uniform(8, 12),
    "discount": Uniform(0.9, 0.99),
}


NUMBERS = {name: OVER[name] for name in ("learning_rate", "env.gravity")}


STEPS = 64 * 8


def sweep(over=OVER, trials=64, **more):
    settings = {"seeds": 2, "total_timesteps": STEPS, "points": 4, "display": "plain"} | more
    return purerl.sweep(ppo, CartPole(), CONFIG, over=over, trials=trials, **settings)


def test_trials_are_judged_by_another_metric(tmp_path):
    """The lowest value loss is the best; the table holds it, and halving ranks by it too."""
    numbers = {"learning_rate": [1e-5, 1e-1]}
    found = sweep(numbers, trials=2, method="grid", metric="-value_loss", out=tmp_path / "sweep")
    losses = {row["learning_rate"]: row["final_value_loss"] for row in found.rows() if row["seed"] == 0}
    means = [np.mean([row["final_value_loss"] for row in found.rows() if row["trial"] == trial]) for trial in (0, 1)]
    assert all(loss > 0 for loss in losses.values()) and found.best_return == pytest.approx(min(means))
    assert found.best == found.values[int(np.argmin(means))][0]
    assert "-value_loss" in (tmp_path / "sweep" / "sweep.toml").read_text()
    with pytest.raises(InputError, match="unknown metric 'value_los': did you mean 'value_loss'"):
        sweep(numbers, trials=2, metric="value_los")


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep of 64 trials over 3 numbers and 2 shapes, and the names of all programs that were compiled for it."""
    compiled = []

    def listen(event, _, **about):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(about["fun_name"])

    folder = tmp_path_factory.mktemp("sweeps") / "swept"
    jax.monitoring.register_event_duration_secs_listener(listen)
    result = sweep(out=folder)
    jax.monitoring.unregister_event_duration_listener(listen)
    return result, compiled


@pytest.mark.parametrize(
    ("method", "module", "settings"),
    [("random", chunks, {}), ("halving", search, {"rungs": 2}), ("pbt", search, {"generations": 4})],
)
def test_a_signal_while_a_sweep_compiles_ends_it_at_once(method, module, settings, tmp_path, monkeypatch, capsys):
    """All that was trained before is saved, and the compiler may take minutes."""

    def compile_for_long(*_):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

    monkeypatch.setattr(module, "compile_in_place", compile_for_long)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sweep(NUMBERS, 4, method=method, out=tmp_path / "sweep", **settings)
    assert time.monotonic() - began < 30 and "interrupted; no checkpoint yet" in capsys.readouterr().out


@pytest.mark.long
def test_two_compilations_for_two_shapes(swept):
    result, compiled = swept
    assert len(result.plan.trials) == 64
    assert {trial["num_envs"] for trial in result.plan.trials} == {2, 4}
    assert compiled.count("jit(train_members)") == 2
    others = [name for name in compiled if name != "jit(train_members)"]
    assert len(others) < 8, "a few single operations, whatever the number of trials"


@pytest.mark.long
def test_rows_are_trials_and_seeds_in_order(swept):
    result, _ = swept
    rows = result.rows()
    assert [(row["trial"], row["seed"]) for row in rows] == [(t, s) for t in range(64) for s in (0, 1)]
    for row in rows:
        assert {name: row[name] for name in OVER} == result.plan.trials[row["trial"]]
        assert not row["failed"] and row["env_steps"] == STEPS
    with (result.folder / "trials.csv").open() as file:
        written = list(csv.DictReader(file))
    assert [float(row["final_return"]) for row in written] == [row["final_return"] for row in rows]
    frame = result.to_pandas()
    assert list(frame.columns) == list(rows[0])
    assert frame.groupby("trial").final_return.mean().idxmax() == rows[0]["trial"] + np.nanargmax(result.scores())


@pytest.mark.long
def test_curves_are_those_of_single_runs(swept):
    """A trial against `make_train` with the same numbers, alone."""
    result, _ = swept
    trial = next(i for i, values in enumerate(result.plan.trials) if values["num_envs"] == 4)
    values = result.plan.trials[trial]
    settings = {name: values[name] for name in ("learning_rate", "num_envs", "discount")}
    env, alone = CartPole(gravity=values["env.gravity"]), dataclasses.replace(CONFIG, **settings)
    _, metrics = jax.jit(make_train(ppo, env, alone, STEPS, num_points=4))(jax.random.key(1))
    found = result.curves.episode_return[trial, 1]
    np.testing.assert_allclose(found[:2], metrics.episodes["episode_return"][:2], rtol=1e-4)
    assert result.curves.env_steps[trial].tolist() == [128, 256, 384, 512]


@pytest.mark.long
def test_the_best_is_a_config_that_train_takes(swept):
    result, _ = swept
    run = runs.settings(None, None, {}, {}, result.folder / "best.toml")
    best = int(np.nanargmax(result.scores()))
    assert result.best == result.plan.trials[best]
    assert {name: getattr(run.config, name) for name in ("learning_rate", "num_envs", "discount")} == {
        name: result.best[name] for name in ("learning_rate", "num_envs", "discount")
    }
    assert run.parameters["gravity"] == result.best["env.gravity"]
    assert (run.options.seeds, int(run.config.total_timesteps)) == (2, STEPS)


@pytest.mark.long
def test_the_best_is_trained_with_other_seeds(tmp_path):
    """Seeds 2, 3 and 4, as a sweep of that one trial with these seeds gives them."""
    numbers = {"learning_rate": LogUniform(1e-4, 1e-1)}
    found = sweep(numbers, trials=3, fresh_seeds=3, out=tmp_path / "fresh")
    alone = sweep({"learning_rate": [found.best["learning_rate"]]}, trials=1, seeds=3, seed=2)
    np.testing.assert_array_equal(found.fresh, [row["final_return"] for row in alone.rows()])
    assert found.best_return == pytest.approx(max(found.scores()))
    text = (tmp_path / "fresh" / "best.toml").read_text()
    assert f"with 3 other seeds: mean return {found.fresh.mean():.6g}" in text
    assert "a maximum over trials" in alone.fresh_text() and alone.fresh is None


@pytest.mark.long
def test_the_folder_is_complete(swept):
    folder = swept[0].folder
    pictures = {"curves.png", "sensitivity.png", "parallel.png"}
    assert {path.name for path in folder.iterdir()} == pictures | {
        "sweep.toml",
        "trials.csv",
        "curves.npz",
        "best.toml",
    }
    assert all((folder / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    plan = saved_plan(folder)
    assert (plan.trials, plan.options) == (swept[0].plan.trials, swept[0].plan.options)


@pytest.mark.parametrize(("wrong", "told"), [({"seed": -1}, "seed is -1; it must be"), ({"pints": 3}, "'points'")])
def test_what_cannot_be(wrong, told):
    with pytest.raises(InputError, match=told):
        sweep(**wrong)


@pytest.mark.long
def test_python_alone_resumes_objects_without_a_registered_name(tmp_path):
    """A file cannot store an algorithm with an argument: a command refuses it; the same call with `resume` works."""
    clipped = partial(ppo, objective=Clip(epsilon=0.3))
    settings = {"over": {"learning_rate": [1e-3, 1e-2]}, "trials": 2, "seeds": 1, "display": "plain"}
    settings |= {"method": "grid", "total_timesteps": STEPS, "points": 2, "out": tmp_path / "run"}
    result = purerl.sweep(clipped, CartPole(), CONFIG, **settings)
    with pytest.raises(InputError, match=r"made in Python .* purerl.sweep\(..., out='.*run', resume=True\)$"):
        resume(tmp_path / "run", plain=True)
    again = purerl.sweep(clipped, CartPole(), CONFIG, **settings, resume=True)
    assert again.best == result.best


@pytest.mark.long
def test_a_command_resumes_registered_objects(tmp_path):
    """The environment's numbers are in the file."""
    settings = {"over": {"learning_rate": [1e-3, 1e-2]}, "trials": 2, "seeds": 1, "display": "plain"}
    settings |= {"method": "grid", "total_timesteps": STEPS, "points": 2, "out": tmp_path / "run"}
    result = purerl.sweep(ppo, CartPole(gravity=11.0), CONFIG, **settings)
    plan = saved_plan(tmp_path / "run", devices=1)
    assert (plan.settings.make_algorithm(), plan.setup.env, plan.mesh.size) == (ppo, CartPole(gravity=11.0), 1)
    assert (plan.trials, plan.settings.config) == (result.plan.trials, result.plan.settings.config)
    assert resume(tmp_path / "run", plain=True) == 0


RATES = {"learning_rate": LogUniform(1e-4, 1e-2)}


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """A small sweep, in a folder."""
    folder = tmp_path_factory.mktemp("small") / "sweep"
    return sweep(RATES, 2, chunk=1, points=2, seed=3, out=folder)


@pytest.fixture(scope="module")
def small(result):
    return result.folder


def test_another_sweep_in_the_folder(small):
    with pytest.raises(InputError, match="exists"):
        sweep(RATES, 2, out=small)
    with pytest.raises(InputError, match="holds another sweep: it has 'seeds = 2' where this one has 'seeds = 3'"):
        sweep(RATES, 2, chunk=1, points=2, seed=3, out=small, resume=True, seeds=3)
    with pytest.raises(InputError, match="holds another sweep"):
        sweep(NUMBERS, 2, out=small, resume=True)


@pytest.mark.long_for(
    '"0.0001:0.01:log"-"0.001:0.01:log"-over.learning_rate is 0.001:0.01:log, and the checkpoint',
    "discount = 0.99-discount = 0.9-discount is 0.9, and the checkpoint was made with 0.99",
    "seed = 3-seed = 4-seed is 4, and the checkpoint was made with 3",
    "trials = 2-trials = 3-curves.npz belongs to another sweep: 'env_steps' is int64",
)
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"0.0001:0.01:log"', '"0.001:0.01:log"', "over.learning_rate is 0.001:0.01:log, and the checkpoint"),
        ("trials = 2", "trials = 3", "curves.npz belongs to another sweep: 'env_steps' is int64"),
        ("seed = 3", "seed = 4", "seed is 4, and the checkpoint was made with 3"),
        ("discount = 0.99", "discount = 0.9", "discount is 0.9, and the checkpoint was made with 0.99"),
    ],
)
def test_a_sweep_with_other_settings_than_its_curves(small, tmp_path, old, new, told):
    folder = edited(small, tmp_path / "sweep", {old: new}, "sweep.toml")
    with pytest.raises(InputError, match=told):
        resume(folder, plain=True)


def test_chunks_may_be_changed_and_that_is_told(small, tmp_path, capsys):
    folder = edited(small, tmp_path / "sweep", {"chunk = 1": "chunk = 2"}, "sweep.toml")
    assert resume(folder, plain=True) == 0
    assert f"changed in {folder}/sweep.toml: search.chunk 2 (was 1)\n" in capsys.readouterr().out


def test_damaged_and_crafted_curves_are_refused_before_they_are_read(small, tmp_path, monkeypatch):
    folder = tmp_path / "sweep"
    shutil.copytree(small, folder)
    file, plan = folder / "curves.npz", saved_plan(folder)
    restore = lambda: make_search(plan).restore(folder)
    data, arrays = file.read_bytes(), dict(np.load(file))
    with monkeypatch.context() as patched:
        patched.setattr(np.lib.npyio.NpzFile, "__getitem__", lambda *_: pytest.fail("it was read"))
        large = {"trained": np.zeros(10_000_000, np.int64)}, {"settings": np.zeros(5_000_000, np.uint8)}
        for change in (*large, {"failed": arrays["failed"].astype(np.float32)}, {"sizes": np.array(None, object)}):
            np.savez_compressed(file, **arrays | change)
            with pytest.raises(InputError, match="another sweep"):
                restore()
    for damaged in (data[: len(data) // 2], b"", data.replace(b"trained", b"trainee"), bytes(1000)):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=r"curves.npz is damaged .*: remove it") as caught:
            restore()
        assert "\n" not in str(caught.value)
    for size in range(0, len(data), 97):  # a flipped byte: told, or of what is not needed
        file.write_bytes(data[:size] + bytes([data[size] ^ 0xFF]) + data[size + 1 :])
        with contextlib.suppress(InputError):
            restore()


def test_no_pandas(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        result.to_pandas()


def saved_curves(folder):
    with np.load(folder / "curves.npz") as file:
        return Curves(**{name: file[name] for name in Curves._fields})


def same(a: Curves, b: Curves):
    assert a.episode_return.tobytes() == b.episode_return.tobytes()
    assert a.failed.tolist() == b.failed.tolist() and a.trained.tolist() == b.trained.tolist()


def test_the_same_bits_however_it_is_cut():
    """Chunks of two on one device, against all at once on two devices."""
    assert len(jax.devices()) == 2
    same(sweep(NUMBERS, 6, chunk=2, devices=1).curves, sweep(NUMBERS, 6, chunk=6).curves)


@pytest.mark.long
def test_the_same_bits_with_too_little_memory_for_all(monkeypatch):
    whole = sweep(NUMBERS, 6, chunk=6)
    sizes = []
    needed = memory.needed

    def note(compiled):
        sizes.append(needed(compiled))
        return sizes[-1]

    monkeypatch.setattr(memory, "needed", note)
    monkeypatch.setattr(memory, "free", lambda arguments: sizes[0] - 1)
    same(sweep(NUMBERS, 6, chunk=6).curves, whole.curves)
    assert len(sizes) == 2 and sizes[1] < sizes[0]


@pytest.mark.long
def test_failed_seeds_are_told_and_never_the_best():
    result = sweep({"learning_rate": [1e-3, 1e30], "max_grad_norm": [1e30]}, 2, method="grid", chunk=6)
    assert [row["failed"] for row in result.rows()] == [False, False, True, True]
    assert result.best["learning_rate"] == 1e-3
    assert np.isnan(result.scores()[1])


COMMAND = [
    *("sweep", "ppo", "CartPole-v1", "--over", "learning_rate=1e-4:1e-1:log", "--over", "env.gravity=8:12"),
    *("--num-envs", "2", "--rollout-length", "16", "--num-minibatches", "2", "--num-epochs", "2"),
    *("--hidden-sizes", "8", "--total-timesteps", "12800", "--seeds", "2", "--points", "4", "--plain"),
    *("--trials", "60", "--chunk", "2"),
]


def purerl_process(*words):
    command = [sys.executable, "-m", "purerl", *words]
    return subprocess.Popen(command, env=own_devices(), stdout=subprocess.PIPE, text=True)


@pytest.mark.slow  # by default a design resumes within the process: test_chunks
def test_killed_and_resumed(tmp_path):
    """A sweep that is killed and then resumed is bit-identical to an uninterrupted one."""
    reference, killed = tmp_path / "reference", tmp_path / "killed"
    first = purerl_process(*COMMAND, "--out", str(reference))
    assert "best: return" in first.communicate(timeout=200)[0]
    process = purerl_process(*COMMAND, "--out", str(killed))
    deadline = time.monotonic() + 200
    while not (killed / "curves.npz").exists() and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    curves = saved_curves(killed)
    assert 0 < (curves.trained == 4).sum() < 60, "it should be killed on the way"
    again = purerl_process("sweep", "--resume", str(killed), "--plain")
    assert "60 of 60 trials" in again.communicate(timeout=200)[0]
    same(saved_curves(killed), saved_curves(reference))
    assert (killed / "trials.csv").read_text() == (reference / "trials.csv").read_text()
    assert (killed / "best.toml").read_text() == (reference / "best.toml").read_text()


def plan_of(method, trials, over=NUMBERS, **more):
    run = runs.Settings(
        algorithm="ppo",
        environment="CartPole-v1",
        options=RunOptions(seeds=2),
        config=dataclasses.replace(CONFIG, total_timesteps=32 * 40),
        parameters={},
    )
    return make_sweep_plan(run, SearchOptions(method=method, trials=trials, **more), over)


def finish(method):
    while method.share() < 1:
        method.advance()
    return method


@pytest.mark.long_for("halving")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (halving.Halving, {"method": "halving", "trials": 9, "points": 20, "slots": 2}),
        (population.Population, {"method": "pbt", "trials": 5, "generations": 6}),
    ],
    ids=["halving", "pbt"],
)
def test_populations_resume_to_the_same_bits(tmp_path, monkeypatch, kind, options):
    plan = plan_of(**options)
    whole = finish(kind(plan))
    part = kind(plan)
    for _ in range(4):
        part.advance()
    part.save(tmp_path)
    again = kind(plan)
    again.restore(tmp_path)
    assert again.share() == part.share() > 0
    finish(again)
    same(again.curves, whole.curves)
    assert again.values() == whole.values()
    if kind is population.Population:
        assert repr(again.lineage) == repr(whole.lineage)
        check_lineage(whole)
    else:
        check_ladder(whole)
    monkeypatch.setattr(memory, "free", lambda arguments: 1000)
    with pytest.raises(InputError, match=r"need .* GB, and 1e-06 GB are free"):
        kind(plan).advance()


def check_ladder(ladder):
    """Who went how far, against the rule applied to the scores after the fact."""
    trained, stops = ladder.curves.trained, ladder.rungs
    assert set(trained.tolist()) <= set(stops)
    assert (trained == stops[-1]).sum() >= 1
    for rung, stop in enumerate(stops[:-1]):
        at = np.flatnonzero(trained >= stop)
        scores = ladder.curves.final_return(stop).mean(axis=1)
        best = at[np.argsort(-scores[at], kind="stable")][: len(at) // 3]
        assert (trained[best] > stop).all(), f"the best third of rung {rung} went on"
    steps = ladder.curves.env_steps[np.arange(9), trained - 1].sum()
    assert steps < 0.5 * 9 * ladder.curves.env_steps[0, -1]


def check_lineage(populations):
    """Numbers change exactly where a parent's were taken, by one of the factors or a draw, within the range."""
    rows = {(row["generation"], row["member"], row["seed"]): row for row in populations.lineage}
    replaced = 0
    for (generation, member, seed), row in rows.items():
        parent = row["parent"]
        before = rows.get(
            (generation - 1, parent, seed), {name: populations.history[name][0, parent, seed] for name in NUMBERS}
        )
        for name, dimension in NUMBERS.items():
            old, new = float(before[name]), row[name]
            if parent == member:
                assert np.float32(new) == np.float32(old)
            assert np.float32(dimension.low) <= np.float32(new) <= np.float32(dimension.high)
        if parent != member:
            replaced += 1
            assert rows[generation, parent, seed]["episode_return"] > row["episode_return"]
    assert 1 <= replaced <= 5 * 2, "one of five per seed and generation, and none after the last"
    assert all(row["parent"] == row["member"] for row in rows.values() if row["generation"] == 5)


@pytest.mark.long
def test_an_own_algorithm_is_swept_from_either_door(tmp_path, capsys):
    """By name and as an object: the same file, and the same returns as the same settings alone."""
    flags = {"num_envs": 2, "rollout_length": 4, "total_timesteps": 80}
    own, over = "tests.helpers.reinforce:reinforce", {"step_size": [0.01, 0.1]}
    config = reinforce.ReinforceConfig(num_envs=2, rollout_length=4)
    shared = {"over": over, "seeds": 2, "total_timesteps": 80, "method": "grid", "display": "plain", "points": 2}
    objects = purerl.sweep(reinforce.reinforce, Catch(rows=5), config, out=tmp_path / "a", **shared)
    run = settings(own, "Catch", flags | {"seeds": 2}, {"rows": 5})
    options = SearchOptions(method="grid", trials=64, points=2)
    plan = make_sweep_plan(run, options, {"step_size": Choices((0.01, 0.1))})
    assert start(plan, tmp_path / "b", plain=True) == 0
    assert objects.curves.final_return().shape == (2, 2)
    assert (tmp_path / "a" / "trials.csv").read_text() == (tmp_path / "b" / "trials.csv").read_text()
    assert "--trust tests.helpers.reinforce" in capsys.readouterr().out


@pytest.mark.long
def test_a_failure_is_no_interruption(tmp_path, monkeypatch, capsys):
    """Whoever catches exceptions gets one."""

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(chunks.Chunks, "save", fails)
    with pytest.raises(RuntimeError, match=r"the sweep in .*sweep failed; the lines above give the reason"):
        sweep(NUMBERS, 2, out=tmp_path / "sweep")
    assert "No space left" in capsys.readouterr().out
