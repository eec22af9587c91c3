"""The trainer of host environments. Its loop runs in Python, in one of the modes of `options.MODES`."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from purerl import agent_groups
from purerl.errors import InputError, unknown
from purerl.extensions.host.acting import Acting, make_acting
from purerl.extensions.host.actors import Actors
from purerl.extensions.host.env_thread import Busy, Worker
from purerl.extensions.host.jax_source import JaxSource
from purerl.extensions.host.learning import make_learn, metrics_struct, no_episodes, sampler_metrics
from purerl.extensions.host.options import MODES
from purerl.extensions.host.rollout import EnvGroup, GroupRollout, collect
from purerl.extensions.host.xla_rollout import XlaRollout
from purerl.host_environment import HostEnvironment, HostSource, not_inside_jit
from purerl.loop.evaluate import MAX_STEPS, Evaluation
from purerl.loop.metrics import EpisodeStatistics, TrainMetrics
from purerl.loop.pieces import check_key, check_pieces
from purerl.loop.trainer import Policy, TrainState
from purerl.loop.vector import VectorState
from purerl.prng import convert, fast
from purerl.types import Algorithm, AlgorithmFactory, Array, Config, EnvironmentSpec, Key, PyTree
from purerl.xla import backend
from purerl.xla.trees import where

KEYS = 256  # steps of an evaluation whose keys are drawn together


class HostSettings(NamedTuple):
    """The settings of a host loop."""

    mode: str = "batched"
    num_actors: int = 2  # in mode async
    deterministic: bool = False  # async: act with the policy of exactly one update before
    time_limit: float = 60.0  # seconds that a step of an environment may take
    failures: Path | None = None  # where the actions that led to a failure are saved
    say: Callable[[str], None] = print  # shows the user a line

    @property
    def num_groups(self) -> int:
        """Groups of environments that act separately."""
        return {"alternating": 2, "async": self.num_actors}.get(self.mode, 1)


class HostTrainer:
    """The `Trainer` of host environments; its threads and environments exist from the first step to `close`.

    `step` must be given the state that the last call returned, and overwrites its agent.
    """

    pure = False

    def __init__(
        self,
        algo: Algorithm,
        source: HostSource,
        config: Config,
        settings: HostSettings,
        policies: Mapping[str, Policy] | None = None,
    ):
        """Prepare the programs of the loop; `make_host_trainer` checks the arguments first."""
        self._algo, self._source, self._config, self._settings = algo, source, config, settings
        self.policies: Mapping[str, Policy] = policies or {}
        self._group_size = config.num_envs // settings.num_groups
        agent = jax.eval_shape(algo.init, jax.random.key(0))
        self._functions: Acting = make_acting(algo, source, config, agent, self._group_size)
        self._acting, self._update = self._functions.compiled(), make_learn(algo, source)
        self._learn = backend.jit(self._update, donate_argnums=0)
        self._init_agent = jax.jit(algo.init)
        self._groups: list[EnvGroup] = []
        self._actors: Actors | None = None
        self._inside: XlaRollout | None = None
        self._stage: Any = None  # (worker, number of environments, acting programs) of evaluation
        self._busy, self._since = Busy(), (time.perf_counter(), 0.0)
        self._updates = 0  # since the environments were opened
        self._interrupted = False  # whether the environments start over in the middle of a run
        self._saves = settings.mode not in ("async", "inside") and source.snapshot_struct(self._group_size) != ()

    def player(self, agent: PyTree) -> tuple[Algorithm, PyTree]:
        """Return the (algorithm, agent) that plays."""
        return self._algo, agent

    def again(self, algorithm: Algorithm, failures: Path | None, say: Callable[[str], None]) -> "HostTrainer":
        """Return the trainer of another algorithm, which saves the actions that led to a failure and prints lines."""
        settings = self._settings._replace(failures=failures, say=say)
        return HostTrainer(algorithm, self._source, self._config, settings, self.policies)

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm, for the environments' spaces."""
        return self._algo

    @property
    def environment(self) -> HostSource:
        """The source of the environments."""
        return self._source

    def init(self, key: Key) -> TrainState:
        """Start a run."""
        if isinstance(key, Tracer):
            raise not_inside_jit(self._source, "jit or vmap")
        check_key(key, "a run has one")
        key_agent, key_env, key_run = jax.random.split(convert(key, self._config.prng), 3)
        self._open(key_env)
        keys = [key_env] if len(self._groups) == 1 else list(jax.random.split(key_env, len(self._groups)))
        for group, key_group in zip(self._groups, keys, strict=True):
            group.begin(group.worker.reset(key_group))
        vector = no_episodes(self._config.num_envs, self._snapshots())
        return self._state(self._init_agent(key_agent), vector, key_run, jnp.int32(0))

    def _state(self, agent: PyTree, vector: VectorState, key: Key, num_updates: Array) -> TrainState:
        carry = self._carries()
        return TrainState(agent=agent, vector=vector, observation=(), carry=carry, key=key, num_updates=num_updates)

    def template(self, key: Key) -> tuple[TrainState, TrainMetrics]:
        """Return the shapes and dtypes of `init(key)`, and of the metrics of a step."""
        num_groups, size = self._settings.num_groups, self._group_size
        carry = jax.eval_shape(lambda: self._algo.initial_carry(size))
        env_state = (self._source.snapshot_struct(size),) * num_groups if self._saves else ()
        run_key = jax.eval_shape(lambda key: convert(key, self._config.prng), key)
        agent = jax.eval_shape(self._algo.init, run_key)
        vector = jax.eval_shape(lambda: no_episodes(self._config.num_envs, ()))
        state = TrainState(
            agent=agent,
            vector=vector._replace(env_state=env_state),
            observation=(),
            carry=(carry,) * num_groups if self._saves else (),
            key=run_key,
            num_updates=jax.eval_shape(lambda: jnp.int32(0)),
        )
        episodes = jax.eval_shape(EpisodeStatistics.summary, vector.statistics)
        algorithm = metrics_struct(self._algo, self._source, self._config, agent)
        idle = None if self._settings.mode == "inside" else 0.0
        sampler = sampler_metrics(self._config, idle, 0.0, 1.0)
        return state, TrainMetrics(episodes=episodes, algorithm=algorithm | sampler)

    def step(self, state: TrainState) -> tuple[TrainState, TrainMetrics]:
        """Collect one rollout of every environment and take one update."""
        if isinstance(state.num_updates, Tracer):
            raise not_inside_jit(self._source, "jit or vmap")
        if not self._groups:
            state = self._go_on(state)
        args, lag = (state.vector._replace(env_state=()), state.key, state.num_updates), 0.0
        if self._settings.mode == "inside" and not self._interrupted:
            agent, vector, metrics = self._compiled().update(state.agent, *args)
        else:
            rollouts, lag = self._rollouts(state)
            agent, vector, metrics = self._learn(state.agent, *args, rollouts)
        if self._actors is not None:
            self._actors.publish(int(state.num_updates) + 1, self._acting.copy(self._acting.part(agent)))
        vector = vector._replace(env_state=self._snapshots())
        state = self._state(agent, vector, state.key, state.num_updates + 1)
        self._updates += 1
        self._interrupted = False
        return state, metrics._replace(algorithm=metrics.algorithm | self._sampler_metrics(lag))

    def evaluate(
        self, agent: PyTree, key: Key, num_episodes: int = 128, max_steps: int = MAX_STEPS, explore: bool = False
    ) -> Evaluation:
        """Play greedy episodes in parallel, one per environment, in separate environments: NumPy arrays.

        Raises:
          InputError: if it is to explore.
        """
        if explore:
            raise InputError(f"{self._source.id} runs on the host, where evaluation is greedy: explore must be False")
        if self._stage is None or self._stage[1] != num_episodes:
            self._close_stage()
            env = self._source.open(num_episodes, _seed(key), self._settings.mode != "serial", evaluation=True)
            shapes = jax.eval_shape(lambda: agent)
            acting = make_acting(self._algo, self._source, self._config, shapes, num_episodes).compiled()
            worker = self._worker(env, "evaluation", num_episodes, _seed(key), Busy())
            self._stage = worker, num_episodes, acting
        worker, _, acting = self._stage
        key_reset, key_run = jax.random.split(fast(key))
        observation, carry = worker.reset(key_reset), self._algo.initial_carry(num_episodes)
        part, keys = acting.part(agent), jax.random.split(key_run, (KEYS, 2))
        total: Any = np.zeros(num_episodes, np.float32)
        length: Any = np.zeros(num_episodes, np.int32)
        finished: Any = np.zeros(num_episodes, np.bool_)
        t = 0
        while not finished.all() and t < max_steps:
            if t and t % KEYS == 0:
                keys = jax.random.split(jax.random.fold_in(key_run, t), (KEYS, 2))
            action, carry = acting.act_greedily(part, carry, keys[:, 0], np.int32(t % KEYS), observation)
            worker.send(jax.device_get(action), keys, t % KEYS)
            step = worker.recv()
            observation, t = step.observation, t + 1
            total += np.where(finished, 0.0, step.score).astype(np.float32)
            length += ~finished
            finished |= step.over
        return Evaluation(episode_return=total, episode_length=length, finished=finished, group_return={})

    def close(self) -> None:
        """Stop the threads and close the environments."""
        if self._actors is not None:
            self._actors.stop()
        for group in self._groups:
            group.worker.close()
        self._groups, self._actors, self._inside = [], None, None
        self._close_stage()

    def _close_stage(self) -> None:
        if self._stage is not None:
            self._stage[0].close()
        self._stage = None

    def _open(self, key: Key) -> None:
        self.close()
        self._updates, self._busy, self._since = 0, Busy(), (time.perf_counter(), 0.0)
        num_groups, parallel = self._settings.num_groups, self._settings.mode != "serial"
        for i in range(num_groups):
            seed = _seed(key) + i * self._group_size
            env = self._source.open(self._group_size, seed, parallel)
            worker = self._worker(env, str(i), self._group_size, seed, self._busy)
            carry = self._algo.initial_carry(self._group_size)
            index = None if num_groups == 1 else i
            self._groups.append(EnvGroup(worker, self._acting, index, carry, self._group_size))

    def _worker(self, env: HostEnvironment, group: str, num_envs: int, seed: int, busy: Busy) -> Worker:
        about = {
            "environment": self._source.id,
            "parameters": self._source.parameters,
            "seed": seed,
            "group": group,
            "num_envs": num_envs,
        }
        return Worker(env, about, self._settings.time_limit, self._settings.failures, busy)

    def _go_on(self, state: TrainState) -> TrainState:
        """Continue from a saved state; if environments cannot be saved, their running episodes are dropped."""
        key = jax.random.fold_in(state.key, state.num_updates)
        self._open(key)
        saved = state.vector.env_state
        for i, group in enumerate(self._groups):
            if saved != ():
                group.begin(group.worker.env.restore(saved[i]), state.carry[i])
            else:
                group.begin(group.worker.reset(jax.random.fold_in(key, i)), interrupted=True)
        if saved != ():
            return state
        self._interrupted = True
        self._settings.say(f"the environments of {self._source.id} cannot be saved: their episodes start over")
        return state._replace(vector=no_episodes(self._config.num_envs, ()))

    def _compiled(self) -> XlaRollout:
        if self._inside is None:
            begin, length = self._algo.initial_carry(self._group_size), self._config.rollout_length
            self._inside = XlaRollout(self._groups[0], self._functions, self._update, begin, length)
        return self._inside

    def _rollouts(self, state: TrainState) -> tuple[tuple[GroupRollout, ...], float]:
        """Return (a rollout of each group, the mean number of updates by which their policies lag)."""
        if self._settings.mode != "async":
            keys, part = self._acting.keys(state.key, state.num_updates), self._acting.part(state.agent)
            return collect(self._groups, part, keys, self._config.rollout_length), 0.0
        version = int(state.num_updates)
        if self._actors is None:
            length, deterministic = self._config.rollout_length, self._settings.deterministic
            self._actors = Actors(
                self._groups,
                self._acting,
                state.key,
                version=version,
                length=length,
                deterministic=deterministic,
            )
            self._actors.publish(version, self._acting.copy(self._acting.part(state.agent)))
        return self._actors.take(version)

    def _snapshots(self) -> PyTree:
        return tuple(group.worker.env.snapshot() for group in self._groups) if self._saves else ()

    def _carries(self) -> PyTree:
        """Return the groups' carries, reset where an episode begins."""
        if not self._saves:
            return ()
        initial = self._algo.initial_carry(self._group_size)
        return tuple(_reset_where(group.restart, initial, group.carry) for group in self._groups)

    def _sampler_metrics(self, lag: float) -> dict[str, Any]:
        if self._settings.mode == "inside":
            return sampler_metrics(self._config, None, lag, 1.0)
        return sampler_metrics(self._config, self._idle(), lag, self._ahead())

    def _idle(self) -> float:
        """Return the fraction of the time since the last call in which no environment stepped."""
        now, busy = time.perf_counter(), self._busy.seconds
        elapsed, worked = now - self._since[0], busy - self._since[1]
        self._since = now, busy
        return max(0.0, 1.0 - worked / max(elapsed, 1e-9))

    def _ahead(self) -> float:
        """Return the environments' steps per step that reached an update; a step may only have closed episodes."""
        steps = sum(group.worker.steps for group in self._groups) / len(self._groups)
        return max(1.0, steps / (self._updates * self._config.rollout_length))


