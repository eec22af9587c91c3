"""`purerl evolve` from the outside: it runs, is killed, resumes to bit-identical results, and shows what it found."""

import json
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from purerl import evolve
from purerl.commands.cli import cli
from purerl.errors import InputError
from purerl.evolution import job
from purerl.evolution.evolve import load
from purerl.run import checkpoint
from purerl.settings import objective_file
from tests.helpers.evolutions import FLAGS


def center(folder):
    return jax.tree.leaves(load(folder).candidate)


@pytest.mark.long
def test_a_whole_evolution(whole):
    folder, output = whole
    assert "generation     8" in output and "left" in output and "done: mean auc" in output
    lines = (folder / "generations.csv").read_text().splitlines()
    assert len(lines) == 9 and lines[0].startswith("generation,env_steps,wall_seconds,sigma,mean,best,spread,failed")
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["training_runs"] == 32 and summary["env_steps"] == 32 * 256
    found = load(folder)
    assert found.generation == 8 and [at for at, _ in found.frames] == [*range(8), 8]
    assert float(found.first.drift.coefficient) == 1.0 != float(found.candidate.drift.coefficient)
    assert objective_file.load(str(folder)).objective.drift.coefficient == found.candidate.drift.coefficient


@pytest.mark.long
def test_the_report_shows_what_was_found(whole):
    """What its pictures show is tested in test_report."""
    folder, _ = whole
    with Image.open(folder / "report" / "evolution.gif") as image:
        assert image.n_frames == 9
    assert "(r - 1 - log r)" in (folder / "report" / "index.html").read_text()


