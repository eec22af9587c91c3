"""A run's compiled programs: start, advance by any number of updates, evaluate. All seeds are one program.

The config and the environment are arguments: one compilation, and one entry of the compilation cache, serves all their
numbers and every number of updates.
"""

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from purerl.devices.sharding import pad, place, resize, sharded_vmap, sharding
from purerl.loop.evaluate import Evaluation
from purerl.loop.extension import MakeFromSetup, Setup
from purerl.loop.metrics import MetricsSum, TrainMetrics, failure
from purerl.loop.population import TOGETHER
from purerl.loop.train import PER_ENVIRONMENT, TrainState
from purerl.run import failures
from purerl.types import Array, PyTree
from purerl.xla import backend
from purerl.xla.once import traced_once
from purerl.xla.trees import strong, where

EVALUATION_BATCH = 32  # episodes of one call of `evaluate`
_EVALUATION = np.uint32(0x6576616C)  # sets the keys of evaluations apart from those of training


class Progress(NamedTuple):
    """A run between two chunks; everything except the two counts of updates has a leading axis of seeds."""

    state: TrainState
    interval: MetricsSum  # since the last row of metrics
    failed_at: Array  # i32[], the first update whose metrics were not finite; 0: none
    cause: Array  # i32[], as `failures.cause` has it


_SEED: Any = 0
SEED_AXES = Progress(
    state=TOGETHER,
    interval=MetricsSum(updates=cast(Any, None), statistics=_SEED, algorithm=_SEED, known=_SEED),
    failed_at=_SEED,
    cause=_SEED,
)


class Advance(NamedTuple):
    """The report of `Program.advance` about its updates: arrays [seeds]."""

    metrics: TrainMetrics  # metrics of the interval so far
    failed_at: Array  # i32, as in `Progress`
    cause: Array  # i32, as in `Progress`


class Program(NamedTuple):
    """A program compiled for one algorithm, shape of config and environment, number of seeds, and mesh."""

    init: Callable[[], Progress]
    advance: Callable[[Progress, int, bool], tuple[Progress, Advance]]
    # (progress, number of updates, forget the interval first?) -> (progress, its metrics)
    evaluate: Callable[[PyTree, int, int], Evaluation]
    # (agent, number of updates, part) -> NumPy arrays [seeds, EVALUATION_BATCH]
    close: Callable[[], None] = lambda: None  # release what host environments hold

    def play(self, agent: PyTree, update: int, episodes: int) -> Evaluation:
        """Return `Evaluation` of NumPy arrays [seeds, episodes], evaluated in as many parts as necessary."""
        parts = range(math.ceil(episodes / EVALUATION_BATCH))
        results = [jax.device_get(self.evaluate(agent, update, part)) for part in parts]
        return jax.tree.map(lambda *xs: np.concatenate(xs, axis=1)[:, :episodes], *results)


class Wanted(NamedTuple):
    """The request for a program, and a function that receives messages."""

    init: bool = True  # a run that continues does not need it
    training: bool = True  # `init` and `advance`
    interrupted: Callable[[], bool] = lambda: False  # asked while waiting for the compiler
    failures: Path | None = None  # where the actions that led to a failing step are saved
    say: Callable[[str], None] = print  # shows the user a line


class Functions(Protocol):
    """The functions behind a `Program` of either loop, before anything is compiled."""

    @property
    def pure(self) -> bool:
        """Whether updates are compiled together; otherwise the loop runs in Python and compiles in its first update."""
        ...

    @property
    def seeds(self) -> np.ndarray:
        """u32[members]: the run's seeds; further members fill the mesh and are dropped."""
        ...

    @property
    def mesh(self) -> Mesh:
        """The devices."""
        ...

    def placed(self, progress: Progress) -> Progress:
        """Place a `Progress` from a checkpoint, with any number of members, for `advance`."""
        ...

    def template(self) -> Progress:
        """Return the shapes and dtypes of the run's `Progress`, with all members."""
        ...

    def compile(self, shapes: Progress, wanted: Wanted = Wanted()) -> Program:
        """Return the program for a `template`; after an interrupt, the compiler's threads continue."""
        ...