def make_host_trainer(
    algorithm: AlgorithmFactory | Algorithm, source: HostSource, config: Config, settings: HostSettings | None = None
) -> HostTrainer:
    """Return the trainer of an algorithm on host environments.

    Args:
      algorithm: (spec, config) -> Algorithm, such as `ppo`; or what it returns.
      source: from `purerl.make("envpool/...")`, or a `JaxSource`.
      config: the algorithm's settings.
      settings: how the loop runs.

    Raises:
      InputError: for an unknown mode, a number of environments that the groups cannot share, or groups of agents.
    """
    if not isinstance(algorithm, Algorithm):
        check_pieces(algorithm, source, config)
    settings = settings or HostSettings()
    if settings.mode not in MODES:
        raise unknown("sampler", settings.mode, MODES)
    if settings.num_actors < 1:
        raise InputError(f"actors is {settings.num_actors}; it must be at least 1")
    if config.num_envs % settings.num_groups:
        raise InputError(
            f"num_envs {config.num_envs} cannot be shared by the {settings.num_groups} groups of sampler "
            f"{settings.mode}: make it a multiple"
        )
    if settings.mode == "inside" and isinstance(source, JaxSource):
        raise InputError(f"{source.id} is a JAX environment: use the compiled loop, sampler auto, instead of inside")
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(config)):
        raise not_inside_jit(source, "jit or vmap")
    spec = EnvironmentSpec(source.observation_space, source.action_space)
    if agent_groups.sizes(spec):
        raise InputError(f"{source.id} has groups of agents: use the compiled loop, sampler auto")
    if isinstance(algorithm, Algorithm):
        return HostTrainer(algorithm, source, config, settings)
    policy = Policy(factory=algorithm, config=config, select=lambda agent: agent)
    return HostTrainer(algorithm(spec, config), source, config, settings, {"": policy})


_reset_where = jax.jit(where)


def _seed(key: Key) -> int:
    """Return a seed below 2^30 that a key determines."""
    return int(jax.random.bits(key, (), jnp.uint32)) >> 2
