"""Levels as ranges of number fields: sampled uniformly, mutated within bounds, and an error if there are none."""

import jax
import numpy as np
import pytest
from scipy import stats

from purerl.algos.ppo import PPOConfig
from purerl.envs.bsuite.catch import Catch
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.grid.maze import Maze
from purerl.errors import InputError
from purerl.extensions.levels.space import held_out, level_space, on_level

OVER = ("gravity=5:15", "pole_half_length=0.1:10:log", "time_limit=3:6")


def test_ranges_are_drawn_evenly(key):
    space = level_space(CartPole(), OVER, PPOConfig())
    levels = jax.tree.map(np.asarray, jax.jit(jax.vmap(space.draw))(jax.random.split(key, 4000)))
    assert stats.kstest(levels["gravity"], stats.uniform(5, 10).cdf).pvalue > 0.001
    assert stats.kstest(np.log10(levels["pole_half_length"]), stats.uniform(-1, 2).cdf).pvalue > 0.001
    assert levels["time_limit"].dtype == np.int32
    assert stats.chisquare(np.bincount(levels["time_limit"])[3:]).pvalue > 0.001 and levels["time_limit"].max() == 6


def test_a_mutation_moves_one_number_within_its_range(key):
    space = level_space(CartPole(), OVER, PPOConfig())
    levels = jax.vmap(space.draw)(jax.random.split(key, 3000))
    mutated = jax.jit(jax.vmap(space.mutate))(jax.random.split(jax.random.fold_in(key, 1), 3000), levels)
    before, after = (jax.tree.map(np.asarray, x) for x in (levels, mutated))
    changed = np.stack([before[name] != after[name] for name in ("gravity", "pole_half_length", "time_limit")])
    assert np.all(changed.sum(axis=0) <= 1) and changed.mean(axis=1).min() > 0.15
    assert after["gravity"].min() >= 5 and after["gravity"].max() <= 15
    assert after["pole_half_length"].min() >= 0.0999 and after["pole_half_length"].max() <= 10.001
    assert after["time_limit"].min() == 3 and after["time_limit"].max() == 6
    step = (after["gravity"] - before["gravity"])[changed[0]] / 10
    assert 0.07 < step.std() < 0.12


def test_an_environment_on_a_level(key):
    level = level_space(CartPole(), OVER, PPOConfig()).draw(key)
    env = on_level(CartPole(), level)
    assert env.gravity is level["gravity"] and env.pole_mass == CartPole().pole_mass
    assert set(held_out(Maze())) == set(Maze().held_out_levels()) and held_out(CartPole()) == {}


@pytest.mark.long_for("env7-over7-unknown number of Catch 'rows'")
@pytest.mark.parametrize(
    ("env", "over", "message"),
    [
        (CartPole(), (), "CartPole does not define levels of its own: give levels_over, such as"),
        (CartPole(), ("gravitu=1:2",), "unknown number of CartPole 'gravitu': did you mean 'gravity'"),
        (CartPole(), ("gravity",), "levels_over gravity: it must be NAME="),
        (CartPole(), ("gravity=1,2",), "levels_over gravity=1,2: it must be"),
        (CartPole(), ("gravity=2:1",), "empty"),
        (CartPole(), ("time_limit=0:5",), "time_limit is 0; it must be at least 1"),
        (Maze(), ("walls=0:1",), "unknown number of Maze 'walls'"),
        (Catch(), ("rows=3:5",), "unknown number of Catch 'rows'"),
    ],
)
def test_bad_ranges(env, over, message):
    with pytest.raises(InputError) as error:
        level_space(env, over, PPOConfig())
    assert message in str(error.value) and "\n" not in str(error.value)
