"""Sweeps: as few programs as shapes, and the same bits however they are cut, killed or placed."""

import csv
import dataclasses
import os
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
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import InputError
from purerl.functional.objectives import Clip
from purerl.run import config, named
from purerl.sweeps import chunks, halving, population
from purerl.sweeps import plan as sweep_plan
from purerl.sweeps.plan import SearchOptions, make_sweep_plan, saved_plan
from purerl.sweeps.result import Curves, load_curves
from purerl.sweeps.sweep import resume

CONFIG = PPOConfig(num_envs=2, rollout_length=16, num_minibatches=2, num_epochs=2, hidden_sizes=(8,))
OVER = {
    "learning_rate": LogUniform(1e-4, 1e-1),
    "num_envs": [2, 4],
    "env.gravity": Uniform(8, 12),
    "discount": Uniform(0.9, 0.99),
}
NUMBERS = {name: OVER[name] for name in ("learning_rate", "env.gravity")}
STEPS = 64 * 8


def sweep(over=OVER, num_trials=64, **more):
    settings = {"num_seeds": 2, "total_timesteps": STEPS, "points": 4, "plain": True} | more
    return purerl.sweep(ppo, CartPole(), CONFIG, over=over, num_trials=num_trials, **settings)


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


def test_two_compilations_for_two_shapes(swept):
    result, compiled = swept
    assert len(result.plan.trials) == 64
    assert {trial["num_envs"] for trial in result.plan.trials} == {2, 4}
    assert compiled.count("jit(train_lanes)") == 2
    others = [name for name in compiled if name != "jit(train_lanes)"]
    assert len(others) < 8, "a few single operations, whatever the number of trials"


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


def test_curves_are_those_of_single_runs(swept):
    """A trial against `make_train` with the same numbers, alone."""
    result, _ = swept
    trial = next(i for i, values in enumerate(result.plan.trials) if values["num_envs"] == 4)
    values = result.plan.trials[trial]
    settings = {name: values[name] for name in ("learning_rate", "num_envs", "discount")}
    env, alone = CartPole(gravity=values["env.gravity"]), dataclasses.replace(CONFIG, **settings)
    _, metrics = jax.jit(make_train(ppo, env, alone, STEPS, num_points=4))(jax.random.key(1))
    found = result.curves.episode_return[trial, 1]
    np.testing.assert_allclose(found[:2], metrics["episode_return"][:2], rtol=1e-4)
    assert result.curves.env_steps[trial].tolist() == [128, 256, 384, 512]


def test_the_best_is_a_config_that_train_takes(swept):
    result, _ = swept
    run = config.settings(None, None, {}, {}, result.folder / "best.toml")
    best = int(np.nanargmax(result.scores()))
    assert result.best == result.plan.trials[best]
    assert {name: getattr(run.config, name) for name in ("learning_rate", "num_envs", "discount")} == {
        name: result.best[name] for name in ("learning_rate", "num_envs", "discount")
    }
    assert run.parameters["gravity"] == result.best["env.gravity"]
    assert (run.options.seeds, int(run.config.total_timesteps)) == (2, STEPS)


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


def test_another_sweep_in_the_folder(swept):
    with pytest.raises(InputError, match="exists"):
        sweep(out=swept[0].folder)
    with pytest.raises(InputError, match="holds another sweep: it has 'seeds = 2' where this one has 'seeds = 3'"):
        sweep(out=swept[0].folder, resume=True, num_seeds=3)
    with pytest.raises(InputError, match="holds another sweep"):
        sweep(over=NUMBERS, out=swept[0].folder, resume=True)


def test_what_has_no_name_in_the_registry(tmp_path):
    """A command goes on with an algorithm that was made in Python, where it can find its parts."""
    clipped = partial(ppo, objective=Clip(epsilon=0.3))
    settings = {"over": {"learning_rate": [1e-3, 1e-2]}, "num_trials": 2, "num_seeds": 1, "plain": True}
    run = {"method": "grid", "total_timesteps": STEPS, "points": 2, "out": tmp_path / "run"}
    result = purerl.sweep(clipped, CartPole(), CONFIG, **settings, **run)
    plan = saved_plan(tmp_path / "run", devices=1)
    assert (plan.factory.func, plan.factory.keywords) == (ppo, {"objective": Clip(epsilon=0.3)})
    assert (plan.trials, plan.settings.config, plan.mesh.size) == (result.plan.trials, result.plan.settings.config, 1)
    assert resume(tmp_path / "run", plain=True) == 0

    own = partial(ppo, objective=lambda log_ratio, advantage, context: -log_ratio * advantage)
    with pytest.raises(InputError, match=r"which alone can go on there \(resume=True\): .*<lambda> has no name"):
        named.write(tmp_path / "run" / named.FILE, factory=own)
        saved_plan(tmp_path / "run")


