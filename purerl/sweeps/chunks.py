"""Trains the trials of a design in chunks, whose size suits memory and speed.

A chunk is one call of a compiled program per point of the curves. The program starts agents and trains them: there is
one per group of shapes, whatever the number of chunks.
"""

import math
import os
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from purerl.devices import distributed, memory, sharding
from purerl.errors import InputError
from purerl.loop.population import AXIS, TOGETHER, Values, compile_in_place, place, train_members
from purerl.loop.trainer import TrainState
from purerl.run import checkpoint
from purerl.sweeps.plan import ShapeGroup, SweepPlan, dump_sweep
from purerl.sweeps.result import check_counts, check_settings, drop_latest, load_curves, load_latest, save_latest
from purerl.sweeps.search import Search
from purerl.types import Array, PyTree
from purerl.xla import backend

MEMBERS = 64  # agents at once on a CPU, which gains nothing from more


class Chunks(Search):
    """The search of a design."""

    def __init__(self, plan: SweepPlan):
        """Begin with no trial trained."""
        super().__init__(plan, plan.env_steps())
        self.sizes = np.zeros(len(plan.groups), np.int64)  # trials at once in each group; 0: not known yet
        self._compiled: tuple[int, Any] | None = None  # the group and its program
        self._chunk: np.ndarray | None = None  # the trials on the device, by their place in the group
        self._point = 0
        self._state: Any = None  # state of the chunk
        self._begun: Any = None  # the state of a chunk that an earlier process began, on the host

    def share(self) -> float:
        """Return the fraction of all updates that is done."""
        done = sum(g.num_updates * int(self.curves.trained[g.members].sum()) for g in self.plan.groups)
        return done / (self.plan.num_points * sum(g.num_updates * len(g.members) for g in self.plan.groups))

    def running(self) -> int:
        """Return the number of trials in training."""
        return 0 if self._chunk is None else len(self._chunk)

    def compiles(self) -> bool:
        """Return whether the next `advance` compiles."""
        return self._compiled is None or (self._chunk is None and self._compiled[0] != self._current()[0])

    def _current(self) -> tuple[int, ShapeGroup]:
        return next((i, g) for i, g in enumerate(self.plan.groups) if self._left(g).size)

    def advance(self) -> bool:
        """Train to the next point; return whether that completes a chunk or a checkpoint is due."""
        number, group = self._current()
        if self._chunk is None:
            if self.compiles():
                self._compile(number, group)
            self._begin(number, group)
        assert self._chunk is not None and self._compiled is not None
        num = np.int32(self.plan.spans(group)[self._point])
        try:
            arguments = (*self._members, num, np.bool_(self._point == 0), group.argument())
            self._state, point = self._compiled[1](self._state, *arguments)
            point = jax.device_get(point)
        except jax.errors.JaxRuntimeError as error:
            self._shrink(number, error)
            return False
        trials, seeds = group.members[self._chunk], self.num_seeds
        returns, finite = (x[: len(trials) * seeds].reshape(len(trials), seeds) for x in point)
        self.curves.episode_return[trials, :, self._point] = returns
        self.curves.failed[trials] |= ~finite
        self._point += 1
        self.curves.trained[trials] = self._point
        if self._point < self.plan.num_points:
            return self.save_is_due()
        self._chunk = self._state = None
        return True

    def _left(self, group: ShapeGroup) -> np.ndarray:
        return np.flatnonzero(self.curves.trained[group.members] < self.plan.num_points)

    def _begin(self, number: int, group: ShapeGroup) -> None:
        """Take the next trials of a group; the last chunk is filled up with copies of its last trial."""
        size, left = int(self.sizes[number]), self._left(group)
        begun = int((self.curves.trained[group.members[left]] > 0).sum())
        if self._begun is not None and begun != min(size, len(left)):
            self._forget_incomplete()  # the chunks are smaller now
        self._chunk = left[:size]
        self._point = int(self.curves.trained[group.members[left[0]]])
        self._state, *self._members = self._arguments(group, self._chunk, size)
        if self._begun is not None:
            self._state = place(sharding.resize(self._begun, TOGETHER, self._num_members(size)), self.mesh)
            self._begun = None

    def _num_members(self, size: int) -> int:
        return sharding.pad(size * self.num_seeds, self.mesh, AXIS)

    def _forget_incomplete(self) -> None:
        self._begun = None
        self.curves.forget(np.flatnonzero(self.curves.trained < self.plan.num_points))

    def _arguments(self, group: ShapeGroup, chunk: np.ndarray, size: int) -> tuple[TrainState, Array, Values]:
        """Return (blank states, seeds, values) of the members of a chunk, on their devices."""
        num_members = self._num_members(size)
        member = np.minimum(np.arange(num_members), len(chunk) * self.num_seeds - 1)
        trial, seed = chunk[member // self.num_seeds], self.plan.seeds[member % self.num_seeds]
        values = {name: column[trial] for name, column in group.values.items()}
        state = self.blank(group, num_members, TOGETHER)
        return place(state, self.mesh), *sharding.place((seed, values), self.mesh, AXIS)

    def _compile(self, number: int, group: ShapeGroup) -> None:
        """Compile for as many trials at once as fit in memory, judged by the compiled program."""
        began = time.perf_counter()
        size = int(self.sizes[number]) or self._first_size(group)
        while True:
            arguments = self._arguments(group, np.arange(1), size)
            more = (np.int32(0), np.bool_(True), group.argument())
            train = train_members(self.plan.make, self.mesh, metric=self.plan.options.metric)
            compiled = compile_in_place(train, *arguments, *more)
            needed, free = memory.needed(compiled), memory.free((arguments, more))
            del arguments, more
            fits = size if needed <= free else min(size - 1, int(size * free / needed))
            fits = int(distributed.agree(fits).min())
            if fits == size:
                break
            if size == 1:
                raise memory.too_little(f"one trial x {self.num_seeds} seeds", needed, free)
            size = max(1, fits)
        self.sizes[number], self._compiled = size, (number, compiled)
        self.compile_seconds += time.perf_counter() - began

    def _first_size(self, group: ShapeGroup) -> int:
        most = self.plan.options.chunk
        if not most:
            most = max(1, MEMBERS // self.num_seeds) if backend.runs_members_in_turn() else len(group.members)
        chunks = math.ceil(len(group.members) / most)
        return math.ceil(len(group.members) / chunks)

    def _shrink(self, number: int, error: Exception) -> None:
        """Start the chunk again with half the trials after memory ran out."""
        if not memory.exhausted(error) or self.sizes[number] <= 1:
            raise error
        if jax.process_count() > 1:  # the others are in the middle of it
            raise InputError(
                f"there is not enough memory for {self.sizes[number]} trials at once: give a smaller chunk"
            ) from None
        assert self._chunk is not None
        self.curves.forget(self.plan.groups[number].members[self._chunk])
        self.sizes[number] //= 2
        self._chunk = self._compiled = self._state = None

    def save(self, folder: Path) -> None:
        """Write the curves and the sizes of the chunks, and a checkpoint of an incomplete chunk."""
        if self._chunk is not None:
            members = self._num_members(int(self.sizes[self._current()[0]]))
            save_latest(folder, int(self.curves.trained.sum()), self._tree(self._state), members, self.plan)
        settings = np.frombuffer(dump_sweep(self.plan).encode(), np.uint8)
        self.curves.save(folder, sizes=self.sizes, settings=settings)
        if self._chunk is None:
            drop_latest(folder)
        self.saved_time = time.monotonic()

    def _tree(self, state: PyTree) -> dict[str, PyTree]:
        return {"state": state, "curves": self.curves, "sizes": self.sizes}

    def restore(self, folder: Path) -> None:
        """Resume from the newer of the curves and the checkpoint, with chunks of the same sizes and equal results."""
        curves, more, settings = None, {}, np.empty(0, np.uint8)
        if os.path.lexists(folder / "curves.npz"):
            curves, more = load_curves(folder, self.curves, sizes=self.sizes, settings=settings)
            if more["sizes"].shape != self.sizes.shape:
                raise InputError(f"{folder / 'curves.npz'} belongs to another sweep: its chunks have other groups")
            counts = np.array([len(group.members) for group in self.plan.groups])
            check_counts("sizes", more["sizes"], counts, folder / "curves.npz")
        step = checkpoint.newest(folder / "checkpoints")
        if step and step >= (0 if curves is None else int(curves.trained.sum())):
            ends = np.cumsum([len(group.members) for group in self.plan.groups]) * self.plan.num_points
            group = self.plan.groups[min(int(np.searchsorted(ends, step, "right")), len(ends) - 1)]  # one after another
            tree = load_latest(folder, self.plan, lambda members: self._tree(self.blank(group, members, TOGETHER)))
            self.curves, self.sizes, self._begun = tree["curves"], tree["sizes"], tree["state"]
        elif curves is not None:
            check_settings(folder, self.plan, more["settings"].tobytes().decode(errors="replace"))
            self.curves, self.sizes = curves, more["sizes"]
            self._forget_incomplete()
