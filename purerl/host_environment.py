"""The contract of host environments: batches of NumPy arrays, stepped one call at a time.

What `purerl.make` returns for such an id is a `HostSource`: spaces, settings, and `open`, which makes a batch of
environments. An algorithm never sees the difference; the loop of `purerl.host` does the rest.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl.errors import InputError
from purerl.fields import PyTree
from purerl.spaces import Space


class HostStep(NamedTuple):
    """One step of B environments: NumPy arrays, or device arrays if the environment returns them."""

    observation: PyTree  # [B, ...], to act on next
    reward: np.ndarray  # f32[B], to learn from
    terminated: np.ndarray  # bool[B], the task ended: the value of the next state is 0
    truncated: np.ndarray  # bool[B], time ran out
    mask: np.ndarray | None  # bool[B], False where this step only reset an environment; None: nowhere
    next_observation: PyTree  # [B, ...], the final one where the step that ends an episode also resets; else None
    score: np.ndarray  # f32[B], to report: the reward before clipping
    over: np.ndarray  # bool[B], whether an episode that is reported ended: a lost life may end one for learning alone


class TracedSteps(NamedTuple):
    """Steps of host environments as a function for use inside jit, by their library's XLA interface."""

    carry: PyTree  # arrays; one that a step returned goes into the next one
    step: Callable[[PyTree, PyTree], tuple[PyTree, HostStep]]  # (carry, action [B, ...]) -> (carry, step)


class HostEnvironment:
    """B environments that step together."""

    def reset(self, key: jax.Array | None) -> PyTree:
        """Start an episode in every environment and return the observations [B, ...].

        Args:
          key: a JAX key; an environment with random numbers of its own continues with those.
        """
        raise NotImplementedError

    def step(self, action: np.ndarray, keys: PyTree, t: int) -> HostStep:
        """Step every environment; blocks until all are done.

        Args:
          action: [B, ...].
          keys: [T, 2], the rollout's keys; an environment that uses JAX's numbers gets keys[t, 1]. None inside jit.
          t: which step of the rollout this is.
        """
        raise NotImplementedError

    def traced(self) -> TracedSteps | None:
        """Return the remaining steps for use inside jit; None if only `step` itself can be called back."""
        return None

    def snapshot(self) -> PyTree:
        """Return arrays from which `restore` continues bit by bit; () if the environments cannot be saved."""
        return ()

    def restore(self, saved: PyTree) -> PyTree:
        """Continue from a snapshot and return the observations to act on."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the environments' resources."""

    def abandon(self) -> None:
        """Release what can be released while a step hangs: `close` is not called then."""


class HostSource:
    """A kind of host environment: what `purerl.make("envpool/Pong-v5")` returns."""

    id: str  # such as "envpool/Pong-v5"
    parameters: dict[str, Any]  # all of its settings, those not given included

    @property
    def stage(self) -> Any:
        """The source or environment that renders episodes: the source itself, or a JAX environment behind it."""
        return self

    @property
    def observation_space(self) -> Space:
        """The space of one environment's observation, after `prepare`."""
        raise NotImplementedError

    @property
    def action_space(self) -> Space:
        """The space of one environment's action."""
        raise NotImplementedError

    def prepare(self, observation: PyTree) -> PyTree:
        """Return the observations that the agent sees, from the raw ones: a pure function that runs on the device."""
        return observation

    def sent(self, action: PyTree) -> PyTree:
        """Return actions [B, ...] of the space as the environments accept them: NumPy arrays, on the host."""
        return action

    def open(self, num_envs: int, seed: int, parallel: bool, evaluation: bool = False) -> HostEnvironment:
        """Make environments.

        Args:
          num_envs: B.
          seed: environment i gets seed + i.
          parallel: step them in parallel threads or processes, rather than one after another.
          evaluation: play the task itself, without what only helps learning, such as episodes that end with a life.
        """
        raise NotImplementedError

    def snapshot_struct(self, num_envs: int) -> PyTree:
        """Return the shapes and dtypes of `HostEnvironment.snapshot`; () if there is none."""
        return ()


class EnvironmentFailure(RuntimeError):
    """A host environment raised or hung: one line with the environment and the path of the recorded actions."""


def not_inside_jit(source: "HostSource", what: str) -> InputError:
    """Return the error for a host environment where a JAX environment is needed."""
    return InputError(
        f"{source.id} runs on the host, so {what} cannot hold it: loop over make_trainer(...).step, or "
        f"`purerl train`; for several seeds start several runs, for more environments raise num_envs"
    )
