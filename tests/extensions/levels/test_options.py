"""Settings of levels: fields that a config takes on, from files and flags."""

import dataclasses

import jax
import pytest

from purerl.algos.ppo import PPOConfig
from purerl.errors import InputError
from purerl.extensions.levels.options import LevelSettings, check, leveled, with_level_settings
from purerl.fields import is_static
from purerl.settings.runs import dump, settings


def test_a_config_with_levels_is_still_one_of_its_class():
    config = leveled(PPOConfig(learning_rate=0.1), levels="plr", levels_temperature=0.7)
    assert isinstance(config, PPOConfig) and isinstance(config, LevelSettings)
    assert (config.learning_rate, config.levels_temperature, config.levels_capacity) == (0.1, 0.7, 4000)
    assert config.samples_per_gradient == PPOConfig().samples_per_gradient
    assert with_level_settings(type(config)) is type(config) is with_level_settings(PPOConfig)
    with pytest.raises(InputError, match="unknown field of PPOConfig 'levels_temprature': did you mean"):
        leveled(PPOConfig(), levels_temprature=0.7)


def test_numbers_are_leaves_and_shapes_are_not():
    numbers = {f.name for f in dataclasses.fields(LevelSettings) if not is_static(f)}
    assert numbers == {
        *("levels_minimum_fill", "levels_replay_probability", "levels_temperature", "levels_staleness"),
        "levels_mutations",
    }
    one, other = (leveled(PPOConfig(), levels="plr", levels_temperature=x) for x in (0.5, 0.6))
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert jax.tree.structure(one) != jax.tree.structure(leveled(PPOConfig(), levels="accel"))
    assert all(f.metadata["doc"] for f in dataclasses.fields(LevelSettings))


def test_layers_of_settings(tmp_path):
    """configs/ < a file < flags; a run's file says all of it again."""
    assert settings("ppo", "Maze", {}).config.levels == "dr"
    run = settings("ppo", "Maze", {"levels": "accel", "levels_over": "time_limit=5:9"})
    assert run.config.levels == "accel" and run.config.levels_over == ("time_limit=5:9",)
    file = tmp_path / "config.toml"
    from purerl.registry import make

    file.write_text(dump(run, make("Maze")))
    again = settings(None, None, {"levels_temperature": 2}, {}, file)
    assert again.config == dataclasses.replace(run.config, levels_temperature=2)
    assert not isinstance(settings("ppo", "CartPole-v1", {}).config, LevelSettings), "as it was without levels"


def test_without_levels():
    """Those of a run's file or of configs/ go with them; those of the user must have a use."""
    run = settings("ppo", "Maze", {"levels": "none"})
    assert (
        run.config == leveled(PPOConfig(**_plain(run.config)))
        and run.config.rnn == settings("ppo", "Maze", {}).config.rnn
    )
    with pytest.raises(InputError, match="levels_staleness is of levels: give levels too, allowed: dr, plr"):
        settings("ppo", "CartPole-v1", {"levels_staleness": 0.5})
    with pytest.raises(InputError, match="levels_temperature is of levels"):
        settings("ppo", "Maze", {"levels": "none", "levels_temperature": 0.5})


def _plain(config):
    return {f.name: getattr(config, f.name) for f in dataclasses.fields(PPOConfig)}


def test_check():
    check(PPOConfig())
    check(leveled(PPOConfig()))
    check(leveled(PPOConfig(), levels="dr", levels_capacity=1))
    with pytest.raises(InputError, match="levels_capacity is 3; it must be at least num_envs 4"):
        check(leveled(PPOConfig(), levels="plr", levels_capacity=3))
