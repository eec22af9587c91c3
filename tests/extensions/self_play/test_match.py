"""Games between a person, who is scripted here, and a player."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import purerl
from purerl.commands.cli import cli
from purerl.errors import InputError
from purerl.extensions.self_play import match
from purerl.run.trained_run import load_run

TINY = {"num_envs": 8, "rollout_length": 8, "network": "mlp", "hidden_sizes": (8,), "evaluations": 0}
TINY |= {"eval_episodes": 2, "total_timesteps": 128, "display": "none"}
RUNS = {  # algorithm, environment's parameters, settings
    "search": ("alphazero", {}, {"self_play": 2, "num_simulations": 4, "num_minibatches": 1, "num_epochs": 1}),
    "self-play": ("ppo", {"opponent": "self"}, {"self_play": 2, "num_minibatches": 1, "num_epochs": 1}),
    "against random": ("ppo", {}, {"num_minibatches": 1, "num_epochs": 1}),
    "memory": ("ppo", {}, {"num_minibatches": 1, "num_epochs": 1, "rnn": "gru"}),
}


class Person:
    """Says a wrong word first, and then legal moves, each time the last of those that were told."""

    def __init__(self, count=100):
        self.told, self.left, self.move = [], count, None

    def ask(self, prompt):
        said, self.move = self.move or "?", None
        self.left -= said != "?"
        return None if self.left < 0 else said

    def tell(self, line):
        self.told.append(line)
        if "; legal: " in line:
            self.move = line.rpartition("; legal: ")[2].split(", ")[-1]


def played(opponent, key=0, seat="first", count=100):
    game, person = match.game_of("pgx/tic_tac_toe"), Person(count)
    found = match.play_match(
        game, match.contender_of(opponent, game), jax.random.key(key), seat, person.ask, person.tell
    )
    return found, person.told


def has_line(board, mark):
    """Whether a drawn board of tic-tac-toe has three of a mark in a line."""
    cells = [line.split()[1:] for line in board.splitlines()[1:]]
    lines = [*cells, *zip(*cells, strict=True), [cells[i][i] for i in range(3)], [cells[i][2 - i] for i in range(3)]]
    return any(set(line) == {mark} for line in lines)


@pytest.mark.long_for("0", "1")
@pytest.mark.parametrize("key", range(6))
def test_who_wins_is_seen_on_the_board(key):
    seat = match.SEATS[key % 3]
    found, told = played("random", key, seat)
    mine, other = told[0][8], told[0].partition("random is ")[2][0]
    assert {mine, other} == {"X", "O"} and found.over
    assert (found.reward > 0, found.reward < 0) == (has_line(told[-1], mine), has_line(told[-1], other))
    pieces = sum(told[-1].count(mark) for mark in "XO")
    assert pieces == found.moves
    if seat != "drawn":
        assert told[1].startswith("random plays") == (seat == "second")


@pytest.mark.long
def test_lookahead_does_not_miss_a_line():
    """The last legal cells from the bottom right make a line in three moves, unless someone looks ahead."""
    for key in range(4):
        found, told = played("lookahead", key)
        assert found.reward <= 0 and not has_line(told[-1], told[0][8])


def scripted(choose, carry=()):
    """Return a contender that plays the action of choose(carry, legal: bool[n])."""

    def move(agent, carry, key, situation):
        action = choose(carry, situation.observation["action_mask"])
        return action, jax.tree.map(lambda n: n + 1, carry)

    return match.Contender(name="script", agent=(), carry=carry, move=move)


@pytest.mark.long
def test_games_of_scripts_end_as_by_hand():
    """0 1 2 3 4 5 6 is a line of the first mover; so is 0, 4, 8 by a count of its own moves, against 1, 2."""
    game = match.game_of("pgx/tic_tac_toe")
    lowest = scripted(lambda carry, legal: jnp.argmax(legal))
    planned = scripted(lambda carry, legal: jnp.array([0, 4, 8])[carry], jnp.int32(0))
    late = scripted(lambda carry, legal: jnp.array([4, 7, 5, 6])[carry], jnp.int32(0))  # against 0, 1, 2: too late
    for first, second, wanted in ((lowest, lowest, 1), (planned, lowest, 1), (lowest, planned, 1), (lowest, late, 1)):
        won = match.play_games(game, first, second, jax.random.key(1), 3)
        assert won.tolist() == [wanted] * 3
    middle = scripted(lambda carry, legal: jnp.array([4, 2, 6])[carry], jnp.int32(0))
    corner = scripted(lambda carry, legal: jnp.array([0, 1, 8])[carry], jnp.int32(0))
    assert match.play_games(game, corner, middle, jax.random.key(1), 2).tolist() == [-1, -1]


@pytest.mark.long
def test_random_games_end_as_they_are_known_to():
    """In tic-tac-toe between random players, the first mover wins 58.5% of all games and ties 12.7%."""
    game, count = match.game_of("pgx/tic_tac_toe"), 8192
    player = match.contender_of("random", game)
    won = np.asarray(match.play_games(game, player, player, jax.random.key(0), count))
    assert abs(np.mean(won > 0) - 0.585) < 0.02 and abs(np.mean(won == 0) - 0.127) < 0.015


@pytest.mark.long
def test_only_games_in_turns_are_compared():
    with pytest.raises(InputError, match="turn-based game of two, and CartPole-v1 is not one: it has one agent"):
        match.compare(load_run("zoo/ppo-CartPole-v1"), load_run("zoo/ppo-CartPole-v1").plan, "random", 4)


@pytest.mark.long
def test_only_agents_that_search_take_simulations():
    game = match.game_of("pgx/tic_tac_toe")
    with pytest.raises(InputError, match=r"agents that plan .*; lookahead is not one"):
        match.contender_of("lookahead", game, 8)
    with pytest.raises(InputError, match="zoo/ppo-pgx-tic_tac_toe do not plan"):
        match.contender_of("zoo/ppo-pgx-tic_tac_toe", game, 8)


def test_leaving():
    found, told = played("random", count=1)
    assert not found.over and found.moves == 2 and found.reward == 0 and told[-2].startswith("  a b c")


@pytest.mark.slow
@pytest.mark.parametrize("kind", RUNS)
def test_a_run_plays(kind, tmp_path):
    algorithm, parameters, settings = RUNS[kind]
    folder = tmp_path / "run"
    values = TINY | settings | ({"env": parameters} if parameters else {})
    purerl.train(algorithm, "pgx/tic_tac_toe", out=folder, **values)
    found, told = played(str(folder), seat="second")
    assert found.over and found.moves >= 5 and told[1].startswith(f"{folder} plays ")
    assert played(str(folder), seat="second")[1] == told
    run = load_run(folder)
    first = match.compare(run, run.plan, "lookahead", 16)
    assert first == match.compare(run, run.plan, "lookahead", 16) and list(first) == [0]
    assert [row.seat for row in first[0]] == ["first", "second"]
    assert all(sum(row[2:]) == pytest.approx(1) for row in first[0])
    words = ["evaluate", str(folder), "--against", str(folder), "--episodes", "4"]
    lines = CliRunner().invoke(cli, words).output
    assert lines.splitlines()[2].split()[:3] == ["0", "first", "4"]
    if kind == "search":
        more = run.searching(8)
        assert more.settings.config.num_simulations == 8 and run.settings.config.num_simulations == 4
        assert match.compare(more, more.plan, "random", 16) != match.compare(run, run.plan, "random", 16)
        assert CliRunner().invoke(cli, [*words, "--simulations", "8"]).exit_code == 0
        assert match.contender_of(str(folder), match.game_of("pgx/tic_tac_toe"), 8).name == str(folder)
    else:
        with pytest.raises(InputError, match="do not plan: simulations only apply to alphazero and muzero"):
            run.searching(8)
    with pytest.raises(InputError, match="plays another game"):
        match.contender_of(str(folder), match.game_of("pgx/connect_four"))


@pytest.mark.long_for("pgx/2048")
@pytest.mark.parametrize("environment", ["CartPole-v1", "MatrixGame", "pgx/kuhn_poker", "pgx/2048"])
def test_what_is_no_board_game_of_two(environment):
    with pytest.raises(InputError, match=f"board game of two, and {environment} is not one"):
        match.game_of(environment)


@pytest.mark.long
def test_a_game_of_too_many_moves_is_not_looked_ahead_in(monkeypatch):
    game = match.game_of("tests.helpers.nim:Nim", board=False)
    assert match.contender_of("lookahead", game).name == "lookahead"
    monkeypatch.setattr(match, "MOST_MOVES", game.action_space.n - 1)
    with pytest.raises(InputError, match=f"every reply: {game.action_space.n} moves are too many"):
        match.contender_of("lookahead", game)
    assert match.contender_of("random", game).name == "random"
