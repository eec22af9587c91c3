"""Integers: samples are uniform, invalid values are refused."""

import jax
import numpy as np
import pytest

from purerl.spaces import Discrete, MultiDiscrete
from tests.helpers.refusals import refused


@pytest.mark.long
def test_discrete_samples_are_uniform(key):
    """Chi-square over 9 degrees of freedom; 27.9 is exceeded once in a thousand."""
    samples = jax.vmap(Discrete(n=10).sample)(jax.random.split(key, 10_000))
    counts = np.bincount(samples, minlength=10)
    assert len(counts) == 10 and ((counts - 1000) ** 2 / 1000).sum() < 27.9
    parts = jax.vmap(MultiDiscrete(nvec=(2, 5)).sample)(jax.random.split(key, 10_000))
    pairs = np.bincount(np.asarray(parts[:, 0] * 5 + parts[:, 1]), minlength=10)
    assert len(pairs) == 10 and ((pairs - 1000) ** 2 / 1000).sum() < 27.9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Discrete(0), "Discrete: n is 0; it must be a whole number, at least 1"),
        (lambda: Discrete(n=2.5), "Discrete: n is 2.5"),
        (lambda: MultiDiscrete([2, 0]), r"MultiDiscrete: nvec\[1\] is 0"),
        (lambda: MultiDiscrete(3), "nvec is 3; it must be a list"),
        (lambda: MultiDiscrete(()), r"nvec is \(\); it must be a list"),
        (lambda: MultiDiscrete([[2], [3, 4]]), "its rows must have one length"),
        (lambda: Discrete(2**40), "at least 1 and below 2"),
    ],
)
def test_nonsense_is_refused(make, message):
    refused(make, message)
