"""Collecting: a group of environments, and the rollout it makes."""

from typing import Any, NamedTuple

import jax
import numpy as np

from purerl.host.acting import Acting, Part
from purerl.host.env_thread import Worker
from purerl.host_environment import HostStep
from purerl.types import Array, Key, PyTree


class GroupRollout(NamedTuple):
    """T steps of one group's B environments: lists of T on-device arrays where the device has them, else NumPy.

    Inside jit these lists are arrays [T, B, ...] already.
    """

    observation: list[PyTree] | PyTree  # T x [B, ...], as the agent saw them
    action: list[PyTree] | PyTree  # T x [B, ...]
    extras: list[PyTree] | PyTree  # T x [B, ...]
    last: PyTree  # [B, ...], the observation after the last step, as it comes
    successor: list[PyTree] | None  # T x [B, ...], as they come; None: the next observation is the true successor
    reward: np.ndarray  # f32[T, B]
    terminated: np.ndarray  # bool[T, B]
    truncated: np.ndarray  # bool[T, B]
    mask: np.ndarray | None  # bool[T, B]
    score: np.ndarray  # f32[T, B]
    over: np.ndarray  # bool[T, B]
    carry: PyTree  # [B, ...], before the first step


class Group:
    """Environments that act and step together; recurrent state is theirs and begins anew with each episode."""

    def __init__(self, worker: Worker, acting: Acting, index: int | None, carry: PyTree, num_envs: int):
        """Take environments that have not started.

        Args:
          worker: steps them.
          acting: the programs.
          index: which group this is; None if it is the only one.
          carry: [B, ...], at the start of an episode.
          num_envs: B.
        """
        self.worker, self._acting, self._memory = worker, acting, carry
        self._index = None if index is None else np.int32(index)
        self._num_envs = num_envs
        self._observation: PyTree = None
        self._restart = np.zeros(num_envs, np.bool_)
        self._acted: list[tuple] = []
        self._steps: list[Any] = []

    def begin(self, observation: PyTree, carry: PyTree | None = None) -> None:
        """Go on from these observations; from the start of an episode if no memory is given."""
        self._observation, self._restart = observation, np.full(self._num_envs, carry is None)
        if carry is not None:
            self._memory = carry

    @property
    def observation(self) -> PyTree:
        """[B, ...], as it comes, to act on next."""
        return self._observation

    @property
    def carry(self) -> PyTree:
        """[B, ...], before the next step, but for the episodes that begin with it."""
        return self._memory

    @property
    def restart(self) -> np.ndarray:
        """bool[B]: where the next step is an episode's first."""
        return self._restart

    def act(self, part: Part, keys: Key, t: int) -> None:
        """Choose actions and send them."""
        action, self._memory, before, extras, seen = self._acting.act(
            part, self._memory, self._restart, keys, np.int32(t), self._index, self._observation
        )
        self._acted.append((seen, action, extras, before if t == 0 else None))
        self.worker.send(jax.device_get(action), keys, t)

    def arrive(self) -> None:
        """Wait for the step that was sent."""
        step = self.worker.recv()
        self._steps.append(step)
        self._observation = step.observation
        self._restart = np.asarray(restart_after(step))

    def rollout(self) -> GroupRollout:
        """Return what was collected since the last call."""
        acted, steps = self._acted, self._steps
        self._acted, self._steps = [], []
        stack = lambda name: np.stack([getattr(step, name) for step in steps])
        masked = steps[0].mask is not None
        mask = stack("mask") if masked else None
        return GroupRollout(
            [a[0] for a in acted],
            [a[1] for a in acted],
            [a[2] for a in acted],
            steps[-1].observation,
            None if steps[0].successor is None else [step.successor for step in steps],
            stack("reward"),
            stack("terminated"),
            cut_at_starts(stack("truncated"), mask),
            mask,
            stack("score"),
            stack("over"),
            acted[0][3],
        )


def restart_after(step: HostStep) -> Any:
    """Return bool[B]: after which environments' step memory begins anew."""
    done = step.terminated | step.truncated
    return done if step.mask is None else done | ~step.mask


def cut_at_starts(truncated: Any, mask: Any) -> Any:
    """Return `truncated`, True also where a step only began an episode: memory that is unrolled begins anew there."""
    return truncated if mask is None else truncated | ~mask


def collect(groups: list[Group], part: Part, keys: Array, length: int) -> tuple[GroupRollout, ...]:
    """Take `length` steps; while one group steps, the next one acts."""
    for t in range(length):
        for group in groups:
            if t:
                group.arrive()
            group.act(part, keys, t)
    for group in groups:
        group.arrive()
    return tuple(group.rollout() for group in groups)
