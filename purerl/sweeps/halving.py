"""Successive halving: of the trials that reached a rung, one in `eta` goes on to the next, three times as long.

Promotion is asynchronous: a free slot gets the best trial that may continue, else a new one, and waits for no other.
The states of all trials are in one bank on the device; the compiled program picks those of the slots, trains them to
the next point and puts them back. So there is one shape, and a promoted trial continues where it stopped.

Source: Li et al. (2020), "A system for massively parallel hyperparameter tuning", arXiv:1810.05934.
"""

import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from purerl.devices import memory, sharding
from purerl.loop.extension import MakeFromSetup, Setup
from purerl.loop.population import (
    APART,
    AXIS,
    Values,
    blank_states,
    compile_in_place,
    place,
    train_members,
)
from purerl.loop.train import TrainState
from purerl.sweeps.plan import SweepPlan
from purerl.sweeps.result import Curves, load_latest, save_latest
from purerl.types import Array

IDLE = -1


def next_trial(scores: np.ndarray, reached: np.ndarray, target: np.ndarray, eta: int) -> int:
    """Return the trial to train next in a free slot, or `IDLE`.

    Args:
      scores: f64[trials, rungs], at the rungs that were reached; NaN counts as the worst.
      reached: i64[trials], rungs completed.
      target: i64[trials], the rung that a trial is to reach; 0: not begun.
      eta: one in so many of those that completed a rung goes on.
    """
    for rung in range(scores.shape[1] - 1, 0, -1):
        completed = np.flatnonzero(reached >= rung)
        order = completed[np.argsort(-np.nan_to_num(scores[completed, rung - 1], nan=-np.inf), kind="stable")]
        for trial in order[: len(completed) // eta]:
            if target[trial] == rung:
                return int(trial)
    new = np.flatnonzero(target == 0)
    return int(new[0]) if new.size else IDLE


def program(make: MakeFromSetup, mesh: Mesh) -> Any:
    """Return the function that trains some of the bank's members.

    (bank [members], which members i32[n], seeds u32[n], values [n], updates i32[n], begin bool[n], setup)
      -> (bank, Point[n]); an index beyond the bank is no member.
    """
    train = train_members(make, mesh, APART)

    def some(bank: TrainState, which: Array, seeds: Array, values: Values, num: Array, begin: Array, setup: Setup):
        last = bank.num_updates.shape[0] - 1
        states = jax.tree.map(lambda x: x[jnp.minimum(which, last)], bank)
        states, point = train(states, seeds, values, num, begin, setup)
        return jax.tree.map(lambda x, new: x.at[which].set(new, mode="drop"), bank, states), point

    return some


class Halving:
    """The search of successive halving."""

    def __init__(self, plan: SweepPlan):
        """Begin with no trial trained."""
        self.plan, self.group, options = plan, plan.groups[0], plan.options
        self.span, self.rungs = plan.ladder()
        points = self.rungs[-1]
        trials, seeds = len(plan.trials), len(plan.seeds)
        steps = np.arange(1, points + 1) * self.span * self.group.setup.config.steps_per_update
        self.curves = Curves.empty(np.tile(steps, (trials, 1)), seeds)
        self.compile_seconds = 0.0
        self.reached, self.target = np.zeros(trials, np.int64), np.zeros(trials, np.int64)
        num_slots = options.slots or max(1, trials // options.eta ** (options.rungs - 1))
        self.slots = np.full(min(num_slots, trials), IDLE)
        self._mesh = plan.mesh
        self._members = sharding.pad(len(self.slots) * seeds, self._mesh, AXIS)
        self._bank_members = sharding.pad(trials * seeds, self._mesh, AXIS)
        self._bank: TrainState | None = None
        self._compiled: Any = None
        self._saved = time.monotonic()

    def values(self) -> list[list[dict[str, Any]]]:
        """Return the values searched, [trials][seeds]."""
        return [[values] * len(self.plan.seeds) for values in self.plan.trials]

    def share(self) -> float:
        """Return the share that is done of the steps that halving needs if each rung is complete before the next."""
        if self._next() == IDLE and (self.slots == IDLE).all():
            return 1.0
        count, total, before = len(self.plan.trials), 0, 0
        for rung in self.rungs:
            total, before, count = total + count * (rung - before), rung, count // self.plan.options.eta
        return min(0.99, float(self.curves.trained.sum()) / total)

    def running(self) -> int:
        """Return how many trials are in training."""
        return int((self.slots != IDLE).sum())

    def compiles(self) -> bool:
        """Return whether `advance` compiles first."""
        return self._compiled is None

    def advance(self) -> bool:
        """Fill free slots, and train to the next point; return whether the last checkpoint is old."""
        starting = self._fill()
        if self.compiles():
            self._compile()
        num_seeds = len(self.plan.seeds)
        slot = np.minimum(np.arange(self._members) // num_seeds, len(self.slots) - 1)
        seed = np.arange(self._members) % num_seeds
        trial = np.where(np.arange(self._members) < len(self.slots) * num_seeds, self.slots[slot], IDLE)
        busy = trial != IDLE
        self._bank, point = self._compiled(
            self._bank,
            *self._arguments(np.where(busy, trial, 0), seed, busy, starting[slot] & busy),
            self.group.argument(),
        )
        point = jax.device_get(point)
        at = self.curves.trained[trial[busy]]
        self.curves.episode_return[trial[busy], seed[busy], at] = point.episode_return[busy]
        self.curves.failed[trial[busy], seed[busy]] |= ~point.finite[busy]
        running = self.slots[self.slots != IDLE]
        self.curves.trained[running] += 1
        arrived = running[self.curves.trained[running] == np.array(self.rungs)[self.target[running] - 1]]
        self.reached[arrived] = self.target[arrived]
        self.slots[np.isin(self.slots, arrived)] = IDLE
        return time.monotonic() - self._saved > self.plan.options.checkpoint_interval

    def _next(self) -> int:
        scores = np.stack([self.curves.final_return(rung).mean(axis=1) for rung in self.rungs], axis=1)
        return next_trial(scores, self.reached, self.target, self.plan.options.eta)

    def _fill(self) -> np.ndarray:
        """Give free slots trials; return bool[slots], which begin a new one."""
        starting = np.zeros(len(self.slots), bool)
        for slot in np.flatnonzero(self.slots == IDLE):
            trial = self._next()
            if trial == IDLE:
                break
            starting[slot] = self.target[trial] == 0
            self.target[trial] += 1
            self.slots[slot] = trial
        return starting

    def _arguments(self, trial: np.ndarray, seed: np.ndarray, busy: np.ndarray, begin: np.ndarray) -> tuple:
        num_seeds = len(self.plan.seeds)
        which = np.where(busy, trial * num_seeds + seed, self._bank_members).astype(np.int32)
        values = {name: column[trial] for name, column in self.group.values.items()}
        num = np.where(busy, self.span, 0).astype(np.int32)
        return sharding.place((which, self.plan.seeds[seed], values, num, begin), self._mesh, AXIS)

    def _blank(self, members: int | None = None) -> TrainState:
        one = {name: column[0] for name, column in self.group.values.items()}
        return blank_states(self.plan.make, members or self._bank_members, one, self.group.argument(), APART)

    def _compile(self) -> None:
        began = time.perf_counter()
        if self._bank is None:
            self._bank = place(self._blank(), self._mesh)
        none = np.zeros(self._members, np.int32)
        arguments = self._arguments(none, none, none > 0, none > 0)
        train_some = program(self.plan.make, self._mesh)
        self._compiled = compile_in_place(train_some, self._bank, *arguments, self.group.argument())
        needed, free = memory.needed(self._compiled), memory.free(self._bank)
        if needed > free:
            what = f"{len(self.plan.trials)} trials x {len(self.plan.seeds)} seeds, all of which halving keeps,"
            raise memory.too_little(what, needed, free)
        self.compile_seconds += time.perf_counter() - began

    def _tree(self, bank: Any) -> dict[str, Any]:
        places = {"reached": self.reached, "target": self.target, "slots": self.slots}
        return {"bank": bank, "curves": self.curves, "places": places}

    def save(self, folder: Path) -> None:
        """Write a checkpoint and the curves."""
        self.curves.save(folder)
        if self._bank is not None:
            step = int(self.curves.trained.sum())
            save_latest(folder, step, self._tree(self._bank), self._bank_members, self.plan)
        self._saved = time.monotonic()

    def restore(self, folder: Path) -> None:
        """Continue from the newest checkpoint, to the same bits."""
        tree = load_latest(folder, self.plan, lambda members: self._tree(self._blank(members)))
        if tree is None:
            return
        self._bank = place(sharding.resize(tree["bank"], APART, self._bank_members), self._mesh)
        self.curves = tree["curves"]
        self.reached, self.target, self.slots = (tree["places"][name] for name in ("reached", "target", "slots"))
