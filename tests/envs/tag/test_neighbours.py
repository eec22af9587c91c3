"""The search for neighbours against a stable sort of all distances."""

import jax
import numpy as np
import pytest

from purerl.envs.tag.neighbours import by_insertion, by_top_k

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


@pytest.mark.parametrize(("search", "k", "chunk"), [(by_insertion, 6, 1), (by_top_k, 6, 64), (by_top_k, 50, 16)])
def test_neighbours_are_those_of_a_stable_sort(search, k, chunk):
    x, y = places()
    active = np.random.default_rng(1).random(x.shape) < 0.9
    one = jax.jit(lambda x, y, active: search(x, y, active, None, k, chunk))
    for case in range(len(x)):
        index, found = (np.asarray(part) for part in one(x[case], y[case], active[case]))
        expected, there = by_sorting(x[case], y[case], active[case], k)
        np.testing.assert_array_equal(found[:, :N], there, f"case {case}")
        np.testing.assert_array_equal(np.where(found, index, -1)[:, :N], expected, f"case {case}")
        assert not found[:, N:].any()
        some = np.array([7, 0, 33], np.int32)
        few, there = (np.asarray(part) for part in search(x[case], y[case], active[case], some, k, chunk))
        np.testing.assert_array_equal(few, index[some])
        np.testing.assert_array_equal(there, found[some])
