"""Options of levels: what they are, and where they come from."""

import dataclasses

import jax
import pytest

from purerl.errors import InputError
from purerl.extensions.levels.options import LevelOptions, check
from purerl.fields import is_static
from purerl.registry import make
from purerl.run.plan import made
from purerl.settings.runs import dump, settings


def test_numbers_are_leaves_and_shapes_are_not():
    numbers = {f.name for f in dataclasses.fields(LevelOptions) if not is_static(f)}
    assert numbers == {
        *("levels_minimum_fill", "levels_replay_probability", "levels_temperature", "levels_staleness"),
        "levels_mutations",
    }
    one, other = (LevelOptions(levels="plr", levels_temperature=x) for x in (0.5, 0.6))
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert jax.tree.structure(one) != jax.tree.structure(LevelOptions(levels="accel"))
    assert all(f.metadata["doc"] for f in dataclasses.fields(LevelOptions))


def test_layers_of_settings(tmp_path):
    """configs/ < a file < flags; a run's file says all of it again."""
    assert settings("ppo", "Maze", {}).extension_options["levels"].levels == "dr"
    run = settings("ppo", "Maze", {"levels": "accel", "levels_over": "time_limit=5:9"})
    options = run.extension_options["levels"]
    assert options.levels == "accel" and options.levels_over == ("time_limit=5:9",)
    file = tmp_path / "config.toml"
    file.write_text(dump(run, make("Maze")))
    again = settings(None, None, {"levels_temperature": 2}, {}, file)
    assert again.extension_options["levels"] == dataclasses.replace(options, levels_temperature=2)
    assert again.config == run.config and "levels" not in settings("ppo", "CartPole-v1", {}).extension_options


def test_without_levels():
    """Options of a run's file or of configs/ are not used; those of the user must have a use."""
    run = settings("ppo", "Maze", {"levels": "none"})
    assert made(run).extensions == () and run.config == settings("ppo", "Maze", {}).config
    assert [row.name for row in made(settings("ppo", "Maze", {})).extensions] == ["levels"]
    for name, flags in (("CartPole-v1", {}), ("Maze", {"levels": "none"})):
        with pytest.raises(InputError, match=r"levels_staleness is an option of levels, .*: also give levels"):
            made(settings("ppo", name, flags | {"levels_staleness": 0.5}))


@pytest.mark.long
def test_check():
    check(LevelOptions(), 4)
    check(LevelOptions(levels="dr", levels_capacity=1), 4)
    with pytest.raises(InputError, match="levels_capacity is 3; it must be at least num_envs 4"):
        check(LevelOptions(levels="plr", levels_capacity=3), 4)
