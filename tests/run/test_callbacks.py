"""Callbacks: they see what the rows say, change no bit, end a run in good order, and keep the best checkpoint."""

import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import purerl
from purerl.errors import InputError
from purerl.run import checkpoint
from purerl.run.callbacks import mean, stop_at_return
from purerl.run.run import Run
from tests.helpers.cli import told
from tests.helpers.runs import assert_same_run, rows, untimed

SMALL = {"num_envs": 2, "rollout_length": 4, "hidden_sizes": (4,), "total_timesteps": 80, "seeds": 2}
SMALL |= {"eval_episodes": 8, "evaluations": 2, "log_interval": 2, "env": {"rows": 5}, "display": "none"}


def train(out, **more):
    return purerl.train("a2c", "Catch", out=out, **(SMALL | more))


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """(run, its folder, what a callback saw)."""
    seen = []

    def watch(update, metrics, view):
        assert view.state.num_updates == update and view.settings.algorithm == "a2c"
        seen.append((update, metrics, view.agent(1), view))

    folder = tmp_path_factory.mktemp("runs") / "watched"
    return train(folder, callbacks=[watch], keep_best=True), folder, seen


@pytest.mark.long
def test_the_bits_are_those_without(watched, run_folder):
    _, folder, _ = watched
    assert_same_run(run_folder, folder)


@pytest.mark.long
def test_it_sees_the_rows_and_the_agents(watched):
    run, folder, seen = watched
    table = rows(folder)
    assert [update for update, *_ in seen] == [2, 4, 6, 8, 10]
    for update, metrics, _, _ in seen:
        for row in (row for row in table if int(row["update"]) == update):
            for name, cell in row.items():
                value = np.float64(metrics[name][int(row["seed"])]) if name != "update" else update
                assert value == pytest.approx(float(cell), rel=1e-6) if cell not in ("nan", "") else np.isnan(value)
    last = seen[-1][2]
    assert jax.tree.all(jax.tree.map(np.array_equal, last, run.agent(1)))
    assert not jax.tree.all(jax.tree.map(np.array_equal, seen[0][2], last)), "an earlier copy stays what it was"
    with pytest.raises(InputError, match="only valid during the call"):
        seen[0][3].agent(0)


@pytest.mark.long
def test_the_best_checkpoint_is_that_of_the_highest_mean(watched):
    _, folder, seen = watched
    means = {update: mean(metrics["evaluation_return"]) for update, metrics, _, _ in seen}
    known = {update: value for update, value in means.items() if np.isfinite(value)}
    best = max(known, key=lambda update: (known[update], -update))
    saved = purerl.load_run(folder, checkpoint="best")
    assert int(saved.state.num_updates) == best
    of_then = next(agent for update, _, agent, _ in seen if update == best)
    assert jax.tree.all(jax.tree.map(np.array_equal, saved.agent(1), of_then))
    assert checkpoint.best_return(folder / "checkpoints") == known[best]
    assert int(purerl.load_run(folder, checkpoint=10).state.num_updates) == 10
    with pytest.raises(InputError, match=r"has no checkpoint 7; allowed: latest, best, 10"):
        purerl.load_run(folder, checkpoint=7)


@pytest.mark.long
def test_there_is_no_best_where_it_was_not_kept(run_folder, capsys):
    code, err = told(capsys, "evaluate", str(run_folder), "--checkpoint", "best", "--no-cache")
    assert code == 2 and "train with --keep-best to keep one" in err and err.count("\n") == 1


@pytest.mark.long
def test_a_run_that_a_callback_ends(tmp_path, run_folder, capsys):
    def end(update, metrics, view):
        if update == 4:
            view.stop("enough")

    folder = tmp_path / "run"
    run = train(folder, callbacks=[end], display="plain")
    assert "ended early, at update 4 of 10: enough" in capsys.readouterr().out
    assert int(run.state.num_updates) == 4
    found = json.loads((folder / "summary.json").read_text())
    assert (found["status"], found["ended_early"], found["env_steps"]) == ("finished", "enough", 32)
    table, reference = rows(folder), rows(run_folder)
    assert {int(row["update"]) for row in table} == {2, 4}
    for row in table:
        other = next(r for r in reference if (r["seed"], r["update"]) == (row["seed"], row["update"]))
        assert {k: v for k, v in row.items() if k != "evaluation_return"} == {
            k: v for k, v in other.items() if k != "evaluation_return"
        }
    finals = [float(row["evaluation_return"]) for row in table if row["update"] == "4"]
    assert finals == found["final_return"]["per_seed"] and np.isfinite(finals).all()
    again = purerl.resume(folder, display="plain")
    assert "is complete (enough): 4 updates" in capsys.readouterr().out and int(again.state.num_updates) == 4


