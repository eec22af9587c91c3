"""Self-play: the pool, the sides, ratings, and a run of it."""

import csv
import dataclasses
import shutil
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl import evaluate
from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.ppo import PPOConfig, ppo
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.games.coin_game import CoinGame
from purerl.envs.games.matrix_game import DILEMMA, MatrixGame
from purerl.envs.tag.continuous import TagContinuous
from purerl.errors import InputError
from purerl.extensions.groups import policies
from purerl.extensions.groups.joint import Policy, multi_agent, policies_for
from purerl.extensions.self_play import tournament
from purerl.extensions.self_play.self_play import (
    SELF,
    alone,
    collect,
    deal,
    learned,
    plays_first,
    self_play,
    self_play_config,
)
from purerl.loop import train
from purerl.loop.train import make_trainer
from purerl.run import opening
from purerl.settings.runs import settings
from tests.helpers.nim import Nim, Pile

SMALL = A2CConfig(num_envs=16, rollout_length=4, hidden_sizes=(8,), learning_rate=2e-2, total_timesteps=64 * 24)


def test_every_self_gets_environments_on_both_sides():
    num_envs, num = 10, 4
    dealt = np.asarray(deal(np.arange(num_envs)[:, None], num))
    assert dealt.shape == (4, 3, 1)
    assert all(environment % num == place for place in range(num) for environment in dealt[place, :2, 0])
    np.testing.assert_array_equal(collect(dealt, num_envs)[:, 0], np.arange(num_envs))
    assert plays_first(16, 4).tolist() == [True] * 4 + [False] * 4 + [True] * 4 + [False] * 4


@pytest.fixture(scope="module")
def trained():
    """Return (config, trainer, the states after every update) of the prisoner's dilemma, four selves in 24 updates."""
    config = self_play_config(a2c, SMALL, 4)
    trainer = make_trainer(self_play, MatrixGame(), config)
    state, step, states = jax.jit(trainer.init)(jax.random.key(0)), jax.jit(trainer.step), []
    metrics = {}
    for _ in range(24):
        states.append(state)
        state, metrics = step(state)
    return config, trainer, [*states, state], metrics


