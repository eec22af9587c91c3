"""A run's `Program` for environments on the host: its functions loop in Python."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from purerl.errors import InputError
from purerl.host import MODES, HostSettings, HostTrainer, JaxSource, make_host_trainer
from purerl.host_environment import HostSource
from purerl.loop.evaluate import Evaluation
from purerl.loop.metrics import MetricsSum
from purerl.loop.train import TrainState
from purerl.run import program
from purerl.run.program import EVALUATION_BATCH, Advance, Program, Progress, Wanted
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
    return env if on_host else JaxSource(name, env, config)


class HostFunctions(NamedTuple):
    """The functions of the host loop; `program.Functions` for one seed."""

    factory: AlgorithmFactory
    source: HostSource
    config: Config
    options: Any
    mesh: Mesh

    @property
    def on_host(self) -> bool:
        """True."""
        return True

    @property
    def seeds(self) -> np.ndarray:
        """u32[1]."""
        return np.array([self.options.seed], np.uint32)

    def placed(self, progress: Progress) -> Progress:
        """Return a `Progress` from a checkpoint as `advance` takes it."""
        return jax.tree.map(jnp.asarray, progress)

    def settings(self, wanted: Wanted = Wanted()) -> HostSettings:
        """Return how the loop runs."""
        options = self.options
        return HostSettings(
            mode="batched" if options.sampler == AUTO else options.sampler,
            num_actors=options.actors,
            deterministic=options.deterministic,
            time_limit=options.step_time_limit,
            failures=wanted.failures,
            say=wanted.say,
        )

    def template(self) -> Progress:
        """Return the shapes and dtypes of the run's `Progress`."""
        state, metrics = self._trainer(self.settings()).template(jax.eval_shape(lambda: jax.random.key(0)))
        return jax.eval_shape(lambda state: _as_member(program.begin(state, metrics)), state)

    def compile(self, shapes: Progress, wanted: Wanted = Wanted()) -> Program:
        """Return the run's functions; they are compiled when they are first called."""
        trainer = self._trainer(self.settings(wanted))
        seed = self.options.seed

        def init() -> Progress:
            state = trainer.init(jax.random.key(np.uint32(seed)))
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
            key = program.evaluation_key(np.uint32(seed), np.int32(update), np.int32(part))
            return jax.tree.map(lambda x: x[None], trainer.evaluate(agent, key, EVALUATION_BATCH))

        return Program(init=init, advance=advance, evaluate=evaluate, close=trainer.close)

    def _trainer(self, settings: HostSettings) -> HostTrainer:
        spec = EnvironmentSpec(self.source.observation_space, self.source.action_space)
        algo = _one_member(self.factory(spec, self.config))
        return make_host_trainer(algo, self.source, self.config, settings)


def _one_member(algo: Algorithm) -> Algorithm:
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

    return Algorithm(init=init, initial_carry=algo.initial_carry, act=act, update=update)


def _as_member(progress: Progress) -> Progress:
    """Return a `Progress` with a leading axis of one seed, which the agent has already."""
    return _mapped(progress, lambda x: x[None])


def _from_member(progress: Progress) -> Progress:
    return _mapped(progress, lambda x: x[0])


def _mapped(progress: Progress, change: Callable[[Any], Any]) -> Progress:
    each = lambda tree: jax.tree.map(change, tree)
    state, interval = progress.state, progress.interval
    return Progress(
        state=each(state._replace(agent=(), num_updates=()))._replace(agent=state.agent, num_updates=state.num_updates),
        interval=each(interval._replace(updates=()))._replace(updates=interval.updates),
        failed_at=each(progress.failed_at),
        cause=each(progress.cause),
    )


def _small(state: TrainState) -> Any:
    """Return a state without what is large."""
    return state._replace(agent=(), carry=(), vector=state.vector._replace(env_state=()))


_account = jax.jit(program.account)
_report = jax.jit(program.report)