def test_no_pandas(swept, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        swept[0].to_pandas()


def same(a: Curves, b: Curves):
    assert a.episode_return.tobytes() == b.episode_return.tobytes()
    assert a.failed.tolist() == b.failed.tolist() and a.trained.tolist() == b.trained.tolist()


def test_the_same_bits_however_it_is_cut(monkeypatch):
    """Chunks of two on one device, and too little memory for all, against all at once on two devices."""
    assert len(jax.devices()) == 2
    whole = sweep(NUMBERS, 6, chunk=6)
    same(sweep(NUMBERS, 6, chunk=2, devices=1).curves, whole.curves)
    sizes = []
    needed = memory.needed

    def note(compiled):
        sizes.append(needed(compiled))
        return sizes[-1]

    monkeypatch.setattr(memory, "needed", note)
    monkeypatch.setattr(memory, "free", lambda: sizes[0] - 1)
    same(sweep(NUMBERS, 6, chunk=6).curves, whole.curves)
    assert len(sizes) == 2 and sizes[1] < sizes[0]


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
    env = os.environ | {"XLA_FLAGS": "--xla_backend_optimization_level=1"}  # it makes its devices itself
    return subprocess.Popen([sys.executable, "-m", "purerl", *words], env=env, stdout=subprocess.PIPE, text=True)


def test_killed_and_resumed(tmp_path):
    """A process that is killed outright, and one that goes on, against one that ran through: the same bits."""
    reference, killed = tmp_path / "reference", tmp_path / "killed"
    first = purerl_process(*COMMAND, "--out", str(reference))
    assert "best: return" in first.communicate(timeout=200)[0]
    process = purerl_process(*COMMAND, "--out", str(killed))
    deadline = time.monotonic() + 200
    while not (killed / "curves.npz").exists() and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    curves, _ = load_curves(killed)
    assert 0 < (curves.trained == 4).sum() < 60, "it should be killed on the way"
    again = purerl_process("sweep", "--resume", str(killed), "--plain")
    assert "60 of 60 trials" in again.communicate(timeout=200)[0]
    same(load_curves(killed)[0], load_curves(reference)[0])
    assert (killed / "trials.csv").read_text() == (reference / "trials.csv").read_text()
    assert (killed / "best.toml").read_text() == (reference / "best.toml").read_text()


def plan_of(method, trials, over=NUMBERS, **more):
    run = config.Settings(
        algorithm="ppo",
        environment="CartPole-v1",
        options=config.RunOptions(seeds=2),
        config=dataclasses.replace(CONFIG, total_timesteps=32 * 40),
        parameters={},
    )
    return make_sweep_plan(run, SearchOptions(method=method, trials=trials, **more), over)


def finish(method):
    while method.share() < 1:
        method.advance()
    return method


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
    monkeypatch.setattr(memory, "free", lambda: 1000)
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


def test_promotions():
    """The rule on a table of scores, by hand."""
    none = np.full((6, 2), np.nan)
    reached, target = np.zeros(6, int), np.zeros(6, int)
    assert halving.next_trial(none, reached, target, 3) == 0
    reached[:3], target[:3] = 1, 1
    scores = none.copy()
    scores[:3, 0] = 5, 9, np.nan
    assert halving.next_trial(scores, reached, target, 3) == 1, "one of three goes on before a new one begins"
    target[1] = 2
    assert halving.next_trial(scores, reached, target, 3) == 3, "the first new one"
    reached[:], target[:] = 1, np.array([1, 2, 1, 1, 1, 1])
    scores[:, 0] = 5, 9, np.nan, 1, 7, 8
    assert halving.next_trial(scores, reached, target, 3) == 5, "the second best of six"
    target[5] = 2
    assert halving.next_trial(scores, reached, target, 3) == halving.IDLE
    assert sweep_plan.rungs(50, 3, 3) == [6, 17, 50]
    with pytest.raises(InputError, match="3 rungs with eta 3 need at least 9 points"):
        sweep_plan.rungs(4, 3, 3)


def test_exploit_and_explore():
    scores = np.float32([3, -np.inf, 9, 1, 5, 8, 2, 7, 6, 4])
    drawn = np.array([population.exploit(jax.random.key(i), jax.numpy.asarray(scores)) for i in range(20)])
    worst, best = [1, 3], [2, 5]
    kept = [i for i in range(10) if i not in worst]
    assert (drawn[:, kept] == kept).all()
    assert set(drawn[:, worst].ravel().tolist()) == set(best)
    equal = population.exploit(jax.random.key(0), jax.numpy.full(10, -np.inf))
    assert equal.tolist() == list(range(10)), "nobody is better than another"
    value = np.full(4000, 0.01, np.float32)
    new = np.asarray(population.explore(jax.random.key(0), value, LogUniform(1e-4, 1.0)))
    times = np.isclose(new, 0.008) | np.isclose(new, 0.0125)
    np.testing.assert_allclose(times.mean(), 0.75, atol=0.03)
    np.testing.assert_allclose(np.log10(new[~times]).mean(), -2, atol=0.15)  # drawn anew over all orders of magnitude
    edge = np.asarray(population.explore(jax.random.key(1), np.full(100, 11.9, np.float32), Uniform(8, 12)))
    assert edge.min() >= 8 and edge.max() == 12


def test_curves_judge_by_the_last_tenth():
    curves = Curves.empty(np.tile(np.arange(1, 21) * 10, (2, 1)), 2)
    curves.trained[:] = 20, 5
    curves.episode_return[0, 0] = np.arange(20)
    curves.episode_return[0, 1, :15] = np.arange(15)  # no episode ended since
    curves.episode_return[1, :, :5] = [[1, 2, 3, 4, 5], [np.nan] * 5]
    np.testing.assert_array_equal(curves.final_return(), [[18.5, 14], [5, np.nan]])
    np.testing.assert_array_equal(curves.final_return(10), [[9, 9], [5, np.nan]])
    curves.failed[0, 1] = True
    np.testing.assert_array_equal(curves.final_return()[0], [18.5, np.nan])


def test_memory_of_a_program():
    """A product of two matrices needs at least these and its result; a chunk on a CPU is not larger than it serves."""
    shape = jax.ShapeDtypeStruct((256, 256), np.float32)
    compiled = jax.jit(lambda x, y: x @ y).lower(shape, shape).compile()
    assert 3 * 256 * 256 * 4 <= memory.needed(compiled) < 10 * 256 * 256 * 4
    assert 2**20 < memory.free() < 2**45
    assert chunks.LANES >= 8
