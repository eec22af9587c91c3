"""Games between a person, who is scripted here, and a player."""

import jax
import pytest

import purerl
from purerl.errors import InputError
from purerl.run import match

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
        game, match.opponent_of(opponent, game), jax.random.key(key), seat, person.ask, person.tell
    )
    return found, person.told


def has_line(board, mark):
    """Whether a drawn board of tic-tac-toe has three of a mark in a line."""
    cells = [line.split()[1:] for line in board.splitlines()[1:]]
    lines = [*cells, *zip(*cells, strict=True), [cells[i][i] for i in range(3)], [cells[i][2 - i] for i in range(3)]]
    return any(set(line) == {mark} for line in lines)


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


def test_lookahead_does_not_miss_a_line():
    """The last legal cells from the bottom right make a line in three moves, unless someone looks ahead."""
    for key in range(4):
        found, told = played("lookahead", key)
        assert found.reward <= 0 and not has_line(told[-1], told[0][8])


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
    with pytest.raises(InputError, match="plays another game"):
        match.opponent_of(str(folder), match.game_of("pgx/connect_four"))


@pytest.mark.parametrize("environment", ["CartPole-v1", "MatrixGame", "pgx/kuhn_poker", "pgx/2048"])
def test_what_is_no_board_game_of_two(environment):
    with pytest.raises(InputError, match=f"board games of two in turns, and {environment} is none"):
        match.game_of(environment)
