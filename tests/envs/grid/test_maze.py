"""The maze against a walk in plain Python; its levels, drawn, mutated and held out."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.grid.maze import Maze
from purerl.envs.grid.maze_levels import held_out, read_maze
from purerl.errors import InputError

MOVES = [(0, 1), (1, 0), (0, -1), (-1, 0)]  # east, south, west, north
LEVELS = 40


def drawn(key, num=LEVELS, **fields):
    return jax.jit(jax.vmap(Maze(**fields).draw_level))(jax.random.split(key, num))


def one(levels, n):
    return jax.tree.map(lambda x: np.asarray(x[n]), levels)


def view(walls, goal, row, column, direction):
    """What is seen, cell by cell, by turning the world until the agent faces north."""
    far = np.pad(walls, 5, constant_values=True)
    goals = np.zeros_like(far)
    goals[goal[0] + 5, goal[1] + 5] = True
    around = [x[row : row + 11, column : column + 11] for x in (far, goals)]  # the agent at [5, 5]
    turns = (direction + 1) % 4  # east: once against the clock brings what is ahead to the top
    around = [np.rot90(x, turns) for x in around]
    return np.stack([x[1:6, 3:8] for x in around], axis=-1)


def distance(level):
    """The fewest steps to the goal; None where there is no way."""
    first = (*map(int, level["start"]), int(level["direction"]))
    todo, seen = deque([(first, 0)]), {first}
    while todo:
        (row, column, facing), steps = todo.popleft()
        if (row, column) == tuple(level["goal"]):
            return steps
        ahead = (row + MOVES[facing][0], column + MOVES[facing][1])
        free = 0 <= ahead[0] < 13 and 0 <= ahead[1] < 13 and not level["walls"][ahead]
        for after in ((row, column, (facing - 1) % 4), (row, column, (facing + 1) % 4), *([(*ahead, facing)] * free)):
            if after not in seen:
                seen.add(after)
                todo.append((after, steps + 1))
    return None


@pytest.mark.long
def test_walks_on_many_levels_in_one_program(key):
    length, limit = 80, 70
    levels, actions = drawn(key), np.random.default_rng(0).choice(3, (LEVELS, length), p=(0.2, 0.2, 0.6))

    def walk(level, actions):
        env = Maze(**level, time_limit=limit)

        def body(state, action):
            state, step = env.step(key, state, action)
            return state, (state, step)

        state, observation = env.reset(key)
        return state, observation, jax.lax.scan(body, state, actions)[1]

    walked = jax.jit(jax.vmap(walk))(levels, jnp.asarray(actions, jnp.int32))
    start, first, (states, steps) = jax.tree.map(np.asarray, walked)
    found, blocked = 0, 0
    for n in range(LEVELS):
        level = one(levels, n)
        row, column, facing = (*map(int, level["start"]), int(level["direction"]))
        assert (int(start.row[n]), int(start.column[n]), int(start.direction[n])) == (row, column, facing)
        np.testing.assert_array_equal(first["view"][n], view(level["walls"], level["goal"], row, column, facing))
        for t in range(length):
            action = actions[n, t]
            facing = (facing + (action == 1) - (action == 0)) % 4
            if action == 2:
                ahead = (row + MOVES[facing][0], column + MOVES[facing][1])
                free = 0 <= ahead[0] < 13 and 0 <= ahead[1] < 13 and not level["walls"][ahead]
                row, column = ahead if free else (row, column)
                blocked += not free
            assert (int(states.row[n, t]), int(states.column[n, t]), int(states.direction[n, t])) == (
                row,
                column,
                facing,
            )
            seen = jax.tree.map(lambda x, n=n, t=t: x[n, t], steps.observation)
            np.testing.assert_array_equal(seen["view"], view(level["walls"], level["goal"], row, column, facing))
            assert seen["direction"] == facing
            there = (row, column) == tuple(level["goal"])
            found += there
            np.testing.assert_allclose(steps.reward[n, t], 1 - 0.9 * (t + 1) / limit if there else 0.0, rtol=1e-5)
            assert bool(steps.terminated[n, t]) == there
            assert bool(steps.truncated[n, t]) == (t + 1 >= limit and not there)
    assert found > 3 and blocked > 30


def test_drawn_levels(key):
    levels = jax.tree.map(np.asarray, drawn(key, 2000, max_walls=30))
    count = levels["walls"].sum(axis=(1, 2))
    assert count.min() == 0 and count.max() == 30 and abs(count.mean() - 15) < 1
    rows = np.arange(2000)
    for name in ("goal", "start"):
        assert not levels["walls"][rows, levels[name][:, 0], levels[name][:, 1]].any()
        cells = np.bincount(levels[name] @ [13, 1], minlength=169)
        assert cells.min() > 0 and cells.max() < 40
    assert not (levels["goal"] == levels["start"]).all(axis=1).any()
    assert np.bincount(levels["direction"]).min() > 400


@pytest.mark.long
def test_a_mutation_is_one_small_change(key):
    levels = drawn(key, 2000)
    mutate = jax.jit(jax.vmap(Maze().mutate_level))
    before, after = (jax.tree.map(np.asarray, x) for x in (levels, mutate(jax.random.split(key, 2000), levels)))
    flipped = (before["walls"] != after["walls"]).sum(axis=(1, 2))
    moved = (before["goal"] != after["goal"]).any(axis=1)
    assert set(flipped) == {0, 1} and np.all(moved == (flipped == 0))
    assert 0.07 < moved.mean() < 0.13
    rows = np.arange(2000)
    for name in ("goal", "start"):
        assert not after["walls"][rows, after[name][:, 0], after[name][:, 1]].any()
    assert not (after["goal"] == after["start"]).all(axis=1).any()
    np.testing.assert_array_equal(before["start"], after["start"])
    np.testing.assert_array_equal(before["direction"], after["direction"])


def test_held_out_levels_can_be_solved_and_the_best_return_is_the_docstrings(key):
    lengths = {name: distance(level) for name, level in held_out().items()}
    assert None not in lengths.values() and max(lengths.values()) < 250
    steps = lengths["sixteen rooms"]
    assert f"{1 - 0.9 * steps / 250:.4f}, {steps} steps" in Maze.__doc__
    trees = {name: level for name, level in held_out().items() if name.startswith("labyrinth")}
    assert all((~level["walls"]).sum() == 49 + 48 for level in trees.values()), "49 cells, joined without circles"
    assert len({level["walls"].tobytes() for level in trees.values()}) == 3


@pytest.mark.parametrize("name", held_out())
def test_maps_and_pictures(name, key):
    env = Maze(**held_out()[name])
    state, _ = env.reset(key)
    text = env.render_text(state)
    again = read_maze("\n".join(row[1:-1] for row in text.split()[1:-1]))
    for field, value in again.items():
        np.testing.assert_array_equal(value, held_out()[name][field])
    picture = env.render(state)
    side = picture.shape[0] // 15
    assert picture.shape == (15 * side, 15 * side, 3)
    row, column = map(int, env.goal)
    assert tuple(picture[(row + 1) * side + side // 2, (column + 1) * side + side // 2]) == (0, 158, 115)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:-1], "13 rows of 13"),
        (lambda rows: [rows[0].replace(".", "x"), *rows[1:]], "unknown letters in a maze: x"),
        (lambda rows: [row.replace("G", ".") for row in rows], "one goal G and one start"),
        (lambda rows: [row.replace(">", "v").replace(".", "v") for row in rows], "1 and"),
    ],
)
def test_bad_maps(change, message):
    rows = [">" + "." * 11 + "G", *["." * 13] * 12]
    read_maze("\n".join(rows))
    with pytest.raises(InputError, match=message):
        read_maze("\n".join(change(rows)))
