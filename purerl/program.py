"""A run's compiled programs: start, advance by any number of updates, evaluate. All seeds are one program.

The config and the environment are arguments: one compilation, and one entry of the compilation cache, serves all their
numbers and every number of updates.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.evaluate import Evaluation, evaluate
from purerl.interval import Interval
from purerl.prng import is_key
from purerl.train import Trainer, TrainState, make_trainer
from purerl.types import AlgorithmFactory, Array, Config, Environment, Metrics, PyTree

EVALUATION_BATCH = 32  # episodes of one call of `evaluate`
SMALL = 300_000  # numbers in a run's state
_EVALUATION = np.uint32(0x6576616C)  # sets the keys of evaluations apart from those of training

CAUSES = {
    1: "the loss or its gradient overflowed: learning_rate may be too high or max_grad_norm too large",
    2: "the environment gave a reward that is not finite",
    3: "the environment gave an observation that is not finite",
}


class Progress(NamedTuple):
    """A run between two chunks; all but the two counts of updates have a leading axis of seeds."""

    state: TrainState
    interval: Interval  # since the last row of metrics
    failed_at: Array  # i32[], the first update whose metrics were not finite; 0: none
    cause: Array  # i32[], a key of CAUSES


SEED_AXES = Progress(TrainState(0, 0, 0, 0, 0, None), Interval(None, 0, 0), 0, 0)  # type: ignore[arg-type]


class Program(NamedTuple):
    """Compiled for one algorithm, shape of config and environment, and number of seeds."""

    init: Callable[[], Progress]
    advance: Callable[[Progress, int, bool], tuple[Progress, Metrics]]
    # (progress, number of updates, forget the interval first?) -> (progress, the interval's means, f32[seeds] each)
    evaluate: Callable[[PyTree, int, int], Evaluation]
    # (agent, number of updates, part) -> [seeds, EVALUATION_BATCH]


class Functions(NamedTuple):
    """The functions behind a `Program`, jitted but not compiled, and what they are called with."""

    init: Any
    advance: Any
    evaluate: Any
    seeds: np.ndarray  # u32[seeds]
    numbers: tuple[Config, Environment]


def functions(factory: AlgorithmFactory, env: Environment, config: Config, seed: int, num_seeds: int) -> Functions:
    """Return what is to be compiled for seeds seed .. seed + num_seeds - 1."""

    def init(seeds: Array, config: Config, env: Environment) -> Progress:
        trainer = make_trainer(factory, env, config)
        return jax.vmap(lambda s: _begin(trainer, s), out_axes=SEED_AXES)(seeds)

    def advance(progress: Progress, config: Config, env: Environment, num: Array, fresh: Array):
        trainer = make_trainer(factory, env, config)

        def one(progress: Progress) -> tuple[Progress, Metrics]:
            before = progress.interval
            cleared = Interval.empty(before.statistics, before.sums)
            cleared = jax.tree.map(lambda new, old: jnp.where(fresh, new, old), cleared, before)
            progress = progress._replace(interval=cleared)
            progress = jax.lax.fori_loop(0, num, lambda _, p: _step(trainer, p), progress)
            return progress, progress.interval.means() | {"failed_at": progress.failed_at, "cause": progress.cause}

        return jax.vmap(one, in_axes=(SEED_AXES,), out_axes=(SEED_AXES, 0))(progress)

    def evaluate_all(agent: PyTree, seeds: Array, update: Array, part: Array, config: Config, env: Environment):
        trainer = make_trainer(factory, env, config)

        def one(agent: PyTree, seed: Array) -> Evaluation:
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), _EVALUATION), update)
            return evaluate(trainer, agent, jax.random.fold_in(key, part), EVALUATION_BATCH)

        return jax.vmap(one)(agent, seeds)

    seeds = np.arange(seed, seed + num_seeds, dtype=np.uint32)
    return Functions(
        jax.jit(init),
        jax.jit(advance, donate_argnums=0),
        jax.jit(evaluate_all),
        seeds,
        jax.tree.map(as_leaf, (config, env)),
    )


def template(parts: Functions) -> Progress:
    """Return the shapes and dtypes of a run's `Progress`."""
    return parts.init.eval_shape(parts.seeds, *parts.numbers)


