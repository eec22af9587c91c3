"""A run's life in one process: rows, evaluations, failures, interruption."""

import os
import shutil
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import evaluate, make_trainer
from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.ppo import ppo
from purerl.catalog.algorithms import ALGORITHMS
from purerl.envs.classic.cartpole import CartPole
from purerl.loop.evaluate import play_episodes
from purerl.reporting import plot
from purerl.reporting.plot import PlotView, plot_run
from purerl.run import checkpoint, opening, run, trained_run
from purerl.run.plan import make_plan
from purerl.run.program import EVALUATION_BATCH
from purerl.settings.runs import settings
from purerl.types import number, pytree
from tests.helpers.runs import assert_same_run, edited, rows, strike, untimed

TINY = {"num_envs": 2, "rollout_length": 16, "num_minibatches": 2, "num_epochs": 2, "hidden_sizes": (8,)}


UPDATES = 25


FLAGS = TINY | {"total_timesteps": 32 * UPDATES, "log_interval": 4, "evaluations": 2, "eval_episodes": 40, "seeds": 2}


@pytree
class Leaky(CartPole):
    """CartPole whose rewards are sometimes not finite: a pure chance that differs between seeds."""

    chance: float = number(default=0.0, doc="of a step to give NaN")

    def step(self, key, state, action):
        state, timestep = CartPole.step(self, key, state, action)
        leak = jax.random.uniform(jax.random.fold_in(key, 7)) < self.chance
        return state, timestep._replace(reward=jnp.where(leak, jnp.nan, timestep.reward))


