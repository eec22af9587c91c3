"""Searches in progress: the common part of designs, halving and populations."""

import abc
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from purerl.devices import memory
from purerl.loop.population import blank_states, compile_in_place
from purerl.loop.train import TrainState
from purerl.sweeps.plan import ShapeGroup, SweepPlan
from purerl.sweeps.result import Curves, load_latest, save_latest
from purerl.types import PyTree


class Search(abc.ABC):
    """A search in progress, which advances from one point of the curves to the next."""

    def __init__(self, plan: SweepPlan, env_steps: np.ndarray):
        """Begin with no trial trained.

        Args:
          plan: the plan of the sweep.
          env_steps: i64[trials, points], where the points of the curves are.
        """
        self.plan, self.mesh, self.num_seeds = plan, plan.mesh, len(plan.seeds)
        self.curves = Curves.empty(env_steps, self.num_seeds)
        self.compile_seconds = 0.0
        self.saved_time = time.monotonic()

    def values(self) -> list[list[dict[str, object]]]:
        """Return {name: [trials][seeds]} of the searched values."""
        return [[values] * self.num_seeds for values in self.plan.trials]

    def save_is_due(self) -> bool:
        """Return whether a checkpoint is due."""
        return time.monotonic() - self.saved_time > self.plan.options.checkpoint_interval

    def blank(self, group: ShapeGroup, members: int, axes: TrainState) -> TrainState:
        """Return the initial states of a group's members, on the host; arguments as for `blank_states`."""
        one = {name: column[0] for name, column in group.values.items()}
        return blank_states(self.plan.make, members, one, group.argument(), axes)

    @abc.abstractmethod
    def share(self) -> float:
        """Return the completed fraction; 1 at the end."""

    @abc.abstractmethod
    def running(self) -> int:
        """Return the number of trials in training."""

    @abc.abstractmethod
    def compiles(self) -> bool:
        """Return whether the next `advance` compiles."""

    @abc.abstractmethod
    def advance(self) -> bool:
        """Train to the next point; return whether to save now."""

    @abc.abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything that resuming needs."""

    @abc.abstractmethod
    def restore(self, folder: Path) -> None:
        """Continue from the files of `save`, with bit-identical results."""


class BankSearch(Search):
    """A search with all agents on the device, where one compiled program trains them."""

    names: ClassVar[tuple[str, str]]  # names of the agents and of the past in a checkpoint

    def __init__(self, plan: SweepPlan, env_steps: np.ndarray, members: int):
        """Begin with no trial trained, and `members` agents that fill the mesh."""
        super().__init__(plan, env_steps)
        self.group, self.members = plan.groups[0], members
        self.bank: Any = None  # the agents; None before the first point
        self.compiled: Any = None

    @abc.abstractmethod
    def _program(self) -> Any:
        """Return the function that trains: (bank, ...) -> (bank, more)."""

    @abc.abstractmethod
    def _arguments(self) -> tuple[PyTree, ...]:
        """Return the program's arguments besides the bank, as it is compiled for them."""

    @abc.abstractmethod
    def _blank_bank(self, members: int) -> PyTree:
        """Return the initial agents, on the host."""

    @abc.abstractmethod
    def _placed(self, bank: PyTree) -> PyTree:
        """Place the agents of a checkpoint, with any number of members, on their devices."""

    @abc.abstractmethod
    def _past(self) -> dict[str, PyTree]:
        """Return the arrays of a checkpoint besides the curves, by attribute."""

    @property
    @abc.abstractmethod
    def _step(self) -> int:
        """The name of the next checkpoint: a count that grows."""

    def compiles(self) -> bool:
        """Return whether the next `advance` compiles."""
        return self.compiled is None

    def compile(self) -> None:
        """Make the bank if there is none, and compile the program."""
        began = time.perf_counter()
        if self.bank is None:
            self.bank = self._placed(self._blank_bank(self.members))
        self.compiled = compile_in_place(self._program(), self.bank, *self._arguments())
        needed, free = memory.needed(self.compiled), memory.free(self.bank)
        if needed > free:
            agents = f"{len(self.plan.trials)} trials x {self.num_seeds} seeds"
            raise memory.too_little(f"{agents}, all of which {self.plan.options.method} keeps,", needed, free)
        self.compile_seconds += time.perf_counter() - began

    def save(self, folder: Path) -> None:
        """Write a checkpoint and the curves."""
        self.curves.save(folder)
        if self.bank is not None:
            save_latest(folder, self._step, self._tree(self.bank), self.members, self.plan)
        self.saved_time = time.monotonic()

    def restore(self, folder: Path) -> None:
        """Resume from the newest checkpoint, with bit-identical results."""
        tree = load_latest(folder, self.plan, lambda members: self._tree(self._blank_bank(members)))
        if tree is not None:
            bank, past = self.names
            self.bank, self.curves = self._placed(tree[bank]), tree["curves"]
            vars(self).update(tree[past])

    def _tree(self, agents: object) -> dict[str, PyTree]:
        bank, past = self.names
        return {bank: agents, "curves": self.curves, past: self._past()}