def test_killed_and_resumed_gives_the_same_bits(whole, tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "purerl", "evolve", "kl", *FLAGS, "--generations", "8", "--out", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not checkpoint.steps(folder / "checkpoints") and time.monotonic() < until and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    began = checkpoint.steps(folder / "checkpoints")
    assert began and not (folder / "summary.json").exists(), "it was not killed on its way"
    again = CliRunner().invoke(cli, ["evolve", "--resume", str(folder), "--plain"])
    assert again.exit_code == 0, again.output
    for mine, theirs in zip(center(folder), center(whole[0]), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    columns = [np.genfromtxt(run / "generations.csv", delimiter=",", names=True) for run in (folder, whole[0])]
    for name in ("generation", "mean", "best", "sigma"):
        np.testing.assert_array_equal(columns[0][name], columns[1][name])


def cut_and_resumed(folder, arguments, generations, cut):
    """Run `purerl evolve` for `cut` generations, then make it longer and resume it; an older text has fewer options."""
    invoke = lambda *words: CliRunner().invoke(cli, ["evolve", *words, "--plain"], catch_exceptions=False)
    assert invoke(*arguments, "--generations", str(cut), "--out", str(folder)).exit_code == 0
    settings = folder / "evolve.toml"
    settings.write_text(settings.read_text().replace(f"generations = {cut}", f"generations = {generations}"))
    result = invoke("--resume", str(folder))
    assert result.exit_code == 0, result.output


@pytest.mark.long
def test_an_evolution_by_cma_es_resumes_to_the_same_bits(tmp_path):
    arguments = ["dpo", *FLAGS[:-5], "--sigma", "0.5", "--strategy", "cma_es", "--devices", "1"]
    whole = tmp_path / "whole"
    result = CliRunner().invoke(cli, ["evolve", *arguments, "--generations", "4", "--plain", "--out", str(whole)])
    assert result.exit_code == 0, result.output
    cut_and_resumed(tmp_path / "cut", arguments, 4, cut=2)
    for mine, theirs in zip(center(tmp_path / "cut"), center(whole), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    found = load(whole)
    assert not np.array_equal(found.candidate.drift.alpha, found.first.drift.alpha)


@pytest.mark.long
def test_meta_gradients_resume_to_the_same_bits(tmp_path):
    """Agents in the middle of their lives included: their states are part of the checkpoint."""
    arguments = [
        "lpg", "--method", "meta-gradient", "--tasks", "Catch", "--population", "2", "--inner-updates", "2",
        "--num-envs", "2", "--rollout-length", "9", "--hidden-sizes", "4,", "--total-timesteps", "180",
        "--checkpoint-generations", "3", "--devices", "1",
    ]  # fmt: skip
    whole = tmp_path / "whole"
    result = CliRunner().invoke(cli, ["evolve", *arguments, "--generations", "6", "--plain", "--out", str(whole)])
    assert result.exit_code == 0, result.output
    assert "evolving lpg on Catch: 2 agents x 6 generations" in result.output and "done: mean return" in result.output
    header = (whole / "generations.csv").read_text().splitlines()[0]
    assert header.startswith("generation,env_steps,wall_seconds,gradient_norm,outer_loss,progress,mean,best,")
    assert json.loads((whole / "summary.json").read_text())["env_steps"] == 6 * 2 * (2 + 1) * 18
    cut_and_resumed(tmp_path / "cut", arguments, 6, cut=3)
    for mine, theirs in zip(center(tmp_path / "cut"), center(whole), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    found = load(whole)
    assert any(
        np.any(now != then) for now, then in zip(*map(jax.tree.leaves, (found.candidate, found.first)), strict=True)
    )


@pytest.mark.long
def test_an_evolution_that_ends_while_it_draws_is_not_complete(whole, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    shutil.rmtree(folder / "report")
    (folder / "summary.json").unlink()

    def fail(*_):
        (folder / "report").mkdir()
        (folder / "report" / ".fitness.png.0123456789abcdef.part").touch()
        raise OSError(28, "disk full", "index.html")

    resume = ["evolve", "--resume", str(folder), "--plain"]
    monkeypatch.setattr(job, "write_report", fail)
    assert "cannot write index.html: disk full\nthe last checkpoint is kept" in CliRunner().invoke(cli, resume).output
    monkeypatch.undo()
    assert CliRunner().invoke(cli, resume).exit_code == 0
    names = lambda top: {path.name for path in (top / "report").iterdir()}
    assert names(folder) == names(whole[0])


@pytest.mark.long
def test_from_python(tmp_path, capsys):
    from purerl.algos.ppo import PPOConfig, ppo
    from purerl.evolution.inner_loop import Plug, Task
    from purerl.evolution.strategies import SNES
    from purerl.functional.drifts import KLPenalty
    from purerl.functional.objectives import Drifting
    from purerl.registry import make

    config = PPOConfig(
        num_envs=4, rollout_length=16, num_minibatches=2, num_epochs=2, hidden_sizes=(8,), learning_rate=0.05
    )
    tasks = [Task("CartPole-v1", make("CartPole-v1"), config, 128), Task("Catch", make("Catch"), config, 128)]
    start = Drifting(drift=KLPenalty(coefficient=np.float32(1.0)))
    strategy = SNES(population=4, start_sigma=0.5)
    folder = tmp_path / "run"
    settings = {"strategy": strategy, "generations": 2, "frames": 2, "out": folder, "display": "plain"}
    found = evolve(start, Plug(ppo, "objective"), tasks, **settings)
    assert found.generation == 2 and {"mean/CartPole-v1", "mean/Catch"} < found.columns.keys()
    assert float(found.candidate.drift.coefficient) != 1.0

    for read in (
        load,
        lambda folder: CliRunner().invoke(cli, ["evolve", "--resume", str(folder)], catch_exceptions=False),
    ):
        with pytest.raises(InputError, match=r"made in Python .* purerl.evolve\(..., out='.*run', resume=True\)$"):
            read(folder)
    again = evolve(start, Plug(ppo, "objective"), tasks, **settings | {"resume": True})
    assert again.plan.algorithm == "ppo" and "is complete: 2 generations" in capsys.readouterr().out
    np.testing.assert_array_equal(again.candidate.drift.coefficient, found.candidate.drift.coefficient)
    with pytest.raises(InputError, match="holds another evolution: it has 'generations = 2' where this one has"):
        evolve(start, Plug(ppo, "objective"), tasks, **settings | {"generations": 3, "resume": True})


@pytest.mark.long
def test_minutes_shorter_than_the_compilation_give_one_generation(tmp_path):
    folder = tmp_path / "short"
    flags = [*FLAGS, "--generations", "8", "--minutes", "0.0001", "--out", str(folder)]
    result = CliRunner().invoke(cli, ["evolve", "kl", *flags])
    assert result.exit_code == 0, result.output
    assert json.loads((folder / "summary.json").read_text())["generations"] == 1