@pytest.mark.long
def test_a_run_that_ends_at_a_return_and_goes_on(tmp_path, run_folder, capsys):
    """The command's flag; without it, the resumed run reaches its usual result."""
    folder = tmp_path / "run"
    words = (
        "a2c Catch --num-envs 2 --rollout-length 4 --hidden-sizes 4 --total-timesteps 80 --seeds 2 --eval-episodes 8"
    )
    words = ["train", *words.split(), "--evaluations", "2", "--log-interval", "2", "--env.rows", "5", "--plain"]
    assert told(capsys, *words, "--no-cache", "--out", str(folder), "--stop-at-return", "-2")[0] == 0
    found = json.loads((folder / "summary.json").read_text())
    assert found["ended_early"].startswith("the mean evaluation return is ") and found["env_steps"] < 80
    assert told(capsys, "train", "--resume", str(folder), "--plain", "--stop-at-return", "5")[0] == 0
    assert (folder / "config.toml").read_text().count("stop_at_return = 5.0") == 1
    ended = json.loads((folder / "summary.json").read_text())
    assert "ended_early" not in ended and ended["env_steps"] == 80
    assert untimed(folder)["final_return"] == untimed(run_folder)["final_return"]


@pytest.mark.long
def test_the_command_takes_callbacks_by_name(tmp_path, capsys):
    folder, here = tmp_path / "run", "tests.helpers.watching"
    words = "train a2c Catch --num-envs 2 --rollout-length 4 --hidden-sizes 4 --total-timesteps 120 --eval-episodes 8"
    words = [*words.split(), "--evaluations", "0", "--log-interval", "5", "--env.rows", "5", "--plain", "--no-cache"]
    assert told(capsys, *words, "--out", str(folder), "--callback", f"{here}:enough") == (0, "")
    (calls,) = folder.glob("calls-*.txt")
    assert calls.read_text().splitlines() == ["5 1 an agent", "10 1 an agent"]
    assert json.loads((folder / "summary.json").read_text())["ended_early"] == "enough"
    longer = ("train", "--resume", str(folder), "--plain", "--total-timesteps")
    assert told(capsys, *longer, "160") == (0, "")
    assert calls.read_text().count("\n") == 2, "a resumed run is given its callbacks again"
    assert told(capsys, *longer, "240", "--callback", f"{here}:enough") == (0, "")
    assert calls.read_text().count("\n") > 2
    code, err = told(capsys, *words, "--out", str(tmp_path / "other"), "--callback", f"{here}:broken")
    assert code == 2 and err.count("\n") == 1
    assert f"the callback {here}:broken fails: ValueError: no such thing as (1,) (" in err and "watching.py:" in err
    code, err = told(capsys, *words, "--out", str(tmp_path / "third"), "--callback", f"{here}:enuogh")
    assert code == 2 and "did you mean 'enough'" in err.lower() and not (tmp_path / "third").exists()


@pytest.mark.long
def test_longer_than_it_was_to_be(tmp_path, capsys):
    """Without schedules, an extended run is bit-identical to a run that had this length from the beginning."""
    flat = {"learning_rate_schedule": "constant"}
    whole = train(tmp_path / "whole", total_timesteps=160, **flat)
    train(tmp_path / "run", **flat)
    code, err = told(capsys, "train", "--resume", str(tmp_path / "run"), "--plain", "--total-timesteps", "64")
    assert code == 2 and "has done 80 already" in err
    assert told(capsys, "train", "--resume", str(tmp_path / "run"), "--plain", "--total-timesteps", "160")[0] == 0
    longer = purerl.load_run(tmp_path / "run")
    assert jax.tree.all(jax.tree.map(np.array_equal, longer.state.agent, whole.state.agent))
    without = lambda row: {k: v for k, v in row.items() if k != "evaluation_return"}
    assert list(map(without, rows(tmp_path / "run"))) == list(map(without, rows(tmp_path / "whole")))
    assert longer.settings.config.total_timesteps == 160
    with pytest.raises(InputError, match=r"other settings .* cannot be combined with it"):
        raise InputError(told(capsys, "train", "--resume", str(tmp_path / "run"), "--learning-rate", "1")[1])


