"""Atari games on the host."""

import importlib.util

import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.errors import InputError

pytestmark = pytest.mark.suites

ATARI = [
    pytest.param(name, marks=pytest.mark.skipif(not importlib.util.find_spec(package), reason=f"{package} missing"))
    for name, package in (("envpool/Breakout-v5", "envpool"), ("ale/Breakout-v5", "ale_py"))
]


@pytest.mark.parametrize("name", ATARI)
def test_atari(name):
    source = purerl.make(name, preprocessing="2015", frame_skip=4)
    assert source.observation_space.shape == (84, 84, 4) and source.action_space.n == 4
    assert source.parameters["episodic_life"] and source.parameters["repeat_action_probability"] == 0.0
    assert purerl.make(name).action_space.n == 18
    env = source.open(2, seed=0, parallel=True)
    seen = env.reset(None)
    assert seen.shape == (2, 4, 84, 84) and source.prepare(jnp.asarray(seen)).shape == (2, 84, 84, 4)
    lost_a_life, games, rng = 0, 0, np.random.default_rng(0)
    for _ in range(900):
        step = env.step(rng.integers(0, 4, 2).astype(np.int32), None, 0)
        assert (np.abs(step.reward) <= 1).all() and (step.reward == np.sign(step.score)).all()
        began = ~step.mask
        began |= step.terminated & ~step.over  # the first frame stands for those before it, as a replay takes it
        assert (step.observation[began] == step.observation[began][:, -1:]).all()
        lost_a_life += int((step.terminated & ~step.over).sum())
        games += int(step.over.sum())
    env.close()
    assert games >= 1 and 4 * games <= lost_a_life <= 4 * games + 8  # five lives: four end one for learning alone
    small = purerl.make(name, screen_size=42)
    whole = small.open(1, seed=0, parallel=False, evaluation=True)
    assert small.prepare(jnp.asarray(whole.reset(None))).shape[1:] == small.observation_space.shape == (42, 42, 4)
    assert not any(
        s.terminated[0] and not s.over[0] for s in (whole.step(np.array([1], np.int32), None, 0) for _ in range(100))
    )
    whole.close()


@pytest.mark.parametrize("name", ATARI)
def test_bad_games(name):
    suite = name.split("/")[0]
    with pytest.raises(InputError, match="did you mean 'Breakout-v5'"):
        purerl.make(f"{suite}/Breakot-v5")
    with pytest.raises(InputError, match="did you mean 'frame_skip'"):
        purerl.make(name, frame_skp=4)
    with pytest.raises(InputError, match="allowed: 2015, 2018"):
        purerl.make(name, preprocessing="2016")


def test_a_game_for_several_players_is_refused():
    """ale-py ends the process where such a ROM is loaded for one."""
    pytest.importorskip("ale_py", reason="pip install 'purerl[atari]'")
    assert "ale/Combat-v5" not in purerl.registry.names("ale") and "ale/Pong-v5" in purerl.registry.names("ale")
    with pytest.raises(InputError, match=r"^ale/Combat-v5 is for several players"):
        purerl.make("ale/Combat-v5")


def test_what_envpool_cannot_load_is_told_in_a_line():
    """Its Procgen needs a library of the system."""
    pytest.importorskip("envpool", reason="pip install 'purerl[envpool]'")
    try:
        assert purerl.make("envpool/BigfishEasy-v0").action_space.n == 15
    except InputError as error:
        assert str(error).startswith("envpool/BigfishEasy-v0 cannot be made: EnvPool Procgen requires")
