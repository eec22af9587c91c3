"""A run's `Program` for trainers that step in Python instead of inside a compiled program."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from purerl.loop.evaluate import Evaluation
from purerl.loop.metrics import MetricsSum, parameters
from purerl.loop.train import Trainer, TrainState
from purerl.run import program
from purerl.run.program import EVALUATION_BATCH, Advance, Program, Progress, Wanted
from purerl.types import Algorithm, Key, Metrics, PyTree, Rollout


class SteppedTrainer(Trainer, Protocol):
    """A trainer whose `step` runs in Python."""

    def again(self, algorithm: Algorithm, failures: Path | None, say: Callable[[str], None], /) -> "SteppedTrainer":
        """Return the trainer of another algorithm.

        Args:
          algorithm: on the same spaces.
          failures: the folder in which what led to a failure is saved; None: nowhere.
          say: a function that shows the user a line.
        """
        ...


class SteppedFunctions(NamedTuple):
    """The functions of a trainer that steps in Python; `program.Functions` for one seed."""

    trainer: SteppedTrainer
    seeds: np.ndarray  # u32[1]
    mesh: Mesh

    @property
    def pure(self) -> bool:
        """False."""
        return False

    def placed(self, progress: Progress) -> Progress:
        """Return a `Progress` from a checkpoint as `advance` takes it."""
        return jax.tree.map(jnp.asarray, progress)

    def template(self) -> Progress:
        """Return the shapes and dtypes of the run's `Progress`."""
        state, metrics = self._trainer(Wanted()).template(jax.eval_shape(lambda: jax.random.key(0)))
        return jax.eval_shape(lambda state: _as_member(program.begin(state, metrics)), state)

    def compile(self, shapes: Progress, wanted: Wanted = Wanted()) -> Program:
        """Return the run's functions; they are compiled when they are first called."""
        trainer, (seed,) = self._trainer(wanted), self.seeds

        def init() -> Progress:
            state = trainer.init(jax.random.key(seed))
            return _as_member(program.begin(state, trainer.template(jax.random.key(0))[1]))

        def advance(progress: Progress, num: int, fresh: bool) -> tuple[Progress, Advance]:
            progress = _from_member(progress)
            state, small = progress.state, progress._replace(state=_small(progress.state))
            if fresh:
                before = small.interval
                small = small._replace(interval=MetricsSum.zeros(before.statistics, before.algorithm))
            for _ in range(num):
                state, metrics = trainer.step(state)
                small = _account(small, _small(state), metrics)
            done = jax.tree.map(lambda x: np.asarray(x)[None], _report(small))
            return _as_member(small._replace(state=state)), done

        def evaluate(agent: PyTree, update: int, part: int) -> Evaluation:
            key = program.evaluation_key(seed, np.int32(update), np.int32(part))
            return jax.tree.map(lambda x: x[None], trainer.evaluate(agent, key, EVALUATION_BATCH))

        return Program(init=init, advance=advance, evaluate=evaluate, close=trainer.close)

    def _trainer(self, wanted: Wanted) -> SteppedTrainer:
        return self.trainer.again(_one_member(self.trainer.algorithm), wanted.failures, wanted.say)


def _one_member(algo: Algorithm) -> Algorithm:
    """Return an algorithm whose agent has a leading axis of one seed, as in every run's checkpoints.

    The axis comes and goes inside the compiled functions, where it costs nothing: a large replay is never copied.
    """

    def init(key: Key) -> PyTree:
        return jax.tree.map(lambda x: x[None], algo.init(key))

    def act(agent: PyTree, *args: PyTree) -> tuple[PyTree, PyTree, PyTree]:
        return algo.act(jax.tree.map(lambda x: x[0], agent), *args)

    def update(agent: PyTree, key: Key, rollout: Rollout) -> tuple[PyTree, Metrics]:
        agent, metrics = algo.update(jax.tree.map(lambda x: x[0], agent), key, rollout)
        return jax.tree.map(lambda x: x[None], agent), metrics

    return algo._replace(init=init, act=act, update=update)


def _as_member(progress: Progress) -> Progress:
    """Return a `Progress` with a leading axis of one seed, which its agent already has."""
    return _mapped(progress, lambda x: x[None])


def _from_member(progress: Progress) -> Progress:
    return _mapped(progress, lambda x: x[0])


def _mapped(progress: Progress, change: Callable[[PyTree], PyTree]) -> Progress:
    each = lambda tree: jax.tree.map(change, tree)
    state, interval = progress.state, progress.interval
    return Progress(
        state=each(state._replace(agent=(), num_updates=()))._replace(agent=state.agent, num_updates=state.num_updates),
        interval=each(interval._replace(updates=()))._replace(updates=interval.updates),
        failed_at=each(progress.failed_at),
        cause=each(progress.cause),
    )


def _small(state: TrainState) -> TrainState:
    """Return a state without its large parts; only the parameters of the agent remain."""
    return state._replace(agent=parameters(state.agent), carry=(), vector=state.vector._replace(env_state=()))


_account = jax.jit(program.account)
_report = jax.jit(program.report)