@pytest.mark.long
def test_the_pool_holds_the_whole_run(trained):
    """Place s is the self of update 6 s; until then it is the newest of those before."""
    _, _, states, metrics = trained
    learned = [jax.tree.leaves(state.agent.learner[SELF].params)[0] for state in states]
    for update in (0, 5, 6, 13, 24):
        pool = jax.tree.leaves(states[update].agent.pool[SELF].params)[0]
        for place in range(4):
            np.testing.assert_array_equal(pool[place], learned[min(6 * place, update // 6 * 6)])
    assert states[0].agent.pool[SELF].opt_state == ()
    assert float(metrics.algorithm["reward_of_learner"]) > 0.5, "both defect at last: 1 each"


@pytest.mark.long
def test_later_selves_beat_earlier_ones(trained):
    """Who defects more gets more out of the dilemma; against itself a self has won half of its games."""
    config, _, states, _ = trained
    rows = tournament.table(MatrixGame(), config, states[-1].agent, 0)
    assert [row["update"] for row in rows] == [0, 6, 12, 18, 24]
    assert rows[0]["elo"] == 1000 and rows[-1]["elo"] > rows[0]["elo"] + 30
    assert rows[-1]["score"] > 0.5 > rows[0]["score"]
    assert sum(row["score"] for row in rows) == pytest.approx(5 / 2), "what one wins, another loses"


@pytest.mark.long
def test_the_learner_learns_from_its_own_side_only(trained):
    """What the other side saw, did and got changes no bit of what is learned."""
    _, trainer, states, _ = trained
    state = states[3]
    _, rollout = jax.jit(lambda s: train.collect(trainer.algorithm, trainer.vector, s, jax.random.key(1), 4))(state)
    first = plays_first(16, 4)
    garble = lambda x, where: jnp.where(where.reshape(1, -1, *[1] * (x.ndim - 2)), jnp.asarray(1, x.dtype) - x, x)
    sides = {"column": ~first, "row": first}  # sides of the opponents: the first side has the first name
    changed = rollout._replace(
        action={name: garble(part, sides[name]) for name, part in rollout.action.items()},
        reward={name: garble(part, sides[name]) for name, part in rollout.reward.items()},
    )
    update = jax.jit(trainer.algorithm.update)
    one, two = (update(state.agent, jax.random.key(2), seen)[0].learner for seen in (rollout, changed))
    jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.mark.long
def test_a_run_of_it_writes_its_table_and_goes_on_to_the_same_bits(tmp_path, capsys, monkeypatch):
    flags = {"num_envs": 8, "rollout_length": 4, "hidden_sizes": 8, "num_minibatches": 1, "num_epochs": 1}
    flags |= {"total_timesteps": 32 * 8, "self_play": 2, "eval_episodes": 4, "evaluations": 0, "log_interval": 2}
    flags |= {"devices": 1, "checkpoint_interval": 0.0, "keep_checkpoints": 9}
    chosen = settings("ppo", "MatrixGame", flags)
    assert opening.start(chosen, tmp_path / "whole", plain=True) == 0
    table = (tmp_path / "whole" / "elo.csv").read_text()
    rows = list(csv.DictReader(table.splitlines()))
    assert [int(row["update"]) for row in rows] == [0, 4, 8] and float(rows[0]["elo"]) == 1000
    assert "elo" in capsys.readouterr().out and "self_play = 2" in (tmp_path / "whole" / "config.toml").read_text()
    folder = tmp_path / "whole"
    for newest in sorted((folder / "checkpoints").iterdir())[1:]:
        shutil.rmtree(newest)
    (folder / "summary.json").unlink()
    (folder / "elo.csv").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(tournament, "_row", lambda *_: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            opening.resume(folder, plain=True)
    assert "the last checkpoint is kept" in capsys.readouterr().out and not (folder / "elo.csv").exists()
    assert opening.resume(folder, plain=True) == 0
    assert (folder / "elo.csv").read_text() == table


@pytest.mark.long
def test_a_game_in_turns_is_learned_to_its_theory():
    """In every pile that can be won, self-play leaves a multiple of 3."""
    config = PPOConfig(num_envs=32, rollout_length=16, hidden_sizes=(32,), learning_rate=1e-2, discount=1.0)
    config = dataclasses.replace(config, total_timesteps=512 * 40, num_minibatches=2)
    game = self_play_config(ppo, config, 2)
    state, metrics = jax.jit(train.make_train(self_play, Nim(), game))(jax.random.key(0))
    trainer = make_trainer(self_play, Nim(), game)
    piles = jax.vmap(Nim().observe)(Pile(jnp.array([7, 5, 4, 2, 1] * 4), jnp.arange(20) >= 10))
    chosen, _, _ = trainer.algorithm.act(
        state.agent, trainer.algorithm.initial_carry(20), jax.random.key(0), piles, False
    )
    mine = plays_first(20, 2)
    moves = np.where(mine, chosen["first"][:, 0], chosen["second"][:, 0]) + 1
    np.testing.assert_array_equal(moves, [1, 2, 1, 2, 1] * 4)
    assert float(metrics.algorithm["reward_of_learner"][-8:].mean()) > 0, "it wins against its earlier selves"


@pytest.mark.slow
def test_tic_tac_toe_beats_random_play():
    """500 greedy games from either seat; it began with about a third."""
    pytest.importorskip("pgx", reason="pgx is not installed: pip install 'purerl[pgx]'")
    env = purerl.make("pgx/tic_tac_toe").for_self_play()
    config = PPOConfig(num_envs=64, rollout_length=32, learning_rate=2e-3, entropy_coefficient=0.02, discount=1.0)
    config = dataclasses.replace(config, total_timesteps=64 * 32 * 60)
    state, _ = jax.jit(train.make_train(self_play, env, self_play_config(ppo, config, 4)))(jax.random.key(0))
    for mine, other in (("player_0", "player_1"), ("player_1", "player_0")):
        at_random = Policy(algorithm=policies.at_random, config=config, groups=(other,), frozen=True)
        trainer = make_trainer(multi_agent, env, policies_for(env, ppo, config, **{other: at_random}))
        agents = {mine: state.agent.learner[SELF], other: ()}
        won = jax.jit(lambda a, t=trainer: evaluate(t, a, jax.random.key(1), 500).group_return)(agents)[mine]
        assert (won > 0).mean() > 0.8 and (won < 0).mean() < 0.15


@pytest.mark.long_for(
    "env3-dqn-config3-needs a policy-gradient algorithm",
    "env4-a2c-config4-'column' and 'row' have different observation or action spaces",
)
@pytest.mark.parametrize(
    ("env", "algorithm", "config", "message"),
    [
        (CartPole(), ppo, PPOConfig(num_envs=16), "a game of two groups of agents; this one has 0"),
        (
            TagContinuous(num_taggers=1, num_runners=2),
            a2c,
            SMALL,
            "'runners' and 'taggers' have different observation or action spaces",
        ),
        (CoinGame(), a2c, dataclasses.replace(SMALL, num_envs=6), "need num_envs 8 at least; it is 6"),
        (CoinGame(), dqn, DQNConfig(num_envs=16), "needs a policy-gradient algorithm"),
        (
            MatrixGame(row_payoff=(*DILEMMA, (0.0, 0.0))),
            a2c,
            SMALL,
            "'column' and 'row' have different observation or action spaces",
        ),
    ],
)
def test_what_cannot_play_itself(env, algorithm, config, message):
    with pytest.raises(InputError, match=message):
        trainer = make_trainer(self_play, env, self_play_config(algorithm, config, 4))
        jax.eval_shape(trainer.init, jax.random.key(0))


def test_places_that_are_not_filled_yet_hold_the_newest_self():
    """After two of four parts of the run, at once."""
    config = dataclasses.replace(self_play_config(a2c, A2CConfig(num_envs=2, rollout_length=4), 4), total_timesteps=16)
    agent = learned(alone(0.0, jnp.float32(0), config), 1.0, jnp.float32(1), config)
    assert agent.pool.tolist() == [0, 0, 1, 1] and agent.kept_at.tolist() == [0, 0, 1, 1] and agent.newest == 2