def start(out, env="CartPole-v1", parameters=None, **flags):
    return opening.start(settings("ppo", env, FLAGS | flags, parameters or {}), out, plain=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "reference"
    assert start(folder) == 0
    return folder


@pytest.mark.pictures
@pytest.mark.long
def test_folder_is_complete(finished):
    names = {path.name for path in finished.iterdir()}
    assert names == {"config.toml", "metrics.csv", "summary.json", "curve.png", "report.html", "checkpoints"}
    assert checkpoint.steps(finished / "checkpoints") == [UPDATES]
    assert (finished / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_rows_are_those_of_the_updates(finished):
    """The rows against the same updates, taken one by one and reduced by NumPy."""
    plan = make_plan(settings("ppo", "CartPole-v1", FLAGS, {}))
    trainer = make_trainer(ppo, plan.env, plan.settings.config)
    step = jax.jit(trainer.step)
    table = rows(finished)
    assert [int(row["update"]) for row in table] == [u for u in (4, 8, 12, 16, 20, 24, 25) for _ in (0, 1)]
    assert [int(row["seed"]) for row in table] == [0, 1] * 7
    for seed in (0, 1):
        state = jax.jit(trainer.init)(jax.random.key(seed))
        returns, lengths, counts, losses = [], [], [], []
        mine = [row for row in table if int(row["seed"]) == seed]
        for update in range(1, 9):  # later ones drift apart by rounding: one member is not two
            state, metrics = step(state)
            losses.append(float(metrics.algorithm["value_loss"]))
            count = float(metrics.episodes["episodes"])
            counts.append(count)
            returns.append(float(metrics.episodes["episode_return"]) * count if count else 0.0)
            lengths.append(float(metrics.episodes["episode_length"]) * count if count else 0.0)
            if update % 4:
                continue
            row = mine[update // 4 - 1]
            assert int(row["env_steps"]) == 32 * update
            assert int(row["episodes"]) == sum(counts)
            np.testing.assert_allclose(float(row["episode_return"]), np.sum(returns) / np.sum(counts), rtol=1e-5)
            np.testing.assert_allclose(float(row["episode_length"]), np.sum(lengths) / np.sum(counts), rtol=1e-5)
            np.testing.assert_allclose(float(row["value_loss"]), np.mean(losses), rtol=1e-2)
            returns, lengths, counts, losses = [], [], [], []


@pytest.mark.long
def test_no_episode_no_return(tmp_path, capsys):
    endless = {"angle_limit": 1e9, "position_limit": 1e9}  # until the time limit, which is further away than the end
    assert start(tmp_path / "a", parameters=endless) == 0
    assert "no episode ended in training" in capsys.readouterr().out
    for row in rows(tmp_path / "a"):
        assert (row["episodes"], row["episode_return"], row["episode_return_max"]) == ("0", "nan", "nan")
    assert untimed(tmp_path / "a")["final_return"]["per_seed"] == [500.0, 500.0]
    assert (tmp_path / "a" / "curve.png").exists()


@pytest.mark.long
def test_episodes_of_evaluations_that_never_end_are_told(tmp_path, capsys, monkeypatch):
    short = lambda *args, **more: play_episodes(*args, **(more | {"max_steps": 20}))
    monkeypatch.setattr("purerl.loop.train.play_episodes", short)
    endless = {"angle_limit": 1e9, "position_limit": 1e9}
    assert start(tmp_path / "a", parameters=endless, total_timesteps=64, evaluations=0, seeds=1) == 0
    assert "40 of 40 episodes of the last evaluation did not end and were cut off" in capsys.readouterr().out


def counting(spec, config: A2CConfig):
    """A2C that returns one more metric."""
    algo = a2c(spec, config)

    def update(agent, key, rollout):
        agent, metrics = algo.update(agent, key, rollout)
        return agent, metrics | {"my/number": agent.num_updates.astype(jnp.float32)}

    return algo._replace(update=update)


@pytest.mark.long
def test_a_metric_of_ones_own_reaches_the_rows_and_the_page(tmp_path, monkeypatch):
    entry = ALGORITHMS["a2c"]._replace(factory=f"{__name__}:counting")
    monkeypatch.setitem(ALGORITHMS, "counting", entry)
    flags = {"num_envs": 2, "rollout_length": 4, "hidden_sizes": (4,), "total_timesteps": 32, "log_interval": 1}
    assert opening.start(settings("counting", "Catch", flags | {"evaluations": 0}), tmp_path / "a", plain=True) == 0
    assert [float(row["my/number"]) for row in rows(tmp_path / "a")] == [1, 2, 3, 4]
    assert plot_run(tmp_path / "a", view=PlotView(metric="my/number")).name == "my-number.png"
    pictures = (tmp_path / "a" / "report.html").read_text().count("data:image/png")
    assert pictures == 2, "the curve, and the metrics"


@pytest.mark.long
def test_evaluations_are_reproducible(finished):
    table = rows(finished)
    evaluated = [row for row in table if row["evaluation_return"] != "nan"]
    assert [int(row["update"]) for row in evaluated] == [12, 12, 24, 24, 25, 25]
    summary = untimed(finished)
    assert summary["final_return"]["per_seed"] == [float(row["evaluation_return"]) for row in evaluated[-2:]]
    best = [max(float(row["evaluation_return"]) for row in evaluated if row["seed"] == seed) for seed in "01"]
    assert summary["best_return"]["per_seed"] == best
    found = trained_run.load_run(finished)
    played = trained_run.play(found, 40)
    assert played.episode_return.shape == (2, 40)
    np.testing.assert_allclose(played.episode_return.mean(axis=1), summary["final_return"]["per_seed"], rtol=1e-6)
    alone = evaluate(found.trainer, found.agent(1), jax.random.key(5), EVALUATION_BATCH)
    assert alone.episode_return.shape == (EVALUATION_BATCH,)


@pytest.mark.long
def test_the_same_bits_whatever_the_chunks(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "CHUNK_SECONDS", 0.0)
    assert start(tmp_path / "small", checkpoint_interval=0.0, keep_checkpoints=2) == 0
    assert_same_run(finished, tmp_path / "small")
    assert checkpoint.steps(tmp_path / "small" / "checkpoints") == [UPDATES - 1, UPDATES]


@pytest.mark.long_for("15")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed(finished, tmp_path, monkeypatch, capsys, number):
    strike(monkeypatch, 10, number)
    folder = tmp_path / "a"
    assert start(folder) == 128 + number
    assert f"purerl train --resume {folder}" in capsys.readouterr().out
    assert checkpoint.steps(folder / "checkpoints") == [10]
    assert not (folder / "summary.json").exists()
    monkeypatch.undo()
    assert opening.resume(folder, plain=True) == 0
    assert_same_run(finished, folder)
    assert opening.resume(folder, plain=True) == 0  # nothing to do
    assert "is complete" in capsys.readouterr().out


@pytest.mark.long
def test_a_failed_seed_stops_and_the_others_finish(tmp_path, capsys):
    flags = {"seeds": 8, "checkpoint_interval": 0.0}
    leaky = {"chance": 8e-4}
    assert start(tmp_path / "a", "tests.run.test_run:Leaky", leaky, **flags) == 0
    out = capsys.readouterr().out
    summary = untimed(tmp_path / "a")
    failed = {int(seed): told for seed, told in summary["failed"].items()}
    assert 0 < len(failed) < 8, "the chance should hit some seeds, not all"
    table = rows(tmp_path / "a")
    final, _ = checkpoint.load(
        tmp_path / "a" / "checkpoints",
        UPDATES,
        make_plan(settings("ppo", "tests.run.test_run:Leaky", FLAGS | flags, leaky)).shapes,
    )
    for seed in range(8):
        mine = [int(row["update"]) for row in table if int(row["seed"]) == seed]
        params = [np.asarray(leaf)[seed] for leaf in jax.tree.leaves(final.state.agent.params)]
        assert all(np.isfinite(leaf).all() for leaf in params), "a failed seed is kept as it was when it was good"
        if seed not in failed:
            assert mine[-1] == UPDATES
            continue
        at = int(final.failed_at[seed])
        assert f"seed {seed} failed at update {at}: the environment gave a reward that is not finite" in out
        assert mine == [u for u in (4, 8, 12, 16, 20, 24, 25) if u < at]
        assert summary["final_return"]["per_seed"][seed] is None
    assert all(row["value_loss"] != "nan" for row in table)


@pytest.mark.long
def test_every_seed_failed(tmp_path, capsys):
    assert start(tmp_path / "a", learning_rate=1e30, max_grad_norm=1e30) == 1
    out = capsys.readouterr().out
    assert "learning_rate may be too high" in out
    assert "every seed failed; no checkpoint had been saved yet" in out


@pytest.mark.long
def test_changed_numbers_are_told_and_taken(finished, tmp_path, capsys):
    changes = {"\ntotal_timesteps = 800\n": "\ntotal_timesteps = 864\n", "gravity = 9.8": "gravity = 12.0"}
    folder = edited(finished, tmp_path / "a", changes)
    assert opening.resume(folder, plain=True, devices=1) == 0
    out = capsys.readouterr().out
    assert f"changed in {folder}/config.toml: total_timesteps 864 (was 800), env.gravity 12.0 (was 9.8)\n" in out
    assert int(rows(folder)[-1]["update"]) == 27
    assert opening.resume(folder, plain=True) == 0
    assert "changed in" not in capsys.readouterr().out


@pytest.mark.long
def test_members_that_fill_the_mesh_go_on_as_well(tmp_path, monkeypatch):
    """Three seeds on two devices: the fourth member of a checkpoint is the same after a resume."""
    flags = {"seeds": 3, "total_timesteps": 32 * 4, "evaluations": 0, "eval_episodes": 4, "devices": 2}
    assert start(tmp_path / "whole", **flags) == 0
    monkeypatch.setattr(run, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(run.Run, "_record_failures", lambda self, *_: os.kill(os.getpid(), signal.SIGTERM))
    assert start(tmp_path / "a", **flags) == 143
    monkeypatch.undo()
    assert opening.resume(tmp_path / "a", plain=True) == 0
    shapes = make_plan(settings("ppo", "CartPole-v1", FLAGS | flags, {})).shapes
    trees = [checkpoint.load(tmp_path / name / "checkpoints", 4, shapes)[0] for name in ("whole", "a")]
    raw = lambda x: np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)
    for a, b in zip(*map(jax.tree.leaves, trees), strict=True):
        assert raw(a).tobytes() == raw(b).tobytes()


@pytest.mark.long
def test_damaged_results_are_told_and_written_again(finished, tmp_path, capsys):
    folder = tmp_path / "a"
    shutil.copytree(finished, folder)
    (folder / "summary.json").write_text("[]")
    lines = (folder / "metrics.csv").read_bytes().splitlines(keepends=True)
    (folder / "metrics.csv").write_bytes(b"".join([*lines[:4], b"0,abc\n", *lines[5:]]))
    assert opening.resume(folder, plain=True) == 0
    out = capsys.readouterr().out
    assert f"{folder}/metrics.csv has lost 1 of 14 rows up to update 25: 1 damaged lines" in out
    assert len(rows(folder)) == 13 and untimed(folder)["final_return"] == untimed(finished)["final_return"]
    assert opening.resume(folder, plain=True) == 0
    assert "is complete" in capsys.readouterr().out


@pytest.mark.long
def test_a_run_that_ends_while_it_draws_is_not_complete(finished, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "a"
    shutil.copytree(finished, folder)
    for name in ("summary.json", "curve.png"):
        (folder / name).unlink()

    def fail(*_):
        raise OSError(28, "disk full", "curve.png")

    monkeypatch.setattr(plot, "save", fail)
    assert opening.resume(folder, plain=True) == 1
    monkeypatch.undo()
    assert opening.resume(folder, plain=True) == 0
    assert (folder / "curve.png").exists() and "is complete" not in capsys.readouterr().out


@pytest.mark.long
def test_results_are_not_written_through_links(finished, tmp_path):
    folder, other = tmp_path / "a", tmp_path / "other"
    shutil.copytree(finished, folder)
    other.write_text("precious")
    for name in ("summary.json", "summary.json.part", "summary.part.json", "curve.png", "metrics.part.csv"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(other)
    other.write_text("precious")
    assert opening.resume(folder, plain=True) == 0
    assert other.read_text() == "precious"
    assert untimed(folder) == untimed(finished) and (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
