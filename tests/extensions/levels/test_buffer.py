"""The buffer of levels against a plain one in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.extensions.levels import buffer as buffers
from purerl.extensions.levels.buffer import LevelBuffer


def of(scores, played=None, filled=None, best=None):
    num = len(scores)
    return LevelBuffer(
        level={"x": jnp.arange(num, dtype=jnp.int32), "y": jnp.zeros((num, 2))},
        score=jnp.asarray(scores, jnp.float32),
        best_return=jnp.zeros(num) if best is None else jnp.asarray(best, jnp.float32),
        played=jnp.zeros(num, jnp.int32) if played is None else jnp.asarray(played, jnp.int32),
        filled=jnp.int32(num if filled is None else filled),
    )


def test_ranks_and_temperature():
    weights = np.array([1 / 2, 1 / 4, 1, 1 / 3])  # one over the ranks
    found = buffers.probabilities(of([5.0, -1.0, 7.0, 2.0]), jnp.int32(3), 1.0, 0.0)
    np.testing.assert_allclose(found, weights / weights.sum(), rtol=1e-6)
    sharp = buffers.probabilities(of([5.0, -1.0, 7.0, 2.0]), jnp.int32(3), 0.25, 0.0)
    np.testing.assert_allclose(sharp, weights**4 / (weights**4).sum(), rtol=1e-5)


def test_staleness_and_places_that_are_empty():
    buffer = of([5.0, 6.0, 7.0, 99.0], played=[4, 9, 7, 0], filled=3)
    age = np.array([6, 1, 3, 0])
    np.testing.assert_allclose(buffers.probabilities(buffer, jnp.int32(10), 1.0, 1.0), age / 10, rtol=1e-6)
    weights = np.array([1 / 3, 1 / 2, 1, 0])
    mixed = 0.7 * weights / weights.sum() + 0.3 * age / 10
    np.testing.assert_allclose(buffers.probabilities(buffer, jnp.int32(10), 1.0, 0.3), mixed, rtol=1e-5)


def test_levels_that_were_all_played_now_are_as_stale():
    buffer = of([5.0, 6.0, 7.0], played=[4, 4, 9], filled=2)
    np.testing.assert_allclose(buffers.probabilities(buffer, jnp.int32(4), 1.0, 1.0), [0.5, 0.5, 0])


@pytest.mark.long
def test_draws_follow_the_probabilities_without_repeating(key):
    buffer = of([5.0, -1.0, 7.0, 2.0, 9.0], filled=4)
    chances = np.asarray(buffers.probabilities(buffer, jnp.int32(1), 0.7, 0.2))
    keys = jax.random.split(key, 20_000)
    places = np.asarray(jax.jit(jax.vmap(lambda k: buffers.draw(k, buffer, 4, jnp.int32(1), 0.7, 0.2)))(keys))
    assert np.all(np.sort(places, axis=1) == np.arange(4)), "each filled place once"
    np.testing.assert_allclose(np.bincount(places[:, 0], minlength=5) / 20_000, chances, atol=0.015)
    second = [sum(chances[j] * chances[i] / (1 - chances[j]) for j in range(4) if j != i) for i in range(4)]
    np.testing.assert_allclose(np.bincount(places[:, 1]) / 20_000, second, atol=0.015)


@pytest.mark.long
def test_a_level_without_a_chance_still_comes_before_empty_places(key):
    buffer = of([5.0, 6.0, 7.0, 0.0], played=[0, 3, 3, 0], filled=3)
    draw = jax.vmap(lambda k: buffers.draw(k, buffer, 3, jnp.int32(3), 1.0, 1.0))
    assert np.all(np.sort(draw(jax.random.split(key, 100)), axis=1) == np.arange(3))


class Plain:
    """The buffer in plain Python."""

    def __init__(self, capacity):
        self.capacity, self.rows = capacity, []  # [level, score, best return, played]

    def insert(self, level, score, best, now):
        known = next((row for row in self.rows if row[0] == level), None)
        if known is not None:
            known[1:] = [score, max(best, known[2]), now]
        elif len(self.rows) < self.capacity:
            self.rows.append([level, score, best, now])
        else:
            worst = min(self.rows, key=lambda row: row[1])
            if score > worst[1]:
                worst[:] = [level, score, best, now]


@pytest.mark.parametrize("seed", range(3))
def test_insertion(seed):
    """Levels again and again, some equal within a batch too, against the plain buffer."""
    rng, plain = np.random.default_rng(seed), Plain(7)
    buffer = buffers.empty({"walls": jnp.zeros((2, 2), jnp.bool_), "at": jnp.int32(0)}, 7)
    insert = jax.jit(buffers.insert)
    for now in range(12):
        numbers, scores = rng.integers(0, 24, 5), rng.normal(size=5).astype(np.float32)
        best = rng.normal(size=5).astype(np.float32)
        walls = np.stack([(numbers >> bit) & 1 for bit in range(3)] + [np.zeros(5, int)], axis=1).astype(bool)
        level = {"walls": jnp.asarray(walls.reshape(5, 2, 2)), "at": jnp.asarray(numbers // 8, jnp.int32)}
        buffer = insert(buffer, level, jnp.asarray(scores), jnp.asarray(best), jnp.int32(now))
        for row in zip(numbers.tolist(), scores.tolist(), best.tolist(), strict=True):
            plain.insert(*row, now)
        filled = int(buffer.filled)
        walls = np.asarray(buffer.level["walls"]).reshape(7, 4)
        found = walls @ [1, 2, 4, 0] + 8 * np.asarray(buffer.level["at"])
        columns = (found, buffer.score, buffer.best_return, buffer.played)
        rows = list(zip(*(np.asarray(x)[:filled].tolist() for x in columns), strict=True))
        assert rows == [tuple(row) for row in plain.rows]
    assert filled == 7


def test_scored_anew():
    buffer = buffers.rescore(
        of([1.0, 2.0, 3.0], best=[5, 5, 5]),
        jnp.array([2, 0]),
        jnp.array([9.0, 8.0]),
        jnp.array([4.0, 6.0]),
        jnp.int32(7),
    )
    np.testing.assert_array_equal(buffer.score, [8, 2, 9])
    np.testing.assert_array_equal(buffer.best_return, [6, 5, 5])
    np.testing.assert_array_equal(buffer.played, [7, 0, 7])
