"""Sampling inside jit: one compiled program for a rollout and the update that learns from it.

Environments step by their library's XLA interface where it has one, by a callback to the host where it has none.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from purerl.errors import InputError
from purerl.extensions.host.acting import Acting
from purerl.extensions.host.learning import Learn
from purerl.extensions.host.rollout import EnvGroup, GroupRollout, cut_at_resets, restart_after
from purerl.host_environment import HostStep, TracedSteps
from purerl.loop.vector import VectorState
from purerl.types import Array, Key, PyTree
from purerl.xla import backend
from purerl.xla.trees import where


class RolloutCarry(NamedTuple):
    """Environments between two rollouts."""

    env: PyTree  # what their steps carry on
    observation: PyTree  # [B, ...], as it comes
    carry: PyTree  # [B, ...]
    restart: Array  # bool[B], where the next step is an episode's first


class XlaRollout:
    """The compiled updates of one group of environments, starting at its current state."""

    def __init__(self, group: EnvGroup, acting: Acting, learn: Learn, initial_carry: PyTree, length: int):
        """Continue from a group's state.

        Args:
          group: environments that were reset.
          acting: the programs that act.
          learn: the program that learns.
          initial_carry: [B, ...], at the start of an episode.
          length: steps of a rollout.
        """
        self._group, self._length, self._caller = group, length, None
        steps = group.worker.env.traced()
        if steps is None:
            self._caller = _Caller(group)
            steps = self._caller.steps()
        self._carry = RolloutCarry(
            env=steps.carry, observation=group.observation, carry=group.carry, restart=jnp.asarray(group.restart)
        )
        self._program = backend.jit(
            functools.partial(_update, acting, learn, steps.step, initial_carry, length), donate_argnums=0
        )
        self._compiled: Any = None

    def update(self, agent: PyTree, *args: object) -> PyTree:
        """Take a rollout and an update; return (agent, VectorState, metrics) as `Learn`, whose other arguments follow.

        Raises:
          EnvironmentFailure: if the environment raised or hung.
        """
        if self._compiled is None:
            self._compiled = self._program.lower(agent, self._carry, *args).compile()
        self._carry, result = self._run(agent, self._carry, *args)
        return result

    def _run(self, *args: object) -> PyTree:
        """Run the program in a way that cannot block the process forever."""
        call = lambda: jax.block_until_ready(self._compiled(*args))
        if self._caller is None:  # no one sees the single steps: the time limit is that of all
            return self._group.worker.call(call, f"a rollout of {self._length} steps", self._length)
        found = call()
        self._caller.check()
        return found


def _update(
    acting: Acting,
    learn: Learn,
    env_step: Callable[[PyTree, PyTree], tuple[PyTree, HostStep]],
    initial_carry: PyTree,
    length: int,
    agent: PyTree,
    loop_carry: RolloutCarry,
    vector: VectorState,
    key: Key,
    num_updates: Array,
) -> tuple[RolloutCarry, PyTree]:
    """Act and step `length` times, and learn from the rollout."""
    part, keys = acting.part(agent), acting.keys(key, num_updates)

    def one(loop_carry: RolloutCarry, t: Array) -> tuple[RolloutCarry, PyTree]:
        action, carry, _, extras, observation = acting.act(
            part, loop_carry.carry, loop_carry.restart, keys, t, loop_carry.observation
        )
        env, step = env_step(loop_carry.env, action)
        rest = step._replace(observation=())
        after = RolloutCarry(env=env, observation=step.observation, carry=carry, restart=restart_after(step))
        return after, (observation, action, extras, rest)

    before = where(loop_carry.restart, initial_carry, loop_carry.carry)
    loop_carry, (observation, action, extras, steps) = jax.lax.scan(
        one, loop_carry, jnp.arange(length, dtype=jnp.int32)
    )
    rollout = GroupRollout(
        observation=observation,
        action=action,
        extras=extras,
        last=loop_carry.observation,
        next_observation=None,
        reward=steps.reward,
        terminated=steps.terminated,
        truncated=cut_at_resets(steps.truncated, steps.mask),
        mask=steps.mask,
        score=steps.score,
        over=steps.over,
        carry=before,
    )
    return loop_carry, learn(agent, vector, key, num_updates, (rollout,))


class _Caller:
    """Steps of a group as callbacks from inside jit; `check` raises their failures outside."""

    def __init__(self, group: EnvGroup):
        self._worker, self._failure = group.worker, None
        size = len(group.restart)
        like = lambda x: np.zeros(x.shape, jax.dtypes.canonicalize_dtype(x.dtype))
        number, flag = np.zeros(size, np.float32), np.zeros(size, np.bool_)
        self._blank = HostStep(
            observation=jax.tree.map(like, group.observation),
            reward=number,
            terminated=flag,
            truncated=flag,
            mask=flag,
            next_observation=None,
            score=number,
            over=flag,
        )

    def steps(self) -> TracedSteps:
        """Return the step function of the program; it carries a count, which keeps the calls in order."""
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (np.int32(0), self._blank))
        return TracedSteps(np.int32(0), lambda count, action: io_callback(self._call, shapes, count, action))

    def check(self) -> None:
        """Raise an error that a step raised."""
        if self._failure is not None:
            raise self._failure

    def _call(self, count: object, action: PyTree) -> tuple[np.ndarray, HostStep]:
        count = np.asarray(count) + np.int32(1)
        if self._failure is not None:
            return count, self._blank  # the program runs to its end, and its results are discarded
        try:
            self._worker.send(jax.tree.map(np.asarray, action), None, 0)
            step = self._worker.recv()
            if step.next_observation is not None:
                raise InputError("sampler inside needs environments that reset in the step after an ending")
            mask = np.ones_like(step.over) if step.mask is None else step.mask
            return count, jax.tree.map(lambda x, like: np.asarray(x, like.dtype), step._replace(mask=mask), self._blank)
        except Exception as error:
            self._failure = error
            return count, self._blank
