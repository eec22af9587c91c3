"""Environments to wrap, and a way to play them."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.prng import fast
from purerl.spaces import Box, Discrete
from purerl.types import Environment, TimeStep, number, pytree


@pytree
class Counter(Environment):
    """Counts; the observation is (count, last action), the reward the count, the end at `end`. Knows no chance."""

    end: int = number(default=7)

    def reset(self, key):
        state = jnp.zeros(2, jnp.int32)
        return state, state.astype(jnp.float32)

    def step(self, key, state, action):
        state = jnp.stack([state[0] + 1, action])
        done = state[0] >= self.end
        reward = state[0].astype(jnp.float32)
        return state, TimeStep.transition(state.astype(jnp.float32), reward, terminated=done)

    @property
    def observation_space(self):
        return Box(low=0, high=np.array([9, 4], np.float32), shape=(2,))

    @property
    def action_space(self):
        return Discrete(n=5)


def play(env, actions, key=None):
    """Return (first observation, time steps) under these actions, past endings too."""
    key = fast(jax.random.key(0)) if key is None else key

    @jax.jit
    def run(env):
        key_reset, key_run = jax.random.split(key)
        state, observation = env.reset(key_reset)

        def step(state, xs):
            state, timestep = env.step(xs[0], state, xs[1])
            return state, timestep

        state, timestep = jax.lax.scan(step, state, (jax.random.split(key_run, len(actions)), actions))
        return state, observation, timestep

    return jax.device_get(run(env))


ACTIONS = jnp.array([1, 2, 3, 4, 1, 2, 3, 4], jnp.int32)


def even_actions(state):
    return jnp.arange(5) % 2 == 0
