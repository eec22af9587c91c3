"""Tabular Q-learning whose every number is known."""

import jax.numpy as jnp
import numpy as np

from purerl.algos.dqn import DQNConfig
from purerl.networks.q_networks import QNetwork
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

OBSERVATION = Box(low=-1.0, high=1.0, shape=(2,))


SPEC = EnvironmentSpec(OBSERVATION, Discrete(n=2))


TABLE = QNetwork(  # Q(s, a) by the state's number, which is the observation's first entry
    lambda key: jnp.zeros((4, 2)), lambda params, observation, noise=None: params[observation[..., 0].astype(jnp.int32)]
)


def small(**changes):
    settings = {"num_envs": 4, "batch_size": 64, "replay_capacity": 64, "learning_starts": 64, "learning_rate": 0.05}
    return DQNConfig(
        **{**settings, "rollout_length": 4, "num_gradient_steps": 20, "target_update_interval": 5, **changes}
    )


def loop(truncated, length=4, num_envs=4, every=2):
    """One state, reward 1 per step; every second step is the last of its episode."""
    ends = jnp.broadcast_to((jnp.arange(length) % every == every - 1)[:, None], (length, num_envs))
    zeros = jnp.zeros((length, num_envs, 2))
    never = jnp.zeros_like(ends)
    flags = (never, ends) if truncated else (ends, never)
    return Rollout(zeros, jnp.zeros((length, num_envs), jnp.int32), jnp.ones(ends.shape), *flags, zeros, (), ())


def fixed(**parts):
    """A replay that always returns the same four transitions, and adds what priorities it was given."""
    full = {name: jnp.broadcast_to(jnp.asarray(value), (4, *np.shape(value))) for name, value in parts.items()}
    batch = Transitions(**full, start=jnp.arange(4, dtype=jnp.int32))
    return Replay(
        init=lambda: jnp.zeros(4),
        add=lambda state, _: state,
        sample=lambda state, _: batch,
        update=lambda s, batch, error: s + error,
    )


PARAMS = jnp.array([[2.0, 4.0], [6.0, 5.0], [0.0, 0.0], [0.0, 0.0]])


STEP = {
    "observation": jnp.array([0.0, 0.0]),
    "action": jnp.int32(1),
    "reward": jnp.float32(1.0),
    "discount": jnp.float32(0.5),
    "next_observation": jnp.array([1.0, 0.0]),
}
