"""purerl play: an episode as text or as an animation, and bad input reported in one line."""

import jax.numpy as jnp
import pytest
from PIL import Image

from purerl.commands import cli


def right(key, observation):
    """A scripted policy: always push right."""
    return jnp.int32(1)


def run(*words):
    with pytest.raises(SystemExit) as caught:
        cli.main(["play", *words])
    return caught.value.code


def test_text_and_animation_of_a_scripted_policy(tmp_path, capsys):
    gif = tmp_path / "episode.gif"
    assert run("CartPole-v1", "--policy", "tests.commands.test_play:right", "--terminal", "--gif", str(gif)) == 0
    out = capsys.readouterr().out
    steps = int(out.rsplit(" in ", 1)[1].split()[0])
    assert 7 <= steps <= 12  # pushed one way only, the pole falls within some ten steps
    assert f"return {steps} in {steps} steps" in out
    assert out.count("time ") == steps + 1
    with Image.open(gif) as image:
        assert image.n_frames > 1


def test_a_long_episode_is_cut_off_and_says_so(capsys):
    assert run("Pendulum-v1", "--terminal", "--max-steps", "5") == 0
    assert "cut off after 5 steps" in capsys.readouterr().out


@pytest.mark.long
def test_a_run_is_played_with_its_own_parameters(tmp_path, capsys):
    folder = str(tmp_path / "run")
    words = ["--num-envs", "1", "--hidden-sizes", "4", "--total-timesteps", "10", "--env.rows", "5"]
    with pytest.raises(SystemExit) as caught:
        cli.main(["train", "a2c", "Catch", *words, "--out", folder, "--plain"])
    assert caught.value.code == 0
    capsys.readouterr()
    assert run("Catch", "--policy", folder, "--terminal") == 0
    assert " in 4 steps" in capsys.readouterr().out
    assert run("CartPole-v1", "--policy", folder, "--terminal") == 2
    assert "trained on Catch, which has different spaces" in capsys.readouterr().err


@pytest.mark.long
def test_a_person_plays(capsys, monkeypatch):
    said = iter(["x9", "a1", "b1", "c1", *(f"{column}{row}" for row in (2, 3) for column in "abc")] * 2)
    monkeypatch.setattr("builtins.input", lambda prompt: next(said))
    assert run("pgx/tic_tac_toe", "--against", "random", "--seed", "3") == 0
    out = capsys.readouterr().out
    assert out.startswith("you are ") and "'x9' is not a legal move; legal: a1, b1, c1" in out
    assert out.splitlines()[-1].rpartition(" in ")[0] in ("you win", "you lose", "a draw")


@pytest.mark.long
def test_a_person_leaves(capsys, monkeypatch):
    def gone(prompt):
        raise EOFError

    monkeypatch.setattr("builtins.input", gone)
    assert run("pgx/tic_tac_toe", "--against", "random", "--seat", "second") == 0
    assert capsys.readouterr().out.endswith("left after 1 moves\n")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("CartPole-v1",), "--gif FILE, --terminal or --against PLAYER"),
        (("CartPole-v1", "--against", "random"), "is not one: it has one agent"),
        (("MatrixGame", "--against", "random"), "is not one: the agents of MatrixGame act at the same time"),
        (("pgx/kuhn_poker", "--against", "random"), "is not one: it has no board that is drawn as text"),
        (("pgx/tic_tac_toe", "--against", "lookahed"), "did you mean 'lookahead'"),
        (
            ("pgx/tic_tac_toe", "--against", "random", "--terminal"),
            "it cannot be combined with --policy, --gif or --terminal",
        ),
        (("pgx/tic_tac_toe", "--seat", "second", "--terminal"), "--seat only works with --against"),
        (("CartPol-v1", "--terminal"), "CartPole-v1"),
        (
            ("CartPole-v1", "--terminal", "--policy", "nope"),
            "random, a run's folder, an agent's file, zoo/NAME, module:function",
        ),
        (("CartPole-v1", "--terminal", "--policy", "nope:f"), "no module 'nope'"),
        (("CartPole-v1", "--gif", "/proc/nowhere/x.gif"), "/proc/nowhere/x.gif"),
    ],
)
def test_bad_input(words, part, capsys):
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert part in error and error.count("\n") == 1