class CompiledFunctions(NamedTuple):
    """The functions of the compiled loop, jitted but not compiled, with their arguments."""

    init: Any
    advance: Any
    evaluate: Any
    seeds: np.ndarray
    num_seeds: int
    setup: Setup
    mesh: Mesh

    @property
    def pure(self) -> bool:
        """True: updates are compiled together."""
        return True

    def placed(self, progress: Progress) -> Progress:
        """Return a `Progress` filled up with members, on the mesh's devices."""
        filled = resized(progress, len(self.seeds))
        return jax.tree.map(lambda where, part: place(part, self.mesh, *where.spec), shardings(self.mesh), filled)

    def template(self) -> Progress:
        """Return the shapes of the run's `Progress`."""
        seeds = jax.ShapeDtypeStruct(self.seeds.shape, self.seeds.dtype, sharding=sharding(self.mesh, "seed"))
        return self.init.eval_shape(seeds, self.setup)  # seeds as `compile` places them: it does not trace again

    def compile(self, shapes: Progress, wanted: Wanted = Wanted()) -> Program:
        """Compile the functions in parallel, and wait."""
        zero, setup, seeds = np.int32(0), self.setup, place(self.seeds, self.mesh, "seed")
        jobs: dict[str, Future] = {}
        pool = ThreadPoolExecutor(3)
        if wanted.training:
            jobs["advance"] = pool.submit(self.lower_training(shapes).compile)
        if wanted.training and wanted.init:
            lowered = self.init.lower(seeds, setup)
            jobs["init"] = pool.submit(lowered.compile, compiler_options=backend.start_options(shapes.state))
        jobs["evaluate"] = pool.submit(self.evaluate.lower(shapes.state.agent, seeds, zero, zero, setup).compile)
        pool.shutdown(wait=False)
        while not all(job.done() for job in jobs.values()):  # a plain wait would not see Ctrl-C
            time.sleep(0.01)
            if wanted.interrupted():
                raise KeyboardInterrupt
        compiled = {name: job.result() for name, job in jobs.items()}

        def advance(progress: Progress, num: int, fresh: bool) -> tuple[Progress, Advance]:
            progress, done = compiled["advance"](progress, setup, np.int32(num), np.bool_(fresh))
            return progress, _on_host(done, self.num_seeds)

        def evaluate(agent: PyTree, update: int, part: int) -> Evaluation:
            played = compiled["evaluate"](agent, seeds, np.int32(update), np.int32(part), setup)
            return _on_host(played, self.num_seeds)

        def init() -> Progress:
            if "init" not in compiled:
                raise RuntimeError("this program was compiled without init")
            return compiled["init"](seeds, setup)

        return Program(init=init, advance=advance, evaluate=evaluate)

    def lower_training(self, shapes: Progress) -> jax.stages.Lowered:
        """Return the training program, ready to compile."""
        return self.advance.lower(shapes, self.setup, np.int32(0), np.bool_(True))


def shardings(mesh: Mesh) -> Progress:
    """Return the placement of a `Progress`: seeds on the mesh axis `seed`, a seed's environments on `data`."""
    shared: Any = sharding(mesh)
    member: Any = sharding(mesh, "seed")
    split: Any = sharding(mesh, "seed", "data")
    state: Any = jax.tree.map(lambda per_environment: split if per_environment else member, PER_ENVIRONMENT)
    interval = MetricsSum(updates=shared, statistics=split, algorithm=member, known=member)
    return Progress(state=state._replace(num_updates=shared), interval=interval, failed_at=member, cause=member)


def resized(progress: PyTree, count: int) -> PyTree:
    """Return a `Progress`, or its shapes, with `count` members: the first ones, and repetitions of the last."""
    return resize(progress, SEED_AXES, count)


def with_failed(progress: Progress, before: Progress, failed: np.ndarray) -> Progress:
    """Return a `Progress` in which failed members, bool[members], have the state of an earlier one."""
    state, mask = progress.state, cast(Any, failed)
    mixed = where(mask, before.state._replace(num_updates=()), state._replace(num_updates=()))
    return progress._replace(state=mixed._replace(num_updates=state.num_updates))


