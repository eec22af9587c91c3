"""Boards as text, and the names of moves on them."""

import jax
import numpy as np
import pytest

import purerl
from purerl.envs.adapters import boards

pytestmark = pytest.mark.suites


@pytest.mark.parametrize(
    ("name", "board", "lines"),
    [
        ("tic_tac_toe", [[0, 1, 0], [0, 2, 0], [0, 0, 1]], ["  a b c", "1 . X .", "2 . O .", "3 . . X"]),
        ("connect_four", [[0, 0, 0], [0, 1, 2]], ["  1 2 3", "  . . .", "  . X O"]),
        ("hex", [[1, 0], [0, 2]], ["  a b", "1 X .", " 2 . O"]),
    ],
)
def test_text(name, board, lines):
    assert boards.text(name, np.array(board)).splitlines() == lines


@pytest.mark.parametrize(
    ("name", "action", "columns", "cells", "word"),
    [
        ("tic_tac_toe", 5, 3, 9, "c2"),
        ("connect_four", 6, 7, 42, "7"),
        ("othello", 64, 8, 64, "pass"),
        ("hex", 121, 11, 121, "swap"),
        ("go_19x19", 360, 19, 361, "s19"),
    ],
)
def test_move(name, action, columns, cells, word):
    assert boards.move(name, action, columns, cells) == word


@pytest.mark.parametrize(("name", "size"), [("tic_tac_toe", 3), ("connect_four", 7), ("othello", 8), ("go_9x9", 9)])
def test_a_piece_is_drawn_where_its_move_says(name, size):
    """The name of each move, read in the head and at the side of the board, leads to the piece that it places."""
    env = purerl.make(f"pgx/{name}", opponent="self")
    state, observation = env.reset(jax.random.key(1))
    step, rng = jax.jit(env.step), np.random.default_rng(0)
    for _ in range(6):
        seat = next(seat for seat, turn in observation["turn"].items() if turn[0])
        action = int(rng.choice(np.flatnonzero(observation[seat]["action_mask"][0][: size * size])))
        both = dict.fromkeys(("player_0", "player_1"), np.int32([action]))
        state, timestep = step(jax.random.key(2), state, both)
        observation, mark = timestep.observation, "XO"[int(seat[-1])]
        head, *rows = [line.split() for line in env.render_text(state).splitlines()]
        word = env.action_text(action)
        if name == "connect_four":
            column = [row[head.index(word)] for row in rows]
            assert next(cell for cell in column if cell != ".") == mark  # the one on top
        else:
            (row,) = [row for row in rows if row[0] == word[1:]]
            assert row[1 + head.index(word[0])] == mark
        if timestep.terminated:
            break
