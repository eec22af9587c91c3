"""Successive halving: one in `eta` of the trials that reach a rung continues to the next, three times as long.

Promotion is asynchronous: a free slot gets the best trial that may continue, or a new one, and never waits for others.
The states of all trials are in one bank on the device; the compiled program picks those of the slots, trains them to
the next point and puts them back. So there is one shape, and a promoted trial continues where it stopped.

Source: Li et al. (2020), "A system for massively parallel hyperparameter tuning", arXiv:1810.05934.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from purerl.devices import sharding
from purerl.loop.extension import MakeFromSetup, Setup
from purerl.loop.population import APART, AXIS, Values, place, train_members
from purerl.loop.train import TrainState
from purerl.sweeps.plan import SweepPlan
from purerl.sweeps.search import BankSearch
from purerl.types import Array, PyTree

IDLE = -1


def next_trial(scores: np.ndarray, reached: np.ndarray, target: np.ndarray, eta: int) -> int:
    """Return the next trial for a free slot, or `IDLE`.

    Args:
      scores: f64[trials, rungs], at the rungs that were reached; NaN counts as the worst.
      reached: i64[trials], rungs completed.
      target: i64[trials], the rung that a trial is to reach; 0: not begun.
      eta: one in `eta` of the trials that completed a rung continues.
    """
    for rung in range(scores.shape[1] - 1, 0, -1):
        completed = np.flatnonzero(reached >= rung)
        order = completed[np.argsort(-np.nan_to_num(scores[completed, rung - 1], nan=-np.inf), kind="stable")]
        for trial in order[: len(completed) // eta]:
            if target[trial] == rung:
                return int(trial)
    new = np.flatnonzero(target == 0)
    return int(new[0]) if new.size else IDLE


def program(make: MakeFromSetup, mesh: Mesh, metric: str) -> Callable[..., PyTree]:
    """Return the function that trains some of the bank's members.

    (bank [members], which members i32[n], seeds u32[n], values [n], updates i32[n], begin bool[n], setup)
      -> (bank, Point[n]); an index beyond the bank does not select a member.
    """
    train = train_members(make, mesh, APART, metric)

    def some(bank: TrainState, which: Array, seeds: Array, values: Values, num: Array, begin: Array, setup: Setup):
        last = bank.num_updates.shape[0] - 1
        states = jax.tree.map(lambda x: x[jnp.minimum(which, last)], bank)
        states, point = train(states, seeds, values, num, begin, setup)
        return jax.tree.map(lambda x, new: x.at[which].set(new, mode="drop"), bank, states), point

    return some


class Halving(BankSearch):
    """The search of successive halving."""

    names = ("bank", "places")

    def __init__(self, plan: SweepPlan):
        """Begin with no trial trained."""
        trials, options = len(plan.trials), plan.options
        self.span, self.rungs = plan.ladder()
        steps = np.arange(1, self.rungs[-1] + 1) * self.span * plan.groups[0].setup.config.steps_per_update
        super().__init__(plan, np.tile(steps, (trials, 1)), sharding.pad(trials * len(plan.seeds), plan.mesh, AXIS))
        self.reached, self.target = np.zeros(trials, np.int64), np.zeros(trials, np.int64)
        num_slots = options.slots or max(1, trials // options.eta ** (options.rungs - 1))
        self.slots = np.full(min(num_slots, trials), IDLE)

    def share(self) -> float:
        """Return the completed fraction of the steps that halving needs if each rung is complete before the next."""
        if self._next() == IDLE and (self.slots == IDLE).all():
            return 1.0
        count, total, before = len(self.plan.trials), 0, 0
        for rung in self.rungs:
            total, before, count = total + count * (rung - before), rung, count // self.plan.options.eta
        return min(0.99, float(self.curves.trained.sum()) / total)

    def running(self) -> int:
        """Return the number of trials in training."""
        return int((self.slots != IDLE).sum())

    def advance(self) -> bool:
        """Fill free slots, and train to the next point; return whether a checkpoint is due."""
        starting = self._fill()
        if self.compiles():
            self.compile()
        trial, seed, begin = self._members(starting)
        busy = trial != IDLE
        self.bank, point = self.compiled(self.bank, *self._of_members(trial, seed, begin))
        point = jax.device_get(point)
        at = self.curves.trained[trial[busy]]
        self.curves.episode_return[trial[busy], seed[busy], at] = point.episode_return[busy]
        self.curves.failed[trial[busy], seed[busy]] |= ~point.finite[busy]
        running = self.slots[self.slots != IDLE]
        self.curves.trained[running] += 1
        arrived = running[self.curves.trained[running] == np.array(self.rungs)[self.target[running] - 1]]
        self.reached[arrived] = self.target[arrived]
        self.slots[np.isin(self.slots, arrived)] = IDLE
        return self.save_is_due()

    def _next(self) -> int:
        scores = np.stack([self.curves.final_return(rung).mean(axis=1) for rung in self.rungs], axis=1)
        return next_trial(scores, self.reached, self.target, self.plan.options.eta)

    def _fill(self) -> np.ndarray:
        """Fill free slots with trials; return which slots start a new one, bool[slots]."""
        starting = np.zeros(len(self.slots), bool)
        for slot in np.flatnonzero(self.slots == IDLE):
            trial = self._next()
            if trial == IDLE:
                break
            starting[slot] = self.target[trial] == 0
            self.target[trial] += 1
            self.slots[slot] = trial
        return starting

    def _members(self, starting: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (trial, or `IDLE`; index of the seed; whether it begins) of each member in training."""
        member = np.arange(sharding.pad(len(self.slots) * self.num_seeds, self.mesh, AXIS))
        slot = np.minimum(member // self.num_seeds, len(self.slots) - 1)
        trial = np.where(member < len(self.slots) * self.num_seeds, self.slots[slot], IDLE)
        return trial, member % self.num_seeds, starting[slot] & (trial != IDLE)

    def _of_members(self, trial: np.ndarray, seed: np.ndarray, begin: np.ndarray) -> tuple[PyTree, ...]:
        busy, known = trial != IDLE, np.maximum(trial, 0)
        which = np.where(busy, known * self.num_seeds + seed, self.members).astype(np.int32)
        values = {name: column[known] for name, column in self.group.values.items()}
        num = np.where(busy, self.span, 0).astype(np.int32)
        members = sharding.place((which, self.plan.seeds[seed], values, num, begin), self.mesh, AXIS)
        return *members, self.group.argument()

    def _program(self) -> Callable[..., PyTree]:
        return program(self.plan.make, self.mesh, self.plan.options.metric)

    def _arguments(self) -> tuple[PyTree, ...]:
        return self._of_members(*self._members(np.zeros(len(self.slots), bool)))

    def _blank_bank(self, members: int) -> TrainState:
        return self.blank(self.group, members, APART)

    def _placed(self, bank: TrainState) -> TrainState:
        return place(sharding.resize(bank, APART, self.members), self.mesh)

    def _past(self) -> dict[str, PyTree]:
        return {"reached": self.reached, "target": self.target, "slots": self.slots}

    @property
    def _step(self) -> int:
        return int(self.curves.trained.sum())
