"""Population based training: modified copies of the best agents replace the worst ones during the run.

After each generation, within each seed's population and inside the compiled program:

    exploit   an agent of the lowest fifth copies state and numbers of a random one of the highest fifth
    explore   each of its numbers is multiplied by 0.8 or 1.25, or resampled with probability 1/4, within its range

Source: Jaderberg et al. (2017), "Population based training of neural networks", arXiv:1711.09846.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from purerl.devices import sharding
from purerl.loop.extension import MakeFromSetup, Setup
from purerl.loop.population import AXIS, TOGETHER, Values, place, train_members
from purerl.loop.train import TrainState
from purerl.prng import is_key
from purerl.reporting.files import csv_text, write_whole
from purerl.settings.ranges import Range
from purerl.sweeps.plan import SweepPlan
from purerl.sweeps.search import BankSearch
from purerl.types import Array, Key, PyTree

SHARE = 5  # one in so many is replaced
FACTORS = (0.8, 1.25)
ANEW = 0.25  # the probability that a number is drawn from its whole range
_POPULATION = np.uint32(0x70627400)  # sets these keys apart from those of training
_STRIDE = np.uint32(0x9E3779B1)  # between the seeds of members: odd, so that none meets another


def exploit(key: Key, scores: Array) -> Array:
    """Return i32[population]: the agent whose state each agent continues with, usually its own.

    Args:
      key: a key for the choice of agents that are copied.
      scores: f32[population]; -inf for an agent that failed.
    """
    size = scores.shape[0]
    few = max(1, size // SHARE)
    order = jnp.argsort(scores).astype(jnp.int32)
    worst, best = order[:few], order[-few:]
    donors = best[jax.random.randint(key, (few,), 0, few)]
    members = jnp.arange(size, dtype=jnp.int32)
    return members.at[worst].set(jnp.where(scores[donors] > scores[worst], donors, worst))


def explore(key: Key, value: Array, dimension: Range) -> Array:
    """Return the numbers after independent changes, within their range: f32 or i32, of the shape of `value`."""
    key_factor, key_anew, key_position = jax.random.split(key, 3)
    low, high = jnp.float32(dimension.low), jnp.float32(dimension.high)
    factor = jax.random.choice(key_factor, jnp.array(FACTORS, jnp.float32), value.shape)
    number = value.astype(jnp.float32)
    changed = number * factor
    position = jax.random.uniform(key_position, value.shape)
    drawn = low * (high / low) ** position if dimension.log else low + position * (high - low)
    if dimension.whole:  # at least one up or down: 1 x 1.25 would be rounded to 1
        up, down = jnp.maximum(jnp.ceil(changed), number + 1.0), jnp.minimum(jnp.floor(changed), number - 1.0)
        drawn, changed = jnp.round(drawn), jnp.where(factor > 1.0, up, down)
    anew = jax.random.bernoulli(key_anew, ANEW, value.shape) | (number == 0)  # no factor moves 0
    changed = jnp.where(anew, drawn, changed)
    return jnp.clip(changed, low, high).astype(value.dtype)


class Members(NamedTuple):
    """Populations between two generations; row i x num_seeds + s is member i of the population of seed s."""

    state: TrainState  # [rows]
    values: Values  # [rows] each
    scores: Array  # f32[rows], the return of the last generation in which an episode ended


ROW_AXES = Members(state=TOGETHER, values=0, scores=0)  # type: ignore[arg-type]  # axes of `Members`


def succeed(key: Key, scores: Array, values: Values, dimensions: Mapping[str, Range]) -> tuple[Array, dict[str, Array]]:
    """Return (parents i32[population], values [population] of the next generation)."""
    key_exploit, key_explore = jax.random.split(key)
    parents = exploit(key_exploit, scores)
    copied = parents != jnp.arange(scores.shape[0], dtype=jnp.int32)
    keys = jax.random.split(key_explore, len(dimensions))
    new = {
        name: jnp.where(copied, explore(keys[i], values[name][parents], dimension), values[name])
        for i, (name, dimension) in enumerate(dimensions.items())
    }
    return parents, new


def program(
    make: MakeFromSetup, mesh: Mesh, dimensions: Mapping[str, Range], shape: tuple[int, int], metric: str
) -> Callable[..., PyTree]:
    """Return the function of one generation of (population, seeds) agents.

    (members, seeds u32[rows], updates i32[], generation i32[], last bool[], setup)
      -> (members, (parents i32[population, seeds], values [rows], Point[rows])); after the last generation nobody is
    replaced.
    """
    train = train_members(make, mesh, metric=metric)
    size, num_seeds = shape
    real = size * num_seeds

    def generation(members: Members, seeds: Array, num: Array, number: Array, last: Array, setup: Setup):
        state, point = train(members.state, seeds, members.values, num, number == 0, setup)
        known = jnp.where(jnp.isnan(point.episode_return), members.scores, point.episode_return)
        scores = jnp.where(point.finite, known, -jnp.inf)
        table = lambda x: x[:real].reshape(shape)
        keys = jax.vmap(lambda seed: jax.random.fold_in(_key(seed), number))(seeds[:num_seeds])
        parents, values = jax.vmap(partial(succeed, dimensions=dimensions), (0, 1, 1), 1)(
            keys, table(scores), jax.tree.map(table, members.values)
        )
        same = jnp.arange(size, dtype=jnp.int32)[:, None]
        parents = jnp.where(last, same, parents)
        put = lambda x, new: jnp.where(last, x, jnp.concatenate([new.reshape(-1), x[real:]]))
        values = jax.tree.map(put, members.values, values)
        rows = (parents * num_seeds + jnp.arange(num_seeds, dtype=jnp.int32)).reshape(-1)
        rows = jnp.concatenate([rows, jnp.arange(real, seeds.shape[0], dtype=jnp.int32)])
        take = lambda x: x if is_key(x) else x[rows]  # a copy keeps its random key
        new_state = jax.tree.map(take, state._replace(num_updates=()))._replace(num_updates=state.num_updates)
        return Members(state=new_state, values=values, scores=scores[rows]), (parents, values, point)

    return generation


def member_seeds(rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Return the seed of each row of `Members`, u32[rows], different for every member; member 0 has the population's.

    If all had one seed, members would start with the same parameters and random numbers. A copy whose hyperparameters
    stay at an end of their range would then remain identical to its donor.
    """
    return seeds[rows % len(seeds)] + (rows // len(seeds)).astype(np.uint32) * _STRIDE


def _key(seed: Array) -> Key:
    return jax.random.fold_in(jax.random.key(seed), _POPULATION)


class Population(BankSearch):
    """The search of population based training: a population per seed."""

    names = ("members", "past")

    def __init__(self, plan: SweepPlan):
        """Begin with no generation trained."""
        self.shape = len(plan.trials), len(plan.seeds)
        self._last = self.shape[0] * self.shape[1] - 1
        self._rows = np.minimum(np.arange(sharding.pad(self._last + 1, plan.mesh, AXIS)), self._last)
        super().__init__(plan, plan.env_steps(), len(self._rows))  # a curve covers an agent and its ancestors
        self.dimensions = {name: d for name, d in plan.dimensions.items() if isinstance(d, Range)}
        times = (plan.num_points, *self.shape)
        self.parents, self.returns = np.zeros(times, np.int32), np.zeros(times, np.float32)
        start = {name: np.broadcast_to(column[:, None], times) for name, column in self.group.values.items()}
        self.history = {name: np.concatenate([column, column[:1]]) for name, column in start.items()}

    @property
    def generation(self) -> int:
        """The number of completed generations."""
        return int(self.curves.trained[0])

    @property
    def lineage(self) -> list[dict[str, object]]:
        """A row per generation, member and seed: its return, then the agent and the numbers that it continues with."""
        return [
            {"generation": g, "member": m, "seed": int(self.plan.seeds[s])}
            | {"episode_return": float(self.returns[g, m, s]), "parent": int(self.parents[g, m, s])}
            | self._values(g + 1, m, s)
            for g, m, s in np.ndindex(self.generation, *self.shape)
        ]

    def values(self) -> list[list[dict[str, object]]]:
        """Return the current numbers of each agent, [trials][seeds]."""
        return [[self._values(self.generation, m, s) for s in range(self.shape[1])] for m in range(self.shape[0])]

    def _values(self, generation: int, member: int, seed: int) -> dict[str, object]:
        return {name: d.value(self.history[name][generation, member, seed]) for name, d in self.dimensions.items()}

    def share(self) -> float:
        """Return the completed fraction of the generations."""
        return self.generation / self.plan.num_points

    def running(self) -> int:
        """Return the number of trials in training."""
        return self.shape[0] if 0 < self.generation < self.plan.num_points else 0

    def advance(self) -> bool:
        """Train one generation; return whether a checkpoint is due."""
        if self.compiles():
            self.compile()
        now = self.generation
        self.bank, more = self.compiled(self.bank, *self._arguments())
        parents, values, point = jax.device_get(more)
        table = lambda x: x[: self._last + 1].reshape(self.shape)
        self.returns[now], self.parents[now] = table(point.episode_return), parents
        self.curves.episode_return[:, :, now] = table(point.episode_return)
        ancestors = parents[:, :, None]
        self.curves.episode_return[:] = np.take_along_axis(self.curves.episode_return, ancestors, axis=0)
        self.curves.failed[:] = np.take_along_axis(~table(point.finite), parents, axis=0)
        self.curves.trained[:] = now + 1
        for name, column in values.items():
            self.history[name][now + 1 :] = table(column)
        return self.save_is_due()

    def _program(self) -> Callable[..., PyTree]:
        return program(self.plan.make, self.mesh, self.dimensions, self.shape, self.plan.options.metric)

    def _arguments(self) -> tuple[PyTree, ...]:
        now, last = self.generation, self.plan.num_points - 1
        seeds = sharding.place(member_seeds(self._rows, self.plan.seeds), self.mesh, AXIS)
        num = np.int32(self.plan.spans(self.group)[min(now, last)])
        return seeds, num, np.int32(now), np.bool_(now == last), self.group.argument()

    def _blank_bank(self, members: int) -> Members:
        state: Any = self.blank(self.group, len(self._rows), TOGETHER)
        values: Any = {name: column[self._rows // self.shape[1]] for name, column in self.group.values.items()}
        scores: Any = np.full(len(self._rows), -np.inf, np.float32)
        return sharding.resize(Members(state=state, values=values, scores=scores), ROW_AXES, members)

    def _placed(self, bank: Members) -> Members:
        found = sharding.resize(bank, ROW_AXES, self.members)
        values, scores = sharding.place((found.values, found.scores), self.mesh, AXIS)
        return Members(state=place(found.state, self.mesh), values=values, scores=scores)

    def _past(self) -> dict[str, PyTree]:
        return {"parents": self.parents, "returns": self.returns, "history": self.history}

    @property
    def _step(self) -> int:
        return self.generation

    def save(self, folder: Path) -> None:
        """Write a checkpoint, the curves and lineage.csv."""
        super().save(folder)
        write_whole(folder / "lineage.csv", csv_text(self.lineage, "trial"))
