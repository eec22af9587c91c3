"""Measures an environment: its speed, and statistics of random play."""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from purerl.agent_groups import mean_reward
from purerl.loop.vector import vectorize
from purerl.prng import fast
from purerl.testing.play import RandomPlay
from purerl.types import Array, Environment, Key, PyTree

BATCH_SIZES = (1, 64, 2048, 16384)
RESET_SHARE_AT = 2048


def measure_environment(env: Environment, key: Key, steps: int = 64) -> dict[str, float | str]:
    """Return steps per second of random play at several batch sizes, and the fraction of time spent on resets.

    Args:
      env: the environment.
      key: for random play.
      steps: steps of each environment per timed call.
    """
    figures: dict[str, float | str] = {}
    for batch in BATCH_SIZES:
        with_reset = _seconds(_run(env, batch, steps, reset=True), key)
        figures[f"steps per second, {batch} in parallel"] = batch * steps / with_reset
        if batch == RESET_SHARE_AT:
            without = _seconds(_run(env, batch, steps, reset=False), key)
            share = float(np.clip(1.0 - without / with_reset, 0.0, 1.0))
            figures["fraction of time in resets"] = share
    return figures


def _run(env: Environment, batch: int, steps: int, reset: bool) -> Callable[[Key], PyTree]:
    vector = vectorize(env, batch)

    @jax.jit
    def run(key: Key) -> PyTree:
        state, _ = vector.reset(key)
        sample = lambda key: jax.vmap(env.action_space.sample)(jax.random.split(key, batch))

        # The next action is carried, as one from a network would lie in memory.
        def step(carry: tuple[PyTree, PyTree], key: Key):
            state, actions = carry
            next_action = sample(key)
            if reset:
                state, _, timestep = vector.step(key, state, actions)
                return (state, next_action), mean_reward(timestep.reward).sum()
            env_state, timestep = jax.vmap(env.step)(jax.random.split(key, batch), state.env_state, actions)
            return (state._replace(env_state=env_state), next_action), mean_reward(timestep.reward).sum()

        return jax.lax.scan(step, (state, sample(key)), jax.random.split(key, steps))

    return run


def _seconds(function: Callable[[Key], PyTree], key: Key, repeats: int = 3) -> float:
    """Return the median time of a call, in seconds, after one call that compiles."""
    jax.block_until_ready(function(key))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(function(key))
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def figures_of(env: Environment, record: RandomPlay) -> dict[str, float | str]:
    """Return statistics of random play in an environment: sizes, episodes, and whether it is differentiable."""
    step = record.result[1]
    done = step.terminated | step.truncated
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(env.observation_space.struct))
    figures: dict[str, float | str] = {"bytes per observation": str(size)}
    figures["episodes ended in random play"] = f"{done.sum()} in {done.size} steps"
    if done.any():
        figures["mean return of random play"] = float(record.episode_return[done].mean())
        figures["mean length of random play"] = float(record.length[done].mean())
    figures["gradients"] = _gradients(env)
    return figures


def _gradients(env: Environment) -> str:
    """Return whether rewards and states are differentiable with respect to the state and the action."""

    def outcome(floats: PyTree, rest: PyTree, key: Key) -> Array:
        state, action = jax.tree.map(lambda x, y: x if y is None else y, floats, rest, is_leaf=lambda x: x is None)
        after, timestep = env.step(key, state, action)
        leaves = [x for x in jax.tree.leaves(after) if jnp.issubdtype(x.dtype, jnp.floating)]
        return mean_reward(timestep.reward) + sum((jnp.sum(x).astype(jnp.float32) for x in leaves), jnp.float32(0))

    key = fast(jax.random.key(0))
    inputs = (jax.eval_shape(env.reset, key)[0], env.action_space.struct)
    is_float = lambda x: jnp.issubdtype(x.dtype, jnp.floating)
    floats = jax.tree.map(lambda x: x if is_float(x) else None, inputs)
    rest = jax.tree.map(lambda x: None if is_float(x) else x, inputs)
    if not jax.tree.leaves(floats):
        return "none: neither the state nor the action holds floats"
    try:
        jax.eval_shape(jax.grad(outcome), floats, rest, key)
    except Exception as error:
        return f"none: {str(error).strip().splitlines()[0]}"
    return "reverse mode"
