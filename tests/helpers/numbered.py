"""Rollouts whose every entry is a number of its own."""

import jax.numpy as jnp
import numpy as np

from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(2,)), Discrete(n=3))


def rollout(length=4, num_envs=2, start=0, ends=None):
    number = start + np.arange(length * num_envs, dtype=np.float32).reshape(length, num_envs)
    ends = np.zeros((length, num_envs), int) if ends is None else ends
    pair = lambda x: jnp.asarray(np.stack([x, -x], axis=-1))
    seen = {
        "q": jnp.zeros((length, num_envs)),
        "best_q": jnp.zeros((length, num_envs)),
        "td_error": jnp.asarray(number),
        "known": jnp.ones((length, num_envs), bool),
    }
    carry = (jnp.full((num_envs, 6), number[0, 0]), jnp.zeros((num_envs, 6)))
    return Rollout(
        observation=pair(number),
        action=jnp.asarray(number % 3, jnp.int32),
        reward=jnp.asarray(number),
        terminated=jnp.asarray(ends == 1),
        truncated=jnp.asarray(ends == 2),
        next_observation=pair(number + 0.5),
        extras=seen,
        carry=carry,
    )
