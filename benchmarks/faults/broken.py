"""Environments that are broken in one way each, in JAX and on the host."""

import os
import sys
import time
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from purerl.spaces import Box, Discrete, Space
from purerl.types import Environment, TimeStep, pytree, static


class State(NamedTuple):
    """How far an episode is."""

    time: jax.Array  # i32[]


def _die(time: Any) -> Any:
    raise OSError("the callback failed")


@pytree
class Broken(Environment):
    """Episodes of ten steps; `fault` is a key of `JAX_FAULTS`."""

    fault: str = static(default="none")

    @property
    def observation_space(self) -> Space:
        """Two numbers."""
        return Box(low=-1.0, high=1.0, shape=(2,))

    @property
    def action_space(self) -> Space:
        """Two actions."""
        return Discrete(n=2)

    def reset(self, key: Any) -> Any:
        """Start an episode."""
        state = State(jnp.int32(0))
        if self.fault == "raises in reset":
            raise ValueError("broken\nin two lines \x1b[31m")
        observation = jnp.zeros(3 if self.fault == "another shape in reset" else 2)
        return state, jnp.full(2, jnp.nan) if self.fault == "NaN in reset" else observation

    def step(self, key: Any, state: State, action: Any) -> Any:
        """Take a step."""
        fault, now = self.fault, state.time + 1
        if fault == "raises in step":
            raise KeyError("broken")
        if fault == "sys.exit in step":
            sys.exit(7)
        if fault == "recursion":
            return self.step(key, state, action)
        if fault == "if of a traced value" and now > 3:
            now = now + 1
        if fault == "callback raises":
            jax.debug.callback(_die, now)
        reward = jnp.where(now > 5, {"NaN reward": jnp.nan, "infinite reward": jnp.inf}.get(fault, 1.0), 1.0)
        observation = jnp.full(3 if fault == "another shape in step" else 2, 0.5)
        if fault == "another dtype in step":
            observation = observation.astype(jnp.int32)
        if fault == "NaN observation":
            observation = jnp.where(now > 5, jnp.nan, observation)
        reward = jnp.ones(2) if fault == "a reward of two numbers" else jnp.float32(reward)
        after: Any = (now, now) if fault == "another state in step" else State(now)
        if fault == "returns nothing":
            return None
        return after, TimeStep.transition(observation, reward, terminated=now >= 10)


JAX_FAULTS = (
    *("raises in reset", "another shape in reset", "NaN in reset", "raises in step", "sys.exit in step", "recursion"),
    *("if of a traced value", "callback raises", "NaN reward", "infinite reward", "another shape in step"),
    *("another dtype in step", "NaN observation", "a reward of two numbers", "another state in step"),
    "returns nothing",
)


class BrokenOnHost(gymnasium.Env):
    """Episodes of ten steps, of which the third breaks; `fault` is a key of `HOST_FAULTS`."""

    def __init__(self, fault: str = "none"):
        """Make it, unless that is what is broken."""
        self.observation_space = gymnasium.spaces.Box(low=-1.0, high=1.0, shape=(2,), dtype=np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._fault, self._time, self._episodes = fault, 0, 0
        if fault == "raises when made":
            raise RuntimeError("broken")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode."""
        super().reset(seed=seed)
        self._time, self._episodes = 0, self._episodes + 1
        if self._episodes == 3 and self._fault == "raises in reset":
            raise ValueError("broken\nin two lines \x1b[31m")
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        """Take a step."""
        self._time += 1
        fault = self._fault if self._episodes == 3 else ""
        observation, reward = np.full(2, 0.5, np.float32), 1.0
        match fault:
            case "raises in step":
                raise KeyError("broken")
            case "sys.exit in step":
                sys.exit(7)
            case "os._exit in step":
                os._exit(9)
            case "hangs":
                time.sleep(1000)
            case "KeyboardInterrupt":
                raise KeyboardInterrupt
            case "NaN reward":
                reward = float("nan")
            case "NaN observation":
                observation[:] = np.nan
            case "another shape":
                observation = np.zeros(3, np.float32)
            case "returns nothing":
                return None
            case "reward is a text":
                reward = "one"
        return observation, reward, self._time >= 10, False, {}


HOST_FAULTS = (
    *("raises when made", "raises in reset", "raises in step", "sys.exit in step", "os._exit in step", "hangs"),
    *("KeyboardInterrupt", "NaN reward", "NaN observation", "another shape", "returns nothing", "reward is a text"),
)
gymnasium.register("Broken-v0", entry_point="benchmarks.faults.broken:BrokenOnHost", disable_env_checker=True)
