"""PPO in one file learns, from public names alone."""

from pathlib import Path

import jax
import numpy as np
import pytest

import purerl
from purerl.errors import InputError

pytestmark = pytest.mark.publish


def test_it_learns_and_is_short(script):
    with jax.numpy_dtype_promotion("standard"):  # as users have it: optax.adam mixes dtypes
        curves = script.main(["--steps", "30000", "--seeds", "2"])
    assert curves.shape == (2, 10) and np.nanmean(curves[:, -1]) > 60, curves  # a random policy's return is 22
    assert len(Path(script.__file__).read_text().splitlines()) < 200


def test_an_advantage_goes_through_a_time_limit_and_not_through_an_ending(script):
    """By hand, with a value of 1 everywhere: r + 0.9 V' - V, plus 0.9 * 0.95 of the next advantage unless done."""
    spec = purerl.EnvironmentSpec(purerl.make("CartPole-v1").observation_space, purerl.Discrete(n=2))
    algorithm = script.ppo(spec, script.PPOConfig(discount=0.9))
    network = script.Network(2)
    params = jax.tree.map(np.zeros_like, network.init(jax.random.key(0), np.zeros(4)))
    params["params"]["Dense_5"]["bias"] = np.ones(1)  # the value's head
    assert float(network.apply(params, np.zeros(4))[1]) == 1
    column = lambda *values: np.array(values)[:, None]
    rollout = purerl.Rollout(
        observation=np.zeros((4, 1, 4), np.float32),
        action=np.zeros((4, 1), np.int32),
        reward=column(1.0, 2.0, 3.0, 4.0),
        terminated=column(False, True, False, False),
        truncated=column(False, False, True, False),
        next_observation=np.zeros((4, 1, 4), np.float32),
        extras={"log_prob": np.zeros((4, 1), np.float32)},
        carry=(),
    )
    update = inner(algorithm.update, "with_advantages")
    samples = update(params, rollout)
    expected = [0.9 + 0.9 * 0.95 * 1.0, 1.0, 2.9, 3.9]
    np.testing.assert_allclose(samples.advantage[:, 0], expected, rtol=1e-5)
    np.testing.assert_allclose(samples.target[:, 0], np.array(expected) + 1, rtol=1e-5)


def inner(function, name):
    """Return a function of a closure by its name."""
    return dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))[name].cell_contents


def test_other_actions_are_refused(script):
    with pytest.raises(InputError, match="needs discrete actions"):
        script.main(["--env", "Pendulum-v1", "--steps", "2000"])
