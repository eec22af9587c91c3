"""Measure the speed of an environment."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from purerl.agent_groups import mean_reward
from purerl.loop.vector import vectorize
from purerl.types import Environment, Key

BATCH_SIZES = (1, 64, 2048, 16384)
RESET_SHARE_AT = 2048


def measure_environment(env: Environment, key: Key, steps: int = 64) -> dict[str, float | str]:
    """Return steps per second of random play at several batch sizes, and the share that resetting takes of it.

    Args:
      env: the environment.
      key: for random play.
      steps: steps of each environment per timed call.
    """
    figures: dict[str, float | str] = {}
    for batch in BATCH_SIZES:
        with_reset = _seconds(_run(env, batch, steps, reset=True), key)
        figures[f"steps per second, {batch} side by side"] = batch * steps / with_reset
        if batch == RESET_SHARE_AT:
            without = _seconds(_run(env, batch, steps, reset=False), key)
            share = float(np.clip(1.0 - without / with_reset, 0.0, 1.0))
            figures["share of resets in the time"] = share
    return figures


def _run(env: Environment, batch: int, steps: int, reset: bool) -> Callable[[Key], Any]:
    vector = vectorize(env, batch)

    @jax.jit
    def run(key: Key) -> Any:
        state, _ = vector.reset(key)
        sample = lambda key: jax.vmap(env.action_space.sample)(jax.random.split(key, batch))

        # The next action is carried, as one from a network would lie in memory.
        def step(carry: tuple[Any, Any], key: Key):
            state, actions = carry
            next_action = sample(key)
            if reset:
                state, _, timestep = vector.step(key, state, actions)
                return (state, next_action), mean_reward(timestep.reward).sum()
            env_state, timestep = jax.vmap(env.step)(jax.random.split(key, batch), state.env_state, actions)
            return (state._replace(env_state=env_state), next_action), mean_reward(timestep.reward).sum()

        return jax.lax.scan(step, (state, sample(key)), jax.random.split(key, steps))

    return run


def _seconds(function: Callable[[Key], Any], key: Key, repeats: int = 3) -> float:
    """Return the median time of a call, in seconds, after one that compiles."""
    jax.block_until_ready(function(key))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(function(key))
        times.append(time.perf_counter() - start)
    return float(np.median(times))
