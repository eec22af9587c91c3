"""Particles: which of them survive, and which first action has the largest weight."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.planning import particles as file


@pytest.mark.long
def test_systematic_resampling_keeps_the_share_of_each():
    weight = np.array([[0.5, 0.3, 0.2, 0.0], [0.25, 0.25, 0.25, 0.25]])
    counts = np.zeros((2, 4))
    for seed in range(200):
        kept = np.asarray(file.survivors(jax.random.key(seed), jnp.log(jnp.asarray(weight, jnp.float32) + 1e-30)))
        each = np.stack([np.bincount(row, minlength=4) for row in kept])
        assert (each >= np.floor(4 * weight - 1e-6)).all() and (each <= np.ceil(4 * weight + 1e-6)).all()
        counts += each
    np.testing.assert_array_equal(kept[1], np.arange(4), "equal weights keep all")
    np.testing.assert_allclose(counts / 800, weight, atol=0.02)


def test_equal_actions_add_up():
    first = jnp.array([[0, 1, 1], [2, 0, 1], [0, 1, 1]])
    weight = jnp.array([[0.4, 0.3, 0.3], [0.5, 0.3, 0.2], [0.6, 0.2, 0.2]])
    assert first[jnp.arange(3), file.heaviest(first, weight)].tolist() == [1, 2, 0]
    both = {"a": first, "b": jnp.array([[[0.0], [1.0], [2.0]]] * 3)}
    assert file.heaviest(both, weight).tolist() == [0, 0, 0], "actions are equal in all their parts"


def test_survivors_are_by_gain_over_temperature_and_gain_anew():
    """At a temperature of 1/2 the weights are 1/2, 1/4, 1/4 and 0, so of four particles the first survives twice."""
    gain = 0.5 * jnp.log(jnp.array([0.5, 0.25, 0.25, 1e-9]))
    row, none = jnp.arange(4), jnp.zeros(4, bool)
    before = file.Particles(situation=row, value=row, done=none, first=row, gain=gain)
    after = lambda keep: file._resampled(jax.random.key(0), before, 4, temperature=jnp.float32(0.5), keep=keep)
    assert after(False).first.tolist() == [0, 0, 1, 2] and after(True).first.tolist() == [0, 1, 2, 3]
    assert not after(False).gain.any()
