"""The trainer for host environments: `Trainer(init, step)` as for compiled ones, in five modes."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from purerl.errors import InputError, unknown
from purerl.host.acting import Acting, make_acting
from purerl.host.actors import Actors
from purerl.host.env_thread import Busy, Worker
from purerl.host.jax_source import Dressed
from purerl.host.learning import begin_episodes, make_learn, metrics_struct, own_metrics
from purerl.host.rollout import Group, collect
from purerl.host.xla_rollout import Inside
from purerl.host_environment import HostSource, not_inside_jit
from purerl.loop.train import TrainState
from purerl.loop.vector import where
from purerl.prng import convert, fast
from purerl.types import Algorithm, AlgorithmFactory, Config, EnvironmentSpec, Key, Metrics, PyTree

MODES = ("serial", "batched", "alternating", "async", "inside")


class HostSettings(NamedTuple):
    """How a host loop runs."""

    mode: str = "batched"
    num_actors: int = 2  # of async
    deterministic: bool = False  # async: act with the policy of exactly one update before
    time_limit: float = 60.0  # seconds that a step of an environment may take
    failures: Path | None = None  # where the actions that led to a failure are saved
    say: Callable[[str], None] = print  # where to tell what the user should know

    @property
    def num_groups(self) -> int:
        """Groups of environments that act apart."""
        return {"alternating": 2, "async": self.num_actors}.get(self.mode, 1)


class HostTrainer(NamedTuple):
    """A run on the host; `step` takes the state that the last call returned, and overwrites its agent."""

    init: Callable[[Key], TrainState]
    step: Callable[[TrainState], tuple[TrainState, Metrics]]  # one rollout of every environment and one update
    algorithm: Algorithm
    environment: HostSource
    template: Callable[[Key], tuple[TrainState, Metrics]]  # shapes: of `init(key)`, of a step's own metrics
    play: Callable[
        ..., Any
    ]  # (agent, key, num_episodes, max_steps) -> (return f32[n], length i32[n], finished bool[n])
    close: Callable[[], None]  # end the threads and close the environments


def make_host_trainer(
    algorithm: AlgorithmFactory | Algorithm, source: HostSource, config: Config, settings: HostSettings | None = None
) -> HostTrainer:
    """Return the trainer of an algorithm on host environments.

    Args:
      algorithm: (spec, config) -> Algorithm, such as `ppo`; or what it returns.
      source: from `purerl.make("envpool/...")`, or a `Dressed` JAX environment.
      config: the algorithm's settings.
      settings: how the loop runs.

    Raises:
      InputError: for an unknown mode, or a number of environments that the groups cannot share.
    """
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
    if settings.mode == "inside" and isinstance(source, Dressed):
        raise InputError(f"{source.id} is a JAX environment: inside jit its loop is the compiled one, sampler auto")
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(config)):
        raise not_inside_jit(source, "jit or vmap")
    spec = EnvironmentSpec(source.observation_space, source.action_space)
    algo = algorithm if isinstance(algorithm, Algorithm) else algorithm(spec, config)
    loop = _Loop(algo, source, config, settings)
    return HostTrainer(loop.init, loop.step, algo, source, loop.template, loop.play, loop.close)


class _Loop:
    """The threads and environments behind a `HostTrainer`; they exist from the first step to `close`."""

    def __init__(self, algo: Algorithm, source: HostSource, config: Config, settings: HostSettings):
        self._algo, self._source, self._config, self._settings = algo, source, config, settings
        self._group_size = config.num_envs // settings.num_groups
        agent = jax.eval_shape(algo.init, jax.random.key(0))
        self._acting: Acting = make_acting(algo, source, config, agent, self._group_size)
        self._learn = make_learn(algo, source)
        self._init_agent = jax.jit(algo.init)
        self._groups: list[Group] = []
        self._actors: Actors | None = None
        self._inside: Inside | None = None
        self._stage: Any = None  # the environments for evaluation
        self._busy, self._since = Busy(), (time.perf_counter(), 0.0)
        self._updates = 0  # since the environments were opened
        self._saves = settings.mode not in ("async", "inside") and source.snapshot_struct(self._group_size) != ()

    def init(self, key: Key) -> TrainState:
        """Start a run."""
        if isinstance(key, Tracer):
            raise not_inside_jit(self._source, "jit or vmap")
        key_agent, key_env, key_run = jax.random.split(convert(key, self._config.prng), 3)
        self._open(key_env)
        keys = [key_env] if len(self._groups) == 1 else list(jax.random.split(key_env, len(self._groups)))
        for group, own in zip(self._groups, keys, strict=True):
            group.begin(group.worker.reset(own))
        episodes = begin_episodes(self._config.num_envs, self._snapshots())
        return TrainState(self._init_agent(key_agent), episodes, (), self._carries(), key_run, jnp.int32(0))  # type: ignore[arg-type]

    def template(self, key: Key) -> tuple[TrainState, Metrics]:
        """Return the shapes and dtypes of `init(key)`, and of the metrics of a step."""
        many, size = self._settings.num_groups, self._group_size
        carry = jax.eval_shape(lambda: self._algo.initial_carry(size))
        env_state = (self._source.snapshot_struct(size),) * many if self._saves else ()
        run = jax.eval_shape(lambda key: convert(key, self._config.prng), key)
        agent = jax.eval_shape(self._algo.init, run)
        episodes = jax.eval_shape(lambda: begin_episodes(self._config.num_envs, ()))
        number = jax.ShapeDtypeStruct((), jnp.int32)
        metrics = metrics_struct(self._algo, self._source, self._config, agent)
        saved = (carry,) * many if self._saves else ()
        state = TrainState(agent, episodes._replace(env_state=env_state), (), saved, run, number)  # type: ignore[arg-type]
        return state, metrics | own_metrics(self._config, None if self._settings.mode == "inside" else 0.0, 0.0, 1.0)

    def step(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """Take one rollout and one update."""
        if isinstance(state.num_updates, Tracer):
            raise not_inside_jit(self._source, "jit or vmap")
        if not self._groups:
            self._go_on(state)
        args, lag = (state.vector._replace(env_state=()), state.key, state.num_updates), 0.0
        if self._settings.mode == "inside":
            agent, episodes, metrics = self._compiled().update(state.agent, *args)
        else:
            rollouts, lag = self._rollouts(state)
            agent, episodes, metrics = self._learn(state.agent, *args, rollouts)
        if self._actors is not None:
            self._actors.publish(int(state.num_updates) + 1, self._acting.copy(self._acting.part(agent)))
        episodes = episodes._replace(env_state=self._snapshots())
        state = TrainState(agent, episodes, (), self._carries(), state.key, state.num_updates + 1)  # type: ignore[arg-type]
        self._updates += 1
        return state, metrics | self._own_metrics(lag)

    def play(self, agent: PyTree, key: Key, num_episodes: int, max_steps: int = 27_000) -> tuple[np.ndarray, ...]:
        """Play greedy episodes side by side, one each, in environments apart from those of training."""
        if self._stage is None or self._stage[1] != num_episodes:
            self._close_stage()
            env = self._source.open(num_episodes, _seed(key), self._settings.mode != "serial", evaluation=True)
            shapes = jax.eval_shape(lambda: agent)
            acting = make_acting(self._algo, self._source, self._config, shapes, num_episodes)
            worker = self._worker(env, "evaluation", num_episodes, _seed(key), Busy())
            self._stage = worker, num_episodes, acting
        worker, _, acting = self._stage
        key_reset, key_run = jax.random.split(fast(key))
        observation, carry = worker.reset(key_reset), self._algo.initial_carry(num_episodes)
        part, keys = acting.part(agent), jax.random.split(key_run, (256, 2))
        total, length = np.zeros(num_episodes, np.float32), np.zeros(num_episodes, np.int32)
        finished, t = np.zeros(num_episodes, np.bool_), 0
        while not finished.all() and t < max_steps:
            action, carry = acting.act_greedily(part, carry, keys[:, 0], np.int32(t % 256), observation)
            worker.send(jax.device_get(action), keys, t % 256)
            step = worker.recv()
            observation, t = step.observation, t + 1
            total += np.where(finished, 0.0, step.score).astype(np.float32)
            length += ~finished
            finished |= step.over
        return total, length, finished

    def close(self) -> None:
        """End the threads and close the environments."""
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
        many, mode = self._settings.num_groups, self._settings.mode
        seed = _seed(key)
        for i in range(many):
            own = seed + i * self._group_size
            env = self._source.open(self._group_size, own, mode != "serial")
            worker = self._worker(env, str(i), self._group_size, own, self._busy)
            carry = self._algo.initial_carry(self._group_size)
            index = None if many == 1 else i
            self._groups.append(Group(worker, self._acting, index, carry, self._group_size))

    def _worker(self, env: Any, group: str, num_envs: int, seed: int, busy: Busy) -> Worker:
        about = {
            "environment": self._source.id,
            "parameters": self._source.parameters,
            "seed": seed,
            "group": group,
            "num_envs": num_envs,
        }
        return Worker(env, about, self._settings.time_limit, self._settings.failures, busy)

    def _go_on(self, state: TrainState) -> None:
        """Go on from a state that was saved."""
        key = jax.random.fold_in(state.key, state.num_updates)
        self._open(key)
        saved = state.vector.env_state
        for i, group in enumerate(self._groups):
            if saved != ():
                group.begin(group.worker.env.restore(saved[i]), state.carry[i])
            else:
                group.begin(group.worker.reset(jax.random.fold_in(key, i)))
        if saved == ():
            self._settings.say(f"the environments of {self._source.id} cannot be saved: their episodes start anew")

    def _compiled(self) -> Inside:
        if self._inside is None:
            begin, length = self._algo.initial_carry(self._group_size), self._config.rollout_length
            self._inside = Inside(self._groups[0], self._acting, self._learn, begin, length)
        return self._inside

    def _rollouts(self, state: TrainState) -> tuple[Any, float]:
        """Return (a rollout of each group, how many updates their policies are behind on average)."""
        if self._settings.mode != "async":
            keys, part = self._acting.keys(state.key, state.num_updates), self._acting.part(state.agent)
            return collect(self._groups, part, keys, self._config.rollout_length), 0.0
        version = int(state.num_updates)
        if self._actors is None:
            length, deterministic = self._config.rollout_length, self._settings.deterministic
            self._actors = Actors(self._groups, self._acting, state.key, version, length, deterministic)
            self._actors.publish(version, self._acting.copy(self._acting.part(state.agent)))
        return self._actors.take(version)

    def _snapshots(self) -> PyTree:
        return tuple(group.worker.env.snapshot() for group in self._groups) if self._saves else ()

    def _carries(self) -> PyTree:
        """Return the groups' memories, begun anew where an episode begins."""
        if not self._saves:
            return ()
        fresh = self._algo.initial_carry(self._group_size)
        return tuple(_restarted(group.restart, fresh, group.carry) for group in self._groups)

    def _own_metrics(self, lag: float) -> dict[str, Any]:
        if self._settings.mode == "inside":
            return own_metrics(self._config, None, lag, 1.0)
        return own_metrics(self._config, self._idle(), lag, self._ahead())

    def _idle(self) -> float:
        """Return the share of the time since the last call in which no environment stepped."""
        now, busy = time.perf_counter(), self._busy.seconds
        elapsed, worked = now - self._since[0], busy - self._since[1]
        self._since = now, busy
        return max(0.0, 1.0 - worked / max(elapsed, 1e-9))

    def _ahead(self) -> float:
        """Return how many steps the environments have taken per step that went to an update."""
        taken = sum(group.worker.steps for group in self._groups) / len(self._groups)
        return taken / (self._updates * self._config.rollout_length)


_restarted = jax.jit(where)


def _seed(key: Key) -> int:
    """Return a seed below 2^30 that a key determines."""
    return int(jax.random.bits(key, (), jnp.uint32)) >> 2
