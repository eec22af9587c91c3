"""Sebulba's actors: threads that collect rollouts while the learner learns."""

import queue
import threading
from typing import Any

import jax
import numpy as np

from purerl.extensions.host.acting import Acting, AgentPart
from purerl.extensions.host.rollout import EnvGroup, GroupRollout, collect
from purerl.types import Key

POLL = 0.2  # seconds between two looks at whether to stop


class Actors:
    """One thread per group. A queue holds one rollout, so an actor is at most one rollout ahead.

    Every update uses exactly one rollout of each actor: the learner waits for actors, and actors for the learner. So
    a replay's ratio, steps trained on per environment step, is exactly the configured one.
    """

    def __init__(
        self, groups: list[EnvGroup], acting: Acting, key: Key, version: int, length: int, deterministic: bool
    ):
        """Start the threads.

        Args:
          groups: the groups of environments that have begun.
          acting: the programs.
          key: the run's.
          version: the number of updates done.
          length: steps of a rollout.
          deterministic: act with the policy from exactly one update before (the initial one in the first rollout),
            rather than with the newest one.
        """
        self._acting, self._key, self._version, self._length = acting, key, version, length
        self._deterministic, self._stop = deterministic, threading.Event()
        self._parts = [queue.Queue[tuple[int, AgentPart]](maxsize=2) for _ in groups]
        self._rollouts = [queue.Queue[Any](maxsize=1) for _ in groups]
        self._threads = [
            threading.Thread(target=self._run, args=(i, group), daemon=True, name=f"purerl host actor {i}")
            for i, group in enumerate(groups)
        ]
        for thread in self._threads:
            thread.start()

    def publish(self, version: int, part: AgentPart) -> None:
        """Give the actors a new policy."""
        jax.block_until_ready(part)  # an actor that waited on the device would block the others
        for parts in self._parts:
            if not self._deterministic:
                _drain(parts)
            parts.put((version, part))

    def take(self, version: int) -> tuple[tuple[GroupRollout, ...], float]:
        """Return (a rollout from each actor, the mean number of updates by which their policies lag).

        Raises:
          EnvironmentFailure: if an environment failed.
        """
        found = []
        for rollouts in self._rollouts:
            result = rollouts.get()
            if isinstance(result, BaseException):
                raise result
            found.append(result)
        lag = float(np.mean([version - made_by for made_by, _ in found]))
        return tuple(rollout for _, rollout in found), lag

    def stop(self) -> None:
        """Stop the threads, each after its current step."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=2.0)

    def _run(self, i: int, group: EnvGroup) -> None:
        number = self._version
        part: tuple[int, AgentPart] | None = None
        try:
            while not self._stop.is_set():
                if part is None or not self._deterministic:
                    part = self._newest(i, part)
                elif number != self._version + 1:  # the second rollout has no newer policy: from then on one is behind
                    part = self._next(i)
                if part is None:
                    return
                keys = self._acting.keys(self._key, np.int32(number))
                (rollout,) = collect([group], part[1], keys, self._length)
                self._put(i, (part[0], rollout._replace(statistics=self._acting.statistics(part[1]))))
                number += 1
        except BaseException as error:  # raised by the learner, which waits for a rollout
            self._put(i, error)

    def _newest(self, i: int, part: tuple[int, AgentPart] | None) -> tuple[int, AgentPart] | None:
        try:
            return self._parts[i].get_nowait()
        except queue.Empty:
            return part if part is not None else self._next(i)

    def _next(self, i: int) -> tuple[int, AgentPart] | None:
        while not self._stop.is_set():
            try:
                return self._parts[i].get(timeout=POLL)
            except queue.Empty:
                continue
        return None

    def _put(self, i: int, result: object) -> None:
        while not self._stop.is_set():
            try:
                return self._rollouts[i].put(result, timeout=POLL)
            except queue.Full:
                continue


def _drain(parts: queue.Queue) -> None:
    try:
        while True:
            parts.get_nowait()
    except queue.Empty:
        return
