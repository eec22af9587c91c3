"""Value targets: their scale, and lambda returns over root values."""

import jax.numpy as jnp
import numpy as np

from purerl.planning.config import SearchConfig
from purerl.planning.value_targets import from_scale, search_returns, to_scale
from purerl.types import Rollout


def test_scales():
    value = jnp.array([-200.0, 0.0, 3.0])
    plain, squeezed = SearchConfig(rescale_value=False), SearchConfig()
    np.testing.assert_array_equal(to_scale(plain, value), value)
    np.testing.assert_allclose(to_scale(squeezed, value)[2], 2.0 - 1.0 + 0.003, rtol=1e-6)
    np.testing.assert_allclose(from_scale(squeezed, to_scale(squeezed, value)), value, rtol=1e-4)


def test_returns_over_root_values():
    """With r = 1 per step and discount 0.5: v = 10, 20, 30, and the network's 40 after the last step."""
    column = lambda x: jnp.asarray(x)[:, None]

    def returns(td_lambda, uniform=(False, False, False), terminated=(False, False, False)):
        extras = {"root_value": column(np.array([10.0, 20.0, 30.0], np.float32)), "uniform": column(np.array(uniform))}
        rollout = Rollout(
            observation=(),
            action=(),
            reward=jnp.ones((3, 1)),
            terminated=column(np.array(terminated)),
            truncated=jnp.zeros((3, 1), bool),
            next_observation=(),
            extras=extras,
            carry=(),
        )
        return search_returns(rollout, column(np.array([4.0, 5.0, 40.0], np.float32)), 0.5, td_lambda)[:, 0].tolist()

    assert returns(1.0) == [1 + 0.5 * (1 + 0.5 * 21), 1 + 0.5 * 21, 21]
    assert returns(0.0) == [11, 16, 21]
    assert returns(1.0, terminated=(False, True, False)) == [1.5, 1, 21]
    assert returns(1.0, uniform=(False, True, False)) == [11, 20, 21], (
        "the root value replaces the return of a uniform action"
    )
