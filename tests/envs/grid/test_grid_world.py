"""Grid worlds against a walk in plain Python; four rooms against gymnax's map and its probabilities."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.grid.four_rooms import FourRooms
from purerl.envs.grid.grid_world import GridState, GridWorld, read_map
from purerl.errors import InputError

MOVES = [(-1, 0), (0, 1), (1, 0), (0, -1)]


@pytest.mark.long
def test_random_maps_in_one_program(key):
    rng, num, length = np.random.default_rng(0), 40, 60
    walls = rng.random((num, 5, 6)) < 0.2
    goals = (rng.random((num, 5, 6)) < 0.05) & ~walls
    rewards = rng.normal(size=(num, 5, 6)).astype(np.float32)
    starts = ~walls & ~goals
    actions = rng.integers(0, 4, (num, length)).astype(np.int32)

    def walk(walls, goals, rewards, starts, actions, key):
        env = GridWorld(
            walls=walls, goals=goals, rewards=rewards, starts=starts, step_reward=-0.5, time_limit=length - 3
        )

        def body(state, action):
            state, step = env.step(key, state, action)
            return state, (state, step)

        state, observation = env.reset(key)
        return state, observation, jax.lax.scan(body, state, actions)[1]

    arrays = tuple(map(jnp.asarray, (walls, goals, rewards, starts, actions)))
    walked = jax.jit(jax.vmap(walk))(*arrays, jax.random.split(key, num))
    start, first, (states, steps) = jax.tree.map(np.asarray, walked)
    ends = 0
    for n in range(num):
        at = (int(start.row[n]), int(start.column[n]))
        assert starts[n][at]
        assert np.argwhere(first[n, :, :, 0]).tolist() == [list(at)]
        for t in range(length):
            to = (at[0] + MOVES[actions[n, t]][0], at[1] + MOVES[actions[n, t]][1])
            inside = 0 <= to[0] < 5 and 0 <= to[1] < 6
            at = to if inside and not walls[n][to] else at
            assert (int(states.row[n, t]), int(states.column[n, t])) == at
            assert np.isclose(steps.reward[n, t], rewards[n][at] - 0.5)
            assert bool(steps.terminated[n, t]) == goals[n][at]
            assert bool(steps.truncated[n, t]) == (t + 1 >= length - 3 and not goals[n][at])
            assert np.argwhere(steps.observation[n, t, :, :, 0]).tolist() == [list(at)]
            ends += goals[n][at]
        np.testing.assert_array_equal(steps.observation[n, 0, :, :, 1], walls[n])
        np.testing.assert_array_equal(steps.observation[n, 0, :, :, 2], goals[n])
    assert ends > 10


def test_every_start_is_as_likely(key):
    env = GridWorld.from_text("..#\nG..")
    state = jax.jit(jax.vmap(env.reset))(jax.random.split(key, 8000))[0]
    counts = np.bincount(np.asarray(3 * state.row + state.column), minlength=6) / 8000
    np.testing.assert_allclose(counts, [0.25, 0.25, 0, 0, 0.25, 0.25], atol=0.02)


def test_default_map_has_the_length_of_the_docstring(key):
    env = GridWorld()
    walls, goals = env.walls, env.goals
    distance = np.where(goals, 0, 99)
    for _ in range(40):
        padded = np.pad(distance, 1, constant_values=99)
        near = np.minimum.reduce([padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]])
        distance = np.where(walls, 99, np.minimum(distance, near + 1))
    assert f"{distance[env.starts].max()} steps from the goal" in GridWorld.__doc__.replace("\n   ", "")
    assert env.rewards[goals].item() == 1


@pytest.mark.long
def test_four_rooms_is_gymnaxs_map_and_slips_as_it_does(key):
    from gymnax.environments.misc.rooms import four_rooms_map

    env = FourRooms()
    np.testing.assert_array_equal(env.walls, [[c == "x" for c in row] for row in four_rooms_map.split("\n")[1:]])
    assert np.argwhere(env.goals).tolist() == [[8, 9]]
    assert env.starts.sum() == 104 - 1
    state, _ = env.reset(key)
    state = state._replace(row=jnp.int32(2), column=jnp.int32(2))
    step = jax.jit(jax.vmap(env.step, (0, None, None)))
    for action in range(4):
        moved = step(jax.random.split(key, 9000), state, jnp.int32(action))[0]
        for direction, (down, right) in enumerate(MOVES):
            share = np.mean((np.asarray(moved.row) == 2 + down) & (np.asarray(moved.column) == 2 + right))
            assert abs(share - (2 / 3 if direction == action else 1 / 9)) < 0.02


def test_maps_with_errors():
    for text, message in [("..\n.", "one length"), (".x", "unknown letters"), ("##", "start cell")]:
        with pytest.raises(InputError, match=message):
            read_map(text)
    np.testing.assert_array_equal(read_map("SGH")["rewards"], [[0, 1, -1]])


def test_maps_are_drawn_and_mutated(key):
    env, num = GridWorld(), 1000
    keys = jax.random.split(key, 2 * num).reshape(2, num)
    drawn = jax.jit(jax.vmap(env.draw_level))(keys[0])
    mutated = jax.jit(jax.vmap(env.mutate_level))(keys[1], drawn)
    before, after = (jax.tree.map(np.asarray, levels) for levels in (drawn, mutated))
    for levels in (before, after):
        assert levels["walls"][:, [0, -1]].all() and levels["walls"][:, :, [0, -1]].all(), "the border stays"
        for name in ("goals", "starts"):
            assert np.all(levels[name].sum(axis=(1, 2)) == 1) and not np.any(levels[name] & levels["walls"])
        assert not np.any(levels["goals"] & levels["starts"])
        np.testing.assert_array_equal(levels["rewards"], levels["goals"].astype(np.float32))
    share = before["walls"][:, 1:-1, 1:-1].mean(axis=(1, 2))
    assert 0.15 < share.mean() < 0.25 and share.max() > 0.35
    assert before["goals"].any(axis=0)[1:-1, 1:-1].all(), "a goal anywhere within"
    flipped = (before["walls"] != after["walls"]).sum(axis=(1, 2))
    moved = (before["goals"] != after["goals"]).any(axis=(1, 2))
    assert np.all(flipped == ~moved) and 0.07 < moved.mean() < 0.13
    np.testing.assert_array_equal(before["starts"], after["starts"])


def test_levels_of_a_small_map_leave_its_border(key):
    env = GridWorld.from_text("####\n#SG#\n#..#\n####")
    levels = jax.jit(jax.vmap(env.draw_level))(jax.random.split(key, 2000))
    walls = np.asarray(levels["walls"])
    assert walls[:, [0, -1]].all() and walls[:, :, [0, -1]].all()


def test_a_slip_goes_any_other_way(key):
    env = GridWorld(slip=1.0)
    state = GridState(row=jnp.int32(2), column=jnp.int32(2), time=jnp.int32(0))
    env = dataclasses.replace(env, walls=jnp.zeros_like(env.walls))
    after = jax.vmap(lambda key: env.step(key, state, jnp.int32(0))[0])(jax.random.split(key, 64))
    moves = np.stack([after.row - 2, after.column - 2], -1)
    assert {tuple(move) for move in moves.tolist()} == {(1, 0), (0, 1), (0, -1)}
