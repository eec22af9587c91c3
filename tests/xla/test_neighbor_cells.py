"""Neighbors by cells against a stable sort of all distances, for crowds of every kind."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerl.xla import neighbor_cells, neighbors
from tests.xla.test_neighbors import by_sorting

N, K = 300, 2
KINDS = ("anywhere", "grid", "heaps", "a line", "one place", "corners")


def crowd(kind, seed):
    """Return x, y f32[N] whose squares of distances are exact, so that no rounding decides."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-1000, 1000, (2, N))
    if kind == "grid":
        x, y = x // 200, y // 200
    elif kind == "heaps":
        heap = rng.integers(0, 3, N)
        x, y = 900 * (heap - 1) + x // 100, 900 * (heap % 2) + y // 100
    elif kind == "a line":
        y = np.zeros_like(y)
    elif kind == "one place":
        x, y = np.full_like(x, 7), np.full_like(y, -7)
    elif kind == "corners":
        x, y = np.clip(2 * x, -1000, 1000), np.clip(2 * y, -1000, 1000)
    return x.astype(np.float32), y.astype(np.float32)


@pytest.fixture(scope="module")
def by_cells():
    assert neighbor_cells.fits(N, K) and not neighbor_cells.fits(287, K) and not neighbor_cells.fits(5000, 11)
    search = jax.jit(jax.vmap(lambda x, y, active: neighbors.nearest(x, y, active, rows=None, k=K, chunk=1)))
    return lambda *crowd: [np.asarray(part)[0] for part in search(*(part[None] for part in crowd))]


@pytest.mark.long
@settings(max_examples=60, deadline=None, derandomize=True)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 1000), share=st.sampled_from([0.0, 0.01, 0.5, 0.95, 1.0]))
def test_cells_find_what_a_stable_sort_finds(by_cells, kind, seed, share):
    x, y = crowd(kind, seed)
    active = np.random.default_rng(seed).random(N) < share
    number, found = by_cells(x, y, active)
    expected, there = by_sorting(x, y, active, K)
    np.testing.assert_array_equal(found, there & active[:, None])
    np.testing.assert_array_equal(number[found], expected[found])
    assert number.min() >= 0 and number.max() < N


@pytest.mark.long
def test_few_are_compared_with_all():
    """Else windows would not be worth their cost."""
    rng = np.random.default_rng(0)
    x, y = rng.random((2, N), np.float32)
    grid = neighbor_cells.arrange(x, y, np.ones(N, bool), neighbor_cells.width(K))
    keys, place, margin = neighbor_cells.in_windows(grid, K)
    sure = neighbor_cells.sure(keys, margin, neighbor_cells.low_bits(place))
    assert np.asarray(sure)[np.isfinite(np.asarray(grid.x)).reshape(sure.shape)].mean() > 0.96
