"""Host rollouts: a group of environments that act and step together, and the rollout that it collects."""

from typing import Any, NamedTuple

import jax
import numpy as np

from purerl.extensions.host.acting import Acting, AgentPart
from purerl.extensions.host.env_thread import Worker
from purerl.host_environment import HostStep
from purerl.types import Array, Key, PyTree


class GroupRollout(NamedTuple):
    """T steps of one group's B environments.

    Lists hold T on-device arrays, and arrays are NumPy's; inside jit both are traced arrays [T, B, ...].
    """

    observation: list[PyTree] | PyTree  # T x [B, ...], as the agent saw them
    action: list[PyTree] | PyTree  # T x [B, ...]
    extras: list[PyTree] | PyTree  # T x [B, ...]
    last: PyTree  # [B, ...], the observation after the last step, as it comes
    next_observation: (
        list[PyTree] | PyTree
    )  # T x [B, ...], next observations, final ones at an end, as they come; None: the next `observation`
    reward: Any  # f32[T, B]
    terminated: Any  # bool[T, B]
    truncated: Any  # bool[T, B]
    mask: Any  # bool[T, B], or None
    score: Any  # f32[T, B]
    over: Any  # bool[T, B]
    carry: PyTree  # [B, ...], before the first step
    statistics: PyTree = None  # what observations were normalized by, where that is older than the learner's


class EnvGroup:
    """Environments that act and step together, with their recurrent state."""

    def __init__(self, worker: Worker, acting: Acting, index: int | None, carry: PyTree, num_envs: int):
        """Group environments that have not been reset.

        Args:
          worker: steps them.
          acting: the programs.
          index: which group this is; None if it is the only one.
          carry: [B, ...], at the start of an episode.
          num_envs: B.
        """
        self.worker, self._acting, self._carry = worker, acting, carry
        self._index = None if index is None else np.int32(index)
        self._num_envs = num_envs
        self._observation: PyTree = None
        self._keys: Any = None
        self._interrupted = False
        self._restart = np.zeros(num_envs, np.bool_)
        self._acted: list[tuple] = []
        self._steps: list[Any] = []

    def begin(self, observation: PyTree, carry: PyTree | None = None, interrupted: bool = False) -> None:
        """Continue from these observations; from the start of an episode if no carry is given.

        After an interruption, the rollout's first step only marks the previous episodes as cut off.
        """
        self._observation, self._restart = observation, np.full(self._num_envs, carry is None)
        self._interrupted = interrupted
        if carry is not None:
            self._carry = carry

    @property
    def observation(self) -> PyTree:
        """The raw observation to act on next, [B, ...]."""
        return self._observation

    @property
    def carry(self) -> PyTree:
        """The carry before the next step, [B, ...]; not reset yet where `restart`."""
        return self._carry

    @property
    def restart(self) -> np.ndarray:
        """bool[B]: whether the next step is the first one of an episode."""
        return self._restart

    def act(self, part: AgentPart, keys: Key, t: int) -> None:
        """Choose actions and send them."""
        if t == 0:
            self._keys = keys if self._index is None else self._acting.keys_of_group(keys, self._index)
        action, self._carry, before, extras, observation = self._acting.act(
            part, self._carry, self._restart, self._keys, np.int32(t), self._observation
        )
        self._acted.append((observation, action, extras, before if t == 0 else None))
        if not self._interrupted:
            self.worker.send(jax.device_get(action), self._keys, t)

    def arrive(self) -> None:
        """Wait for the step that was sent."""
        step = self._cut_off() if self._interrupted else self.worker.recv()
        self._interrupted = False
        self._steps.append(step)
        self._observation = step.observation
        self._restart = np.asarray(restart_after(step))

    def _cut_off(self) -> HostStep:
        """Return a placeholder for a step in which no environment moved."""
        zeros, no = np.zeros(self._num_envs, np.float32), np.zeros(self._num_envs, np.bool_)
        return HostStep(
            observation=self._observation,
            reward=zeros,
            terminated=no,
            truncated=~no,
            mask=no,
            next_observation=None,
            score=zeros,
            over=no,
        )

    def rollout(self) -> GroupRollout:
        """Return the steps since the last call."""
        acted, steps = self._acted, self._steps
        self._acted, self._steps = [], []
        if any(step.mask is not None for step in steps):
            steps = [step if step.mask is not None else step._replace(mask=np.ones_like(step.over)) for step in steps]
        if any(step.next_observation is not None for step in steps):
            true = lambda step: step.observation if step.next_observation is None else step.next_observation
            steps = [step._replace(next_observation=true(step)) for step in steps]
        stack = lambda name: np.stack([getattr(step, name) for step in steps])
        mask = None if steps[0].mask is None else stack("mask")
        observation, action, extras, carry = zip(*acted, strict=True)
        return GroupRollout(
            observation=list(observation),
            action=list(action),
            extras=list(extras),
            last=steps[-1].observation,
            next_observation=None if steps[0].next_observation is None else [step.next_observation for step in steps],
            reward=stack("reward"),
            terminated=stack("terminated"),
            truncated=cut_at_resets(stack("truncated"), mask),
            mask=mask,
            score=stack("score"),
            over=stack("over"),
            carry=carry[0],
        )


def restart_after(step: HostStep) -> PyTree:
    """Return bool[B]: after which environments' step the recurrent state is reset."""
    done = step.terminated | step.truncated
    return done if step.mask is None else done | ~step.mask


def cut_at_resets(truncated: PyTree, mask: PyTree) -> PyTree:
    """Return `truncated`, also true where a step only reset an environment: an unrolled carry is reset there."""
    return truncated if mask is None else truncated | ~mask


def collect(groups: list[EnvGroup], part: AgentPart, keys: Array, length: int) -> tuple[GroupRollout, ...]:
    """Take `length` steps; while one group steps, the next group acts."""
    for t in range(length):
        for group in groups:
            if t:
                group.arrive()
            group.act(part, keys, t)
    for group in groups:
        group.arrive()
    return tuple(group.rollout() for group in groups)
