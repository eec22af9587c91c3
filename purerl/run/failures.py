"""Seeds whose training failed: how the compiled program finds the cause, and how the run reports it."""

from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from purerl.loop.metrics import Failure
from purerl.loop.train import TrainState
from purerl.types import Array, PyTree

CAUSES = {
    1: "the loss or its gradient overflowed: learning_rate may be too high",
    2: "the environment gave a reward that is not finite",
    3: "the environment gave an observation that is not finite",
}
NAMED = 16  # causes from here on name a metric: NAMED + 2 x its place among the sorted names, + 1 if it is infinite


def cause(state: TrainState, found: Failure) -> Array:
    """Return the cause of a seed's failure, i32[]: a key of `CAUSES`, or a number from `NAMED` on."""
    rewards = (state.vector.episode_return, state.vector.statistics.return_sum)
    named = NAMED + 2 * found.metric + found.infinite.astype(jnp.int32)
    return jnp.where(~_all_finite(rewards), 2, jnp.where(~_all_finite(state.observation), 3, named)).astype(jnp.int32)


def cause_text(cause: int, metrics: Iterable[str]) -> str:
    """Return the cause of a seed's failure in words; `metrics` are the names of the algorithm's metrics."""
    if cause < NAMED:
        return CAUSES[cause]
    place, infinite = divmod(cause - NAMED, 2)
    name = [*sorted(metrics), "the agent"][place]  # an algorithm without metrics is judged by its parameters
    what = f"{name} became infinite" if infinite else f"{name} and the agent's parameters became nan"
    return f"{what}: learning_rate may be too high"


class FailedSeed(NamedTuple):
    """A failed seed, which is left out while the others continue."""

    seed: int
    update: int
    cause: int

    def told(self, metrics: Iterable[str]) -> str:
        """Return the line for the user; `metrics` are the names of the algorithm's metrics."""
        return f"seed {self.seed} failed at update {self.update}: {cause_text(self.cause, metrics)}"


class FailedSeeds:
    """The seeds of a run that have failed."""

    def __init__(self, first_seed: int, num_seeds: int):
        """Start without failures."""
        self._first, self._count = first_seed, num_seeds
        self.found: dict[int, FailedSeed] = {}  # by index

    def add(self, failed_at: ArrayLike, causes: ArrayLike) -> list[FailedSeed]:
        """Record the failures that a program reports, i32[seeds] each, 0 for none; return the new ones."""
        failed_at, causes = np.asarray(failed_at), np.asarray(causes)
        new = [int(i) for i in np.flatnonzero(failed_at) if int(i) not in self.found]
        for i in new:
            self.found[i] = FailedSeed(seed=self._first + i, update=int(failed_at[i]), cause=int(causes[i]))
        return [self.found[i] for i in new]

    def mask(self, members: int | None = None) -> np.ndarray:
        """Return which members failed, bool[members]; members that only fill the mesh did not."""
        return np.isin(np.arange(self._count if members is None else members), list(self.found))

    @property
    def alive(self) -> np.ndarray:
        """The indices of the seeds that did not fail, ascending."""
        return np.flatnonzero(~self.mask())

    @property
    def all(self) -> bool:
        """Whether every seed failed."""
        return len(self.found) == self._count


def _all_finite(tree: PyTree) -> Array:
    floats = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)]
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in floats])) if floats else jnp.array(True)
