"""Settings: text and TOML to a typed config, and back to the same."""

import dataclasses
import tomllib

import pytest

from purerl import InputError, make
from purerl.settings.runs import Settings, defaults, defaults_path, dump, settings


def test_later_layers_win(tmp_path, monkeypatch):
    tuned = tmp_path / "tuned.toml"
    tuned.write_text("learning_rate = 1e-3\nnum_envs = 8\nclip_epsilon = 0.3\nenv.gravity = 11\nseeds = 2\n")
    monkeypatch.setattr("purerl.settings.runs.defaults_path", lambda algorithm, environment: tuned)
    file = tmp_path / "mine.toml"
    file.write_text('num_envs = 16\nclip_epsilon = 0.1\nvalue_clip = "none"\n[env]\nforce = 5\n')
    run = settings("ppo", "CartPole-v1", {"clip_epsilon": 0.4, "seed": 7}, {"force": 6}, file)
    assert run.config.learning_rate == 1e-3  # from configs/
    assert run.config.num_envs == 16  # the file over configs/
    assert run.config.clip_epsilon == 0.4  # the flag over the file
    assert run.config.value_clip is None
    assert run.config.gae_lambda == 0.95  # the default
    assert run.parameters == {"gravity": 11.0, "force": 6.0}
    assert (run.options.seed, run.options.seeds) == (7, 2)


def test_config_toml_is_complete_and_gives_the_same_run(tmp_path):
    flags = {"hidden_sizes": (32, 16), "target_kl": 0.02, "value_clip": None, "seeds": 3, "total_timesteps": 1e6}
    run = settings("ppo", "CartPole-v1", flags, {"gravity": 12})
    env = make(run.environment, **run.parameters)
    file = tmp_path / "config.toml"
    file.write_text(dump(run, env))
    table = tomllib.loads(file.read_text())
    for field in dataclasses.fields(run.config):
        assert field.name in table
    assert table["env"] == {field.name: getattr(env, field.name) for field in dataclasses.fields(env)}
    again = settings(None, None, {}, {}, file)
    assert isinstance(again, Settings)
    assert (again.algorithm, again.environment, again.options) == (run.algorithm, run.environment, run.options)
    assert again.config == run.config
    assert make(again.environment, **again.parameters) == env
    assert dump(again, env) == dump(run, env)


def test_a_suites_environment_has_a_file_name():
    assert defaults_path("ppo", "gymnax/Breakout-MinAtar").name == "gymnax-Breakout-MinAtar.toml"
    assert defaults_path("ppo", "CartPole-v1").parent.name == "ppo"


@pytest.mark.long_for("checkpoint_interval = nan-checkpoint_interval is nan")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("learning_rate = ", "is not a TOML file"),
        ("learning_rat = 1", "unknown setting .*did you mean 'learning_rate'"),
        ("learning_rate = 'high'", "learning_rate is 'high'; it must be: number"),
        ("num_envs = 2.5", "num_envs is 2.5; it must be: integer"),
        ("format = 99\nversion = '9.0'", "format 99, written by purerl 9.0"),
        ("algorithm = 'dqn'", "is for the algorithm dqn, not ppo"),
        ("environment = 'Catch'", "is for the environment Catch, not CartPole-v1"),
        ("env = 3", "env is 3; it must be a table"),
        ("env.gravitas = 3", "unknown parameter of CartPole-v1 'gravitas': did you mean 'gravity'"),
        ("seeds = 0", "seeds is 0; it must be at least 1"),
        ("checkpoint_interval = nan", "checkpoint_interval is nan"),
    ],
)
def test_bad_files(tmp_path, content, message):
    file = tmp_path / "x.toml"
    file.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        settings("ppo", "CartPole-v1", {}, {}, file)
    assert "\n" not in str(caught.value)


def test_defaults_are_those_of_a_run_without_flags():
    found = defaults({"algorithm": "ppo", "environment": "CartPole-v1"})
    assert found["discount"] == 0.99 and found["env.gravity"] == 9.8 and found["seeds"] == 1
    assert "env.gravity" not in defaults({"algorithm": "ppo", "environment": "brax/ant"})
    assert defaults({"algorithm": "mine:algorithm", "environment": "CartPole-v1"}) == {}