@pytest.mark.parametrize("given", [print, [3], [dict], {"a": print}])
def test_what_is_no_callback(given, tmp_path):
    with pytest.raises(InputError, match="callbacks must be a list of functions"):
        train(tmp_path / "run", callbacks=given)
    assert not (tmp_path / "run").exists()


def test_a_level_counts_the_seeds_that_are_known():
    class View:
        stopped = None

        def stop(self, reason):
            self.stopped = reason

    view, callback = View(), stop_at_return(2.0)
    for returns in ([np.nan, np.nan], [3.0, 0.9], [1.9, np.nan]):
        callback(1, {"evaluation_return": np.array(returns, np.float32)}, view)
        assert view.stopped is None
    callback(1, {"evaluation_return": np.array([1.0, 3.0, np.nan], np.float32)}, view)
    assert view.stopped == "the mean evaluation return is 2, at least 2"


@pytest.mark.long
def test_a_checkpoint_that_a_callback_asks_for_is_of_the_whole_row(tmp_path, run_folder, monkeypatch):
    """The run is killed by what comes after the row, and resumed from that checkpoint alone."""

    def ask(update, metrics, view):
        if update == 4:
            view.save()
        if update == 6:
            raise ZeroDivisionError("killed")

    folder = tmp_path / "run"
    monkeypatch.setattr("purerl.run.run.CHUNK_SECONDS", 0.0)
    with pytest.raises(ZeroDivisionError):
        train(folder, callbacks=[ask])
    assert checkpoint.steps(folder / "checkpoints") == [4]
    purerl.resume(folder, display="none")
    assert_same_run(run_folder, folder)


@pytest.mark.long
def test_an_early_end_is_known_to_the_run_that_is_resumed(tmp_path, monkeypatch):
    """It was stopped after its last checkpoint, before its summary was written."""

    def end(update, metrics, view):
        if update == 4:
            view.stop("enough")

    def killed(*_):
        raise ZeroDivisionError("killed")

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("purerl.reporting.report.write_report", killed)
        with pytest.raises(ZeroDivisionError):
            train(folder, callbacks=[end])
    assert not (folder / "summary.json").exists()
    again = purerl.resume(folder, display="none")
    assert int(again.state.num_updates) == 4
    found = json.loads((folder / "summary.json").read_text())
    assert found["ended_early"] == "enough" and np.isfinite(found["final_return"]["per_seed"]).all()


@pytest.mark.long
def test_what_a_callback_ends_at_once_on_the_host(tmp_path):
    """The first update compiles: no time of training is known."""
    folder = tmp_path / "run"
    train(folder, seeds=1, sampler="serial", log_interval=1, callbacks=[lambda update, metrics, view: view.stop()])
    found = json.loads((folder / "summary.json").read_text())
    assert found["env_steps"] == 8 and found["status"] == "finished"


def test_a_best_checkpoint_that_the_disk_did_not_take_does_not_count(tmp_path):
    """A lower return that is higher than those kept is kept after it."""
    fails, lines = [False, True], []

    def write(*_, **__):
        if fails.pop():
            raise checkpoint.SaveError("disk full")

    display, failed = SimpleNamespace(line=lines.append), SimpleNamespace(alive=[0])
    run = SimpleNamespace(best=1.0, failed=failed, checkpoints=tmp_path, _write=write, display=display)
    for reached, best in ((3.0, 1.0), (2.0, 2.0)):
        run.evaluation = np.array([reached])
        Run._keep_best(run)
        assert run.best == best
    assert lines == ["the best checkpoint is not kept: disk full"]
