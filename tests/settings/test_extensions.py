"""Options of extensions among the settings of a run, those of a user's extension included."""

import contextvars
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import purerl
from purerl import trust
from purerl.errors import InputError
from purerl.run.plan import made
from purerl.settings.extensions import rows, wraps
from purerl.settings.runs import dump, settings

OWN = Path(__file__).parent.parent.parent / "docs" / "own"
SMALL = {"num_envs": 2, "rollout_length": 4, "hidden_sizes": (4,), "total_timesteps": 160, "evaluations": 1}
SMALL |= {"eval_episodes": 4, "log_interval": 1, "extension": "novelty:novelty"}


@pytest.fixture(autouse=True)
def own(monkeypatch):
    """The module is found, but not trusted."""
    monkeypatch.syspath_prepend(OWN)
    yield
    sys.modules.pop("novelty", None)


def trusting(function, *args):
    """Call a function that may import all modules, and let no later one."""

    def call():
        with trust.trusting(True):
            return function(*args)

    return contextvars.copy_context().run(call)


def test_options_are_read_and_written(tmp_path):
    run = trusting(settings, "a2c", "CartPole-v1", SMALL | {"novelty": 0.5})
    options = run.extension_options["novelty"]
    assert (options.novelty, options.novelty_bits) == (0.5, 8) and made(run).extensions[0].name == "novelty"
    file = tmp_path / "config.toml"
    file.write_text(dump(run, purerl.make("CartPole-v1")))
    with pytest.raises(InputError, match="names novelty:novelty, which is code in the module novelty: add --trust"):
        settings(None, None, {}, {}, file)
    with trust.trusting(True):
        again = settings(None, None, {"novelty_bits": 4}, {}, file)
    assert again.extension_options["novelty"].novelty_bits == 4 and again.extension_options["novelty"].novelty == 0.5


@pytest.mark.long
def test_an_extension_of_a_user_trains_resumes_to_the_same_bits_and_is_swept(tmp_path):
    flags = SMALL | {"novelty": 0.5}
    half = flags | {"total_timesteps": 80, "learning_rate_schedule": "constant"}
    purerl.train("a2c", "CartPole-v1", out=tmp_path / "half", display="none", **half)
    resumed = purerl.resume(tmp_path / "half", total_timesteps=160, display="none", trust=True)
    straight = flags | {"learning_rate_schedule": "constant"}
    other = purerl.train("a2c", "CartPole-v1", out=tmp_path / "straight", display="none", **straight)
    assert "info/bonus" in other.metrics
    jax.tree.map(np.testing.assert_array_equal, resumed.agent(0).params, other.agent(0).params)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"novelty_bits": 4}, "novelty_bits is an option of novelty, which this run does not use: also give novelty"),
        ({"novelty": -1.0}, "novelty: novelty is -1.0; it must be at least 0"),
        ({"noveltie": 1.0}, "unknown setting 'noveltie': did you mean 'novelty'"),
        ({"extension": "novelty:Novelty"}, "novelty:Novelty is the class Novelty; it must be a purerl.Extension"),
        ({"extension": "novelty:novelti"}, "unknown name in novelty 'novelti'"),
    ],
)
def test_what_cannot_be(flags, message):
    with pytest.raises(InputError, match=message):
        made(trusting(settings, "a2c", "CartPole-v1", SMALL | flags))


def test_names_of_options_are_their_own():
    twice = ("novelty:novelty", "novelty:novelty")
    with pytest.raises(InputError, match="extension novelty has the option novelty, as novelty has: rename it"):
        trusting(rows, twice)


@pytest.mark.long
def test_wraps_are_those_in_use():
    from purerl.algos.a2c import A2CConfig

    env, config = purerl.make("CartPole-v1"), A2CConfig()
    assert wraps(env, config) == []
    assert len(wraps(purerl.make("CoinGame"), config)) == 1
    with pytest.raises(InputError, match="unknown extension 'level': did you mean 'levels'"):
        wraps(env, config, {"level": None})
