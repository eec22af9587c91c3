"""Self-play with planning: both sides are the newest policy, and past policies are kept for a tournament."""

import jax
import numpy as np
import pytest

import purerl
from purerl import InputError
from purerl.algos.alphazero import AlphaZeroConfig, alphazero
from purerl.extensions.groups.joint import multi_agent, policies_for
from purerl.extensions.self_play import tournament
from purerl.extensions.self_play.search_play import SearchPlayConfig, check_game, search_play
from purerl.extensions.self_play.self_play import self_play_config
from purerl.loop.train import make_trainer
from tests.helpers.nim import Nim

CONFIG = AlphaZeroConfig(
    num_envs=8, rollout_length=4, num_simulations=4, hidden_sizes=(8,), total_timesteps=32 * 4, num_minibatches=2
)
PLAY = self_play_config(alphazero, CONFIG, 2, SearchPlayConfig)


def params(agent):
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(agent.params)])


@pytest.mark.long
def test_selves_are_kept_and_rated():
    trainer = purerl.make_trainer(search_play, Nim(), PLAY)
    step = jax.jit(trainer.step)
    states = [jax.jit(trainer.init)(jax.random.key(0))]
    for _ in range(4):
        states.append(step(states[-1])[0])
    selves = [params(state.agent.learner) for state in states]
    pool = [params(jax.tree.map(lambda x, i=i: x[i], states[-1].agent.pool)) for i in range(2)]
    np.testing.assert_array_equal(pool[0], selves[0])
    np.testing.assert_array_equal(pool[1], selves[2])  # the snapshot from the middle of the run
    assert np.abs(selves[4] - selves[2]).max() > 0

    rows = tournament.table(Nim(), PLAY, jax.device_get(states[-1].agent), seed=3)
    assert [(row["player"], row["update"]) for row in rows] == [
        ("self", 0), ("self", 2), ("self", 4), ("lookahead", ""), ("random", "")
    ]  # fmt: skip
    assert rows[0]["elo"] == 1000 and rows[3]["elo"] > rows[4]["elo"], "a look ahead beats random play"
    np.testing.assert_allclose(sum(row["score"] for row in rows), 2.5, atol=1e-3)


@pytest.mark.long
def test_who_looks_ahead_plays_small_games_only(monkeypatch):
    assert tournament.references(Nim()) == ("lookahead", "random")
    monkeypatch.setattr(tournament, "MOST_ACTIONS", 1)
    assert tournament.references(Nim()) == ("random",)


@pytest.mark.long
def test_what_cannot_be_played_is_told():
    with pytest.raises(InputError, match="self-play needs a game of two groups of agents; CartPole-v1 has 0"):
        check_game({}, "CartPole-v1")
    with pytest.raises(InputError, match="planning algorithms control all players"):
        make_trainer(multi_agent, Nim(), policies_for(Nim(), alphazero, CONFIG))
