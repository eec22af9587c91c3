"""A run's `Program` where environments are on the host: the same three functions, with a loop of Python inside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from purerl.errors import InputError
from purerl.host import MODES, Dressed, HostSettings, make_host_trainer
from purerl.host_environment import HostSource
from purerl.loop.evaluate import Evaluation
from purerl.loop.interval import Interval
from purerl.loop.train import TrainState
from purerl.run import program
from purerl.run.program import EVALUATION_BATCH, Program, Progress
from purerl.types import Algorithm, AlgorithmFactory, Config, EnvironmentSpec, Key, PyTree, Rollout

AUTO = "auto"  # compiled for a JAX environment, batched for a host one


def source_of(env: Any, name: str, options: Any, config: Config) -> HostSource | None:
    """Return the host environments that a run's options ask for; None for the compiled loop.

    Args:
      env: the environment, of either kind.
      name: its id.
      options: the run's.
      config: the algorithm's.

    Raises:
      InputError: if the options do not fit the environment or one another.
    """
    if options.sampler not in (AUTO, *MODES):
        raise InputError(f"sampler is '{options.sampler}'; allowed: {', '.join((AUTO, *MODES))}")
    if options.sampler != "async" and (options.deterministic or options.actors != 2):
        raise InputError("actors and deterministic are for sampler async alone")
    if options.step_time_limit <= 0:
        raise InputError(f"step_time_limit is {options.step_time_limit:g}; it must be above 0 seconds")
    on_host = isinstance(env, HostSource)
    if not on_host and options.sampler == AUTO:
        return None
    if options.seeds > 1:
        raise InputError(
            f"{name} runs on the host and cannot be vmapped over {options.seeds} seeds: start a run for each, "
            f"--seed 0, --seed 1, ..."
        )
    return env if on_host else Dressed(name, env, config)


class HostParts(NamedTuple):
    """What a run on the host is made of, in place of `program.Functions`."""

    factory: AlgorithmFactory
    source: HostSource
    config: Config
    options: Any
    mesh: Mesh

    @property
    def seeds(self) -> np.ndarray:
        """u32[1]."""
        return np.array([self.options.seed], np.uint32)

    def placed(self, progress: Progress) -> Progress:
        """Return a `Progress` from a checkpoint as `advance` takes it."""
        return jax.tree.map(jnp.asarray, progress)

    def settings(self, folder: Path | None = None, say: Callable[[str], None] = print) -> HostSettings:
        """Return how the loop runs; `folder` is where failures of environments are written down."""
        options = self.options
        mode = "batched" if options.sampler == AUTO else options.sampler
        return HostSettings(mode, options.actors, options.deterministic, options.step_time_limit, folder, say)

    def template(self) -> Progress:
        """Return the shapes and dtypes of the run's `Progress`."""
        trainer = self._trainer(self.settings())
        state, metrics = trainer.template(jax.eval_shape(lambda: jax.random.key(0)))

        def begin(state: TrainState) -> Progress:
            empty = Interval.empty(state.vector.statistics, metrics)
            return _as_lane(Progress(state, empty, jnp.int32(0), jnp.int32(0)))

        return jax.eval_shape(begin, state)

    def program(self, folder: Path | None, say: Callable[[str], None]) -> Program:
        """Return the run's functions; what they need is compiled when it is first called.

        Args:
          folder: the run's.
          say: shows a line.
        """
        trainer = self._trainer(self.settings(folder, say))
        seed = self.options.seed

        def init() -> Progress:
            state = trainer.init(jax.random.key(np.uint32(seed)))
            metrics = trainer.template(jax.random.key(0))[1]
            empty = Interval.empty(state.vector.statistics, metrics)
            return _as_lane(Progress(state, empty, jnp.int32(0), jnp.int32(0)))

        def advance(progress: Progress, num: int, fresh: bool) -> tuple[Progress, dict[str, np.ndarray]]:
            progress = _from_lane(progress)
            state, small = progress.state, progress._replace(state=_small(progress.state))
            if fresh:
                small = small._replace(interval=Interval.empty(small.interval.statistics, small.interval.sums))
            for _ in range(num):
                state, metrics = trainer.step(state)
                small = _account(small, _small(state), metrics)
            told = _means(small.interval) | {"failed_at": small.failed_at, "cause": small.cause}
            return _as_lane(small._replace(state=state)), {k: np.asarray(v)[None] for k, v in told.items()}

        def evaluate(agent: PyTree, update: int, part: int) -> Evaluation:
            key = program.evaluation_key(np.uint32(seed), np.int32(update), np.int32(part))
            played = Evaluation(*trainer.play(agent, key, EVALUATION_BATCH), group_return={})
            return jax.tree.map(lambda x: x[None], played)

        return Program(init, advance, evaluate, trainer.close)

    def _trainer(self, settings: HostSettings) -> Any:
        spec = EnvironmentSpec(self.source.observation_space, self.source.action_space)
        algo = _one_lane(self.factory(spec, self.config))
        return make_host_trainer(algo, self.source, self.config, settings)


def _one_lane(algo: Algorithm) -> Algorithm:
    """Return an algorithm whose agent has a leading axis of one seed, as in the checkpoints of every run.

    The axis comes and goes inside the compiled functions, where it costs nothing: a large replay is never copied.
    """

    def init(key: Key) -> PyTree:
        return jax.tree.map(lambda x: x[None], algo.init(key))

    def act(agent: PyTree, *args: Any) -> Any:
        return algo.act(jax.tree.map(lambda x: x[0], agent), *args)

    def update(agent: PyTree, key: Key, rollout: Rollout) -> Any:
        agent, metrics = algo.update(jax.tree.map(lambda x: x[0], agent), key, rollout)
        return jax.tree.map(lambda x: x[None], agent), metrics

    return Algorithm(init, algo.initial_carry, act, update)


def _as_lane(progress: Progress) -> Progress:
    """Return a `Progress` with a leading axis of one seed, which the agent has already."""
    return _mapped(progress, lambda x: x[None])


def _from_lane(progress: Progress) -> Progress:
    return _mapped(progress, lambda x: x[0])


def _mapped(progress: Progress, change: Callable[[Any], Any]) -> Progress:
    each = lambda tree: jax.tree.map(change, tree)
    state, interval = progress.state, progress.interval
    state = TrainState(
        state.agent, each(state.vector), each(state.observation), each(state.carry), each(state.key), state.num_updates
    )
    interval = Interval(interval.updates, each(interval.statistics), each(interval.sums))
    return Progress(state, interval, each(progress.failed_at), each(progress.cause))


def _small(state: TrainState) -> Any:
    """Return a state without what is large."""
    return state._replace(agent=(), carry=(), vector=state.vector._replace(env_state=()))


_account = jax.jit(program.account)
_means = jax.jit(Interval.means)