def functions(make: MakeFromSetup, setup: Setup, seed: int, num_seeds: int, mesh: Mesh) -> CompiledFunctions:
    """Return the functions for seeds seed .. seed + num_seeds - 1 of a run, spread over a mesh."""

    @traced_once  # for the shapes of the metrics and for the training
    def step(setup: Setup, state: TrainState) -> tuple[TrainState, TrainMetrics]:
        return make(setup).step(state)

    def init(seed: Array, setup: Setup) -> Progress:
        state = strong(make(setup).init(jax.random.key(seed)))
        return strong(begin(state, jax.eval_shape(step, setup, state)[1]))

    def advance(progress: Progress, setup: Setup, num: Array, fresh: Array):
        before = progress.interval
        cleared = MetricsSum.zeros(before.statistics, before.algorithm)
        cleared = jax.tree.map(lambda new, old: jnp.where(fresh, new, old), cleared, before)
        progress = progress._replace(interval=cleared)
        one = lambda _, progress: account(progress, *step(setup, progress.state))
        progress = jax.lax.fori_loop(0, num, one, progress)
        return progress, report(progress)

    def evaluate_one(agent: PyTree, seed: Array, update: Array, part: Array, setup: Setup):
        trainer = make(setup)
        return trainer.evaluate(agent, evaluation_key(seed, update, part), EVALUATION_BATCH)

    start = sharded_vmap(init, mesh, in_axes=(0, None), out_axes=SEED_AXES)
    go_on = sharded_vmap(advance, mesh, in_axes=(SEED_AXES, None, None, None), out_axes=(SEED_AXES, 0), in_place=True)
    play = sharded_vmap(evaluate_one, mesh, in_axes=(0, 0, None, None, None))
    shared, member, progress = sharding(mesh), sharding(mesh, "seed"), shardings(mesh)
    return CompiledFunctions(
        init=jax.jit(start, in_shardings=(member, shared), out_shardings=progress),
        advance=backend.jit(
            go_on,
            graphs=True,
            in_shardings=(progress, *[shared] * 3),
            out_shardings=(progress, shared),
            donate_argnums=0,
        ),
        evaluate=backend.jit(play, in_shardings=(member, member, *[shared] * 3), out_shardings=shared),
        seeds=np.uint32(seed) + np.arange(pad(num_seeds, mesh, "seed"), dtype=np.uint32),
        num_seeds=num_seeds,
        setup=jax.tree.map(as_leaf, setup),
        mesh=mesh,
    )


def evaluation_key(seed: Any, update: Any, part: Any) -> Array:
    """Return the key of one call of `Program.evaluate` for one seed."""
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), _EVALUATION), update)
    return jax.random.fold_in(key, part)


def _on_host(tree: PyTree, count: int) -> PyTree:
    return jax.tree.map(lambda x: x[:count], jax.device_get(tree))


def as_leaf(value: object) -> object:
    """Return a number as an argument: integers beyond int32, such as many time steps, become float32."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**31:
        return np.float32(value)
    return value


def begin(state: TrainState, metrics: TrainMetrics) -> Progress:
    """Return the progress of a run before its first update; `metrics` are an update's metrics or their shapes."""
    interval = MetricsSum.zeros(state.vector.statistics, metrics.algorithm)
    return Progress(state=state, interval=interval, failed_at=jnp.int32(0), cause=jnp.int32(0))


def account(progress: Progress, state: TrainState, metrics: TrainMetrics) -> Progress:
    """Return the progress after one more update: its metrics added to the interval, and whether it failed."""
    found = failure(metrics.algorithm, state.agent, progress.interval)
    failed_now = (progress.failed_at == 0) & found.failed
    return Progress(
        state=state,
        interval=progress.interval.add(state.vector.statistics, metrics.algorithm),
        failed_at=jnp.where(failed_now, state.num_updates, progress.failed_at),
        cause=jnp.where(failed_now, failures.cause(state, found), progress.cause),
    )


def report(progress: Progress) -> Advance:
    """Return the report of a progress."""
    return Advance(metrics=progress.interval.means(), failed_at=progress.failed_at, cause=progress.cause)