def compile_program(
    parts: Functions,
    shapes: Progress,
    with_init: bool = True,
    with_training: bool = True,
    interrupted: Callable[[], bool] = lambda: False,
) -> Program:
    """Compile side by side, and wait.

    Args:
      parts: from `functions`.
      shapes: from `template`.
      with_init: whether `init` is needed; a run that goes on does not start.
      with_training: whether `init` and `advance` are needed.
      interrupted: asked while waiting.

    Raises:
      KeyboardInterrupt: if it was interrupted; the compiler's threads run on.
    """
    zero, numbers = np.int32(0), parts.numbers
    jobs: dict[str, Future] = {}
    pool = ThreadPoolExecutor(3)
    if with_training:
        lowered = parts.advance.lower(shapes, *numbers, zero, np.bool_(True))
        jobs["advance"] = pool.submit(lowered.compile)
    if with_training and with_init:
        lowered = parts.init.lower(parts.seeds, *numbers)
        jobs["init"] = pool.submit(lowered.compile, compiler_options=_init_options(shapes))
    jobs["evaluate"] = pool.submit(parts.evaluate.lower(shapes.state.agent, parts.seeds, zero, zero, *numbers).compile)
    pool.shutdown(wait=False)
    while not all(job.done() for job in jobs.values()):  # a plain wait would not see Ctrl-C
        time.sleep(0.01)
        if interrupted():
            raise KeyboardInterrupt
    compiled = {name: job.result() for name, job in jobs.items()}
    return Program(
        partial(compiled["init"], parts.seeds, *numbers) if "init" in compiled else _absent,
        lambda progress, num, fresh: compiled["advance"](progress, *numbers, np.int32(num), np.bool_(fresh)),
        lambda agent, update, part: compiled["evaluate"](
            agent, parts.seeds, np.int32(update), np.int32(part), *numbers
        ),
    )


def _init_options(shapes: Progress) -> dict[str, int] | None:
    """A small start runs in an instant either way, but compiles in less than half the time without optimisation."""
    small = sum(leaf.size for leaf in jax.tree.leaves(shapes.state)) < SMALL
    return {"xla_backend_optimization_level": 0} if small and jax.default_backend() == "cpu" else None


def _absent(*_: Any) -> Any:
    raise RuntimeError("this program was compiled without a start")


def as_leaf(value: Any) -> Any:
    """Return a number as an argument: integers beyond int32, such as many time steps, as float32."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**31:
        return np.float32(value)
    return value


def _begin(trainer: Trainer, seed: Array) -> Progress:
    state = trainer.init(jax.random.key(seed))
    metrics = jax.eval_shape(trainer.step, state)[1]
    progress = Progress(state, Interval.empty(state.vector.statistics, metrics), jnp.int32(0), jnp.int32(0))
    # Weakly typed arrays would come back from a checkpoint with another type.
    return jax.tree.map(lambda x: x if is_key(x) else jax.lax.convert_element_type(x, x.dtype), progress)


def _step(trainer: Trainer, progress: Progress) -> Progress:
    """Take one update, add what it was like to the interval, and look whether it failed."""
    state, metrics = trainer.step(progress.state)
    interval = progress.interval.add(state.vector.statistics, metrics)
    failed_now = (progress.failed_at == 0) & ~_all_finite({name: metrics[name] for name in interval.sums})
    failed_at = jnp.where(failed_now, state.num_updates, progress.failed_at)
    cause = jnp.where(failed_now, _cause(state), progress.cause)
    return Progress(state, interval, failed_at, cause)


def _all_finite(tree: PyTree) -> Array:
    floats = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)]
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in floats])) if floats else jnp.array(True)


def _cause(state: TrainState) -> Array:
    rewards = (state.vector.episode_return, state.vector.statistics.return_sum)
    return jnp.where(~_all_finite(rewards), 2, jnp.where(~_all_finite(state.observation), 3, 1)).astype(jnp.int32)
