"""The search for neighbors against a stable sort of all distances."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.xla import neighbors, switches
from purerl.xla.neighbors import by_keys, by_minima, by_top_k

N = 40


def by_sorting(x, y, active, k):
    """Return (numbers, found) [n, k]; what is not found has number -1."""
    square = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2
    square = np.where(active & ~np.eye(len(x), dtype=bool), square, np.inf)
    order = np.argsort(square, axis=1, kind="stable")[:, :k]
    found = np.isfinite(np.take_along_axis(square, order, 1))
    return np.where(found, order, -1), found


def places():
    """Return x, y f32[5, N]: anywhere; on a coarse grid; in a heap; an ulp apart; in two heaps an ulp apart.

    The squares of all distances are exact or on a line, so that no rounding decides.
    """
    rng = np.random.default_rng(0)
    anywhere = rng.integers(0, 2000, (2, N)).astype(np.float32)
    grid = rng.integers(0, 4, (2, N)).astype(np.float32)
    heap = np.where(rng.random(N) < 0.6, 3.0, rng.integers(0, 9, (2, N))).astype(np.float32)
    ulp = np.float32(1e3) + np.arange(N, dtype=np.float32) * np.spacing(np.float32(1e3))
    line = np.stack([rng.permutation(ulp), np.zeros(N, np.float32)])
    line[0, 7] = 0.0  # who sees all others at almost the same distance
    heaps = np.stack([np.where(np.arange(N) % 3, ulp[0], ulp[1]), np.zeros(N, np.float32)])
    heaps[0, [4, 9]] = 0.0
    return np.stack([anywhere, grid, heap, line, heaps], axis=1)


@pytest.mark.long_for("by_keys-6-1", "by_minima-50-1")
@pytest.mark.parametrize(
    ("search", "k", "chunk"),
    [(by_keys, 6, 1), (by_top_k, 6, 64), (by_top_k, 50, 16), (by_minima, 6, 1), (by_minima, 50, 1)],
)
def test_neighbors_are_those_of_a_stable_sort(search, k, chunk):
    x, y = places()
    active = np.random.default_rng(1).random(x.shape) < 0.9
    some = np.array([7, 0, 33], np.int32)
    one, three = (jax.jit(lambda *at, of=of: search(*at, of, k, chunk)) for of in (None, some))
    for case in range(len(x)):
        index, found = (np.asarray(part) for part in one(x[case], y[case], active[case]))
        expected, there = by_sorting(x[case], y[case], active[case], k)
        np.testing.assert_array_equal(found[:, :N], there, f"case {case}")
        np.testing.assert_array_equal(np.where(found, index, -1)[:, :N], expected, f"case {case}")
        assert not found[:, N:].any()
        few, there = (np.asarray(part) for part in three(x[case], y[case], active[case]))
        np.testing.assert_array_equal(few, index[some])
        np.testing.assert_array_equal(there, found[some])


def near_ties(n, seed):
    """Return x, y f32[8, n], active bool[8, n] where keys of distance and number deceive.

    The squares of all distances are powers of two times small numbers, or on a line, so that no rounding decides: pairs
    in the wrong order by an ulp; the same three, four and more; more than are searched for; everyone at one point but
    for some; nobody active; one active; two far heaps an ulp apart; anywhere.
    """
    rng = np.random.default_rng(seed)
    ulp = np.spacing(np.float32(1000))
    steps = np.arange(n, dtype=np.float32)
    x, y, active = np.zeros((8, n), np.float32), np.zeros((8, n), np.float32), np.ones((8, n), bool)
    for case, group in enumerate((2, 3, 4, n)):
        # Ever later agents are ever nearer to those at the origin, by an ulp within a group of equal keys.
        place = np.float32(1000) + 8 * (steps // group) - ulp * (steps % group)
        x[case] = place if case < 3 else rng.permutation(place)
        x[case, [1, n // 2]] = 0.0
    x[4, ::5] = 2.0
    active[5] = False
    active[6] = steps == 3
    x[7] = np.where(rng.random(n) < 0.5, 1000, 1000 + ulp)
    x[7, ::9] = 0.0
    return x, y, active


def test_keys_in_the_wrong_order_are_settled_by_distance():
    """Seen from agent 0, agents 1 to 5 are ever nearer, each by an ulp: their keys are ordered by number."""
    x = np.float32(1000) - np.spacing(np.float32(1000)) * np.arange(6, dtype=np.float32)
    x[0] = 0.0
    zeros, everyone = np.zeros(6, np.float32), np.ones(6, bool)
    index, found = jax.jit(lambda x: by_keys(x, zeros, everyone, np.array([0], np.int32), 3, 1))(x)
    assert index.tolist() == [[5, 4, 3]] and found.all()


@pytest.mark.long
@pytest.mark.parametrize("n", [12, 40, 140, 300])
def test_keys_that_collide_are_settled_by_distance(n):
    k = 6
    x, y, active = near_ties(n, n)
    one = lambda x, y, active: by_keys(x, y, active, None, k, 1)
    rows = np.stack([np.arange(len(x)) + 3, np.full(len(x), 1)], axis=1).astype(np.int32)
    index, found = (np.asarray(part) for part in jax.jit(jax.vmap(one))(x, y, active))
    pairs = [part.reshape(4, 2, n) for part in (x, y, active)]
    twice = [np.asarray(part) for part in jax.vmap(jax.jit(jax.vmap(one)))(*pairs)]
    few = jax.jit(jax.vmap(lambda x, y, active, rows: by_keys(x, y, active, rows, k, 1)))(x, y, active, rows)
    for case in range(len(x)):
        expected, there = by_sorting(x[case], y[case], active[case], k)
        np.testing.assert_array_equal(found[case], there, f"case {case}")
        np.testing.assert_array_equal(np.where(found[case], index[case], -1), expected, f"case {case}")
        np.testing.assert_array_equal(np.asarray(few[0])[case], index[case][rows[case]], f"case {case}")
        np.testing.assert_array_equal(np.asarray(few[1])[case], found[case][rows[case]], f"case {case}")
    assert index.min() >= 0 and index.max() < n
    np.testing.assert_array_equal(twice[0].reshape(index.shape), index)
    np.testing.assert_array_equal(twice[1].reshape(found.shape), found)


@pytest.mark.long_for("1", "2500", "65536")
@pytest.mark.parametrize("pairs", [1, 2500, 1 << 16])
def test_parts_of_any_size_find_the_same(pairs, monkeypatch):
    monkeypatch.setattr(neighbors, "PAIRS", pairs)
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 50, (2, 7, 21)).astype(np.float32)
    index, found = jax.jit(jax.vmap(lambda x, y: by_keys(x, y, np.ones(21, bool), None, 30, 1)))(x, y)
    for crowd in range(7):
        expected, there = by_sorting(x[crowd], y[crowd], np.ones(21, bool), 30)
        np.testing.assert_array_equal(np.where(found, index, -1)[crowd, :, :20], expected[:, :20])
        np.testing.assert_array_equal(found[crowd, :, :20], there[:, :20])
    assert not found[:, :, 20:].any()


@pytest.mark.long
def test_too_many_agents_for_keys_are_compared_by_distance(monkeypatch):
    monkeypatch.setattr(neighbors, "MOST", 8)
    monkeypatch.setattr(neighbors, "_in_parts", None)
    x = jnp.arange(9, dtype=jnp.float32) ** 2
    index, _ = by_keys(x, jnp.zeros(9), jnp.ones(9, jnp.bool_), None, 3, 4)
    np.testing.assert_array_equal(index[5], [4, 6, 3])


def test_who_is_not_active_has_no_neighbors():
    x, active = jnp.arange(6.0) ** 2, jnp.arange(6) != 2
    number, found = neighbors.nearest(x, jnp.zeros(6), active, rows=None, k=2, chunk=2)
    np.testing.assert_array_equal(found, np.broadcast_to(active[:, None], (6, 2)))
    assert number[3].tolist() == [4, 1] and 2 not in np.asarray(number)[np.asarray(found)]
    some = jnp.asarray([2, 3], jnp.int32)
    assert neighbors.nearest(x, jnp.zeros(6), active, rows=some, k=2, chunk=2)[1].tolist() == [[False] * 2, [True] * 2]


@pytest.mark.long
def test_its_switch_searches_by_top_k(monkeypatch):
    x, y, active = jnp.arange(6.0) ** 2, jnp.zeros(6), jnp.ones(6, jnp.bool_)
    found = neighbors.nearest(x, y, active, rows=None, k=2, chunk=2)
    for name in ("by_keys", "by_minima"):
        monkeypatch.setattr(neighbors, name, None)
    with switches.off("neighbors"):
        jax.tree.map(np.testing.assert_array_equal, neighbors.nearest(x, y, active, rows=None, k=2, chunk=2), found)
