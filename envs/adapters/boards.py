"""Board games as text, and the names of their moves: columns are letters, rows are numbers from the top."""

import string

import numpy as np

MARKS = ".XO"  # a free cell, the first player's, the second player's
BEYOND = {"hex": "swap"}  # the move after those of all cells; in other games it is to pass
DROPS = ("connect_four",)  # a move names a column, numbered from 1
GAMES = ("tic_tac_toe", "connect_four", "othello", "hex", "go_9x9", "go_19x19")


def text(name: str, board: np.ndarray) -> str:
    """Return the board as lines.

    Args:
      name: a name in `GAMES`.
      board: i[rows, columns], indices into `MARKS`.
    """
    rows, columns = board.shape
    width = len(str(rows))
    names = [str(i + 1) if name in DROPS else string.ascii_lowercase[i] for i in range(columns)]
    lines = [f"{'':{width}} {' '.join(names)}"]
    for i, row in enumerate(board):
        shift = " " * i if name == "hex" else ""  # a cell touches the two below it
        number = "" if name in DROPS else str(i + 1)
        lines.append(f"{shift}{number:>{width}} {' '.join(MARKS[cell] for cell in row)}")
    return "\n".join(lines)


def move(name: str, action: int, columns: int, cells: int) -> str:
    """Return the name of a move, such as "b3", "4" in connect four, "pass" or "swap"."""
    if name in DROPS:
        return str(action + 1)
    if action >= cells:
        return BEYOND.get(name, "pass")
    return f"{string.ascii_lowercase[action % columns]}{action // columns + 1}"
