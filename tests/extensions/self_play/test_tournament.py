"""A tournament whose winners are known: policies that always defect against policies that never do."""

import contextlib
import csv
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.alphazero import AlphaZeroConfig, alphazero
from purerl.envs.games.matrix_game import MatrixGame
from purerl.extensions.self_play import tournament
from purerl.extensions.self_play.search_play import SearchPlayConfig
from purerl.extensions.self_play.self_play import SELF, alone, self_play, self_play_config
from purerl.loop.train import make_trainer
from purerl.networks.actor_critic import PolicyAgent
from purerl.run.failures import FailedSeeds
from purerl.types import Algorithm
from tests.helpers.nim import Nim

CONFIG = A2CConfig(num_envs=8, rollout_length=4, hidden_sizes=(4,), total_timesteps=32 * 8)


@pytest.fixture(scope="module")
def agent():
    """Two past policies that cooperate and a learner that defects, whatever they see."""
    trainer = make_trainer(self_play, MatrixGame(), self_play_config(a2c, CONFIG, 2))
    agent = jax.jit(trainer.init)(jax.random.key(0)).agent

    def always(action, params):
        flat = jax.tree.map(lambda x: 0 * x, params)
        return flat | {"actor": flat["actor"] | {"bias": flat["actor"]["bias"].at[..., action].set(50.0)}}

    learner, pool = agent.learner[SELF], agent.pool[SELF]
    return agent._replace(
        kept_at=jnp.array([0, 4]),
        num_updates=jnp.int32(6),  # it ended early
        learner={SELF: learner._replace(params=always(1, learner.params))},
        pool={SELF: pool._replace(params=always(0, pool.params))},
    )


def test_points_by_hand(agent):
    """Who defects against one who cooperates wins every game; equals draw them all."""
    config = self_play_config(a2c, CONFIG, 2)
    won = tournament.points(MatrixGame(), config, agent, jax.random.key(0))
    games = tournament.EPISODES  # on either side
    np.testing.assert_array_equal(won, [[games, games, 0], [games, games, 0], [2 * games, 2 * games, games]])


@pytest.mark.long
def test_rows_and_their_file(agent, tmp_path):
    rows = tournament.table(MatrixGame(), self_play_config(a2c, CONFIG, 2), agent, seed=7)
    assert [row["update"] for row in rows] == [0, 4, 6] and {row["seed"] for row in rows} == {7}
    assert [row["score"] for row in rows] == [0.25, 0.25, 1.0], "half of one opponent's games, and none of the other's"
    assert rows[0]["elo"] == rows[1]["elo"] == 1000 < rows[2]["elo"]
    lines = tournament.write(rows, tmp_path / "elo.csv")
    assert lines[0].split() == list(tournament.COLUMNS) and len(lines) == 4
    with (tmp_path / "elo.csv").open() as file:
        assert [float(row["elo"]) for row in csv.DictReader(file)] == [row["elo"] for row in rows]


@pytest.fixture
def games_of(monkeypatch):
    """Play the games between two players, of which a self is perfect at Nim in evaluation and takes one in training."""

    def act(agent, carry, key, situation, explore):
        left = jnp.argmax(situation.observation["observation"], axis=-1)
        return jnp.where(left % 3 == 2, 1 - explore, 0), carry, ()

    player = Algorithm(init=lambda key: (), initial_carry=lambda num: (), act=act, update=lambda *agent: agent[:2])
    monkeypatch.setattr(tournament.search_play, "planner", lambda *_: player)
    learner = PolicyAgent(*[()] * len(PolicyAgent._fields))._replace(params=jnp.zeros(1))
    config = self_play_config(alphazero, AlphaZeroConfig(), 1, SearchPlayConfig)
    agent = alone(learner, learner, config)
    games = partial(tournament._games.__wrapped__, Nim(), config, agent, jax.random.key(1), jnp.array([0, 1]))
    return lambda *names: float(jax.jit(lambda: games(names))())


def test_selves_that_plan_are_rated_as_they_are_evaluated(games_of):
    assert games_of("self", "random") > 0.8 * 2 * tournament.EPISODES


def test_games_between_selves_that_plan_differ(games_of, monkeypatch):
    """Two random moves take two to four of seven; whoever plays by chance needs none."""
    played = []

    def look(plays, env, *_, **__):
        played.append(env.env)
        return SimpleNamespace(episode_return=jnp.ones(1))

    monkeypatch.setattr(tournament, "play_episodes", look)
    assert games_of("self", "self") == games_of("self", "random") == 1
    left = [jax.vmap(game.reset)(jax.random.split(jax.random.key(0), 64))[0].state.left for game in played]
    assert [set(each.tolist()) for each in left] == [{3, 4, 5}, {7}]


def test_seeds_that_failed_are_not_rated(monkeypatch, tmp_path):
    failed = FailedSeeds(7, 3)
    failed.add(np.array([0, 4, 0]), np.zeros(3, int))
    run = SimpleNamespace(
        display=SimpleNamespace(stage=lambda text: None),
        plan=SimpleNamespace(env=MatrixGame(), trainer=SimpleNamespace(config=None)),
        progress=SimpleNamespace(state=SimpleNamespace(agent=np.arange(3))),
        stop=SimpleNamespace(counts_at_once=contextlib.nullcontext),
        options=SimpleNamespace(seed=7),
        failed=failed,
        folder=tmp_path,
    )
    monkeypatch.setattr(tournament, "both_sides", lambda env: env)
    monkeypatch.setattr(tournament, "table", lambda env, config, agent, seed: [(int(agent), seed)])
    monkeypatch.setattr(tournament, "write", lambda rows, path: rows)
    assert tournament.rate_selves(run) == [(0, 7), (2, 9)]
