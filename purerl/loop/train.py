"""The loop: act, step, learn, compiled into one program."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.devices.sharding import split_data, whole
from purerl.errors import InputError
from purerl.host_environment import HostSource
from purerl.loop.interval import Interval
from purerl.loop.resets import Starts
from purerl.loop.vector import VectorEnvironment, VectorState, vectorize, where
from purerl.prng import convert
from purerl.recompute.observations import StatesOnly, from_states
from purerl.types import (
    Algorithm,
    AlgorithmFactory,
    Array,
    Config,
    Environment,
    EnvironmentSpec,
    Key,
    Metrics,
    PyTree,
    Rollout,
)
from purerl.xla import packing


class TrainState(NamedTuple):
    """A run: arrays only, so it can be vmapped, sharded and saved."""

    agent: PyTree
    vector: VectorState  # the environments, and the statistics of the episodes that ended in the last update
    observation: PyTree  # [B, ...], to act on next
    carry: PyTree  # [B, ...]
    key: Key  # the run's, of the config's generator; update n draws from fold_in(key, n)
    num_updates: Array  # i32[]


# Which parts of a state have a leading axis of environments.
_YES: Any = True
_NO: Any = False
_STARTS = Starts(*[_YES] * len(Starts._fields))._replace(pool=_NO)
_VECTOR = VectorState(*[_YES] * len(VectorState._fields))._replace(starts=_STARTS)
PER_ENVIRONMENT = TrainState(_NO, _VECTOR, _YES, _YES, _NO, _NO)


class Trainer(NamedTuple):
    """A run as two pure functions."""

    init: Callable[[Key], TrainState]
    step: Callable[[TrainState], tuple[TrainState, Metrics]]  # one rollout and one update
    algorithm: Algorithm
    environment: VectorEnvironment
    collecting: tuple[Algorithm, VectorEnvironment]  # what rollouts are made by: the same, or those that keep states


def make_trainer(algorithm: AlgorithmFactory, env: Environment, config: Config) -> Trainer:
    """Return the trainer of an algorithm on an environment.

    Args:
      algorithm: (spec, config) -> Algorithm, such as `ppo`.
      env: one environment; its fields may be traced.
      config: the algorithm's settings; its numbers may be traced.

    Returns:
      A `Trainer`. `trainer.init(key)` gives a `TrainState`; `trainer.step(state)` gives the next one and metrics:
      the episodes' statistics (NaN where none ended) and the algorithm's own, float32 scalars.
    """
    if isinstance(env, HostSource):
        if config.rebuild_observations:
            raise InputError(f"rebuild_observations: {env.id} runs on the host and shows no states")
        from purerl.host import make_host_trainer

        return make_host_trainer(algorithm, env, config)  # type: ignore[return-value]
    spec = EnvironmentSpec(env.observation_space, env.action_space)
    many = lambda env: vectorize(env, config.num_envs, config.reset_policy, config.pool_size)
    algo, vector = plain = algorithm(spec, config), many(env)
    if config.rebuild_observations:
        algo, vector = from_states(algorithm, env, spec, config), many(StatesOnly(env))

    def init(key: Key) -> TrainState:
        key_agent, key_env, key_run = jax.random.split(convert(key, config.prng), 3)
        vector_state, observation = vector.reset(key_env)
        return TrainState(
            algo.init(key_agent), vector_state, observation, algo.initial_carry(config.num_envs), key_run, jnp.int32(0)
        )

    def step(state: TrainState) -> tuple[TrainState, Metrics]:
        key_rollout, key_update = update_keys(state.key, state.num_updates)
        statistics = state.vector.statistics
        cleared = statistics.clear(config.num_envs, tuple(statistics.info_sum))
        state = state._replace(vector=state.vector._replace(statistics=cleared))
        state, rollout = collect(algo, vector, state, key_rollout, config.rollout_length)
        agent, metrics = algo.update(state.agent, key_update, rollout)
        metrics = state.vector.statistics.summary() | metrics
        state = state._replace(agent=agent, num_updates=state.num_updates + 1)
        place = lambda split, part: split_data(part) if split else whole(part)
        return jax.tree.map(place, PER_ENVIRONMENT, state), metrics

    return Trainer(init, step, *plain, collecting=(algo, vector))


def update_keys(key: Key, num_updates: Array) -> tuple[Key, Key]:
    """Return the keys of the next update's rollout and of its learning, from the run's key and i32[] updates so far."""
    key_rollout, key_update = jax.random.split(jax.random.fold_in(key, num_updates))
    return key_rollout, key_update


def collect(
    algo: Algorithm, vector: VectorEnvironment, state: TrainState, key: Key, length: int
) -> tuple[TrainState, Rollout]:
    """Act for `length` steps in every environment.

    Returns:
      (state with the environments advanced, rollout [T, B]).
    """
    begin = algo.initial_carry(vector.num_envs)
    layout = []  # how a step's record is read, told when the step is traced

    def step(loop_carry: tuple[VectorState, PyTree, PyTree], keys: Key):
        vector_state, observation, carry = loop_carry
        action, carry, extras = algo.act(state.agent, carry, keys[0], observation, True)
        vector_state, observation, timestep = vector.step(keys[1], vector_state, action)
        carry = where(timestep.terminated | timestep.truncated, begin, carry)
        # The observation to act on next is stacked, not the carried one: a carry that a step only passes on would
        # become a copy that depends on the loop.
        record, unpack = packing.pack((observation, action, timestep, extras))
        layout.append(unpack)
        return (vector_state, observation, carry), record

    loop_carry = (state.vector, state.observation, state.carry)
    (vector_state, last, carry), stacked = jax.lax.scan(step, loop_carry, jax.random.split(key, (length, 2)))
    following, action, timestep, extras = layout[-1](stacked)
    observation = jax.tree.map(lambda x, xs: jnp.concatenate([x[None], xs[:-1]]), state.observation, following)
    rollout = Rollout(
        observation,
        action,
        timestep.reward,
        timestep.terminated,
        timestep.truncated,
        timestep.observation,
        extras,
        state.carry,
    )
    return state._replace(vector=vector_state, observation=last, carry=carry), rollout


def make_train(
    algorithm: AlgorithmFactory,
    env: Environment,
    config: Any,
    total_timesteps: int | None = None,
    num_points: int | None = None,
) -> Callable[[Key], tuple[TrainState, Metrics]]:
    """Return a whole run as one pure function: key -> (state, metrics[num_updates]).

    `jax.jit(train)(key)` trains one agent, `jax.jit(jax.vmap(train))(keys)` as many as there are keys. On a GPU
    `jax.jit(train, compiler_options=purerl.xla.backend.compiler_options())` makes each update one launch.

    Args:
      algorithm, env, config: as for `make_trainer`.
      total_timesteps: environment steps, rounded down to whole updates; `config.total_timesteps` if none is given. It
        also sets the horizon of the config's schedules.
      num_points: return metrics[num_points] instead, whatever the run's length: what the updates between two points
        were like (`Interval.means`). `curve_points` says at which updates they are.

    Raises:
      InputError: if that is less than one rollout, or there are more points than updates.
    """
    if total_timesteps is None:
        total_timesteps = int(config.total_timesteps)
    config = dataclasses.replace(config, total_timesteps=total_timesteps)
    num_updates = whole_updates(config)
    trainer = make_trainer(algorithm, env, config)

    def train(key: Key) -> tuple[TrainState, Metrics]:
        return jax.lax.scan(lambda state, _: trainer.step(state), trainer.init(key), None, num_updates)

    if num_points is None:
        return train
    ends = curve_points(num_updates, num_points)
    spans = jnp.asarray(np.diff(ends, prepend=0), jnp.int32)
    return lambda key: jax.lax.scan(lambda state, span: advance(trainer, state, span), trainer.init(key), spans)


def whole_updates(config: Config) -> int:
    """Return the updates of a config's `total_timesteps`, rounded down.

    Raises:
      InputError: if that is less than one rollout.
    """
    num_updates = int(config.total_timesteps) // config.steps_per_update
    if num_updates < 1:
        raise InputError(
            f"total_timesteps {config.total_timesteps} is less than one rollout: num_envs x rollout_length = "
            f"{config.steps_per_update}"
        )
    return num_updates


def curve_points(num_updates: int, num_points: int) -> np.ndarray:
    """Return i64[num_points]: after how many updates each point of a curve is, evenly spread, the last at the end.

    Raises:
      InputError: if there are fewer updates than points.
    """
    if not 1 <= num_points <= num_updates:
        raise InputError(f"num_points is {num_points}; it must be at least 1 and at most the {num_updates} updates")
    return np.arange(1, num_points + 1) * num_updates // num_points


def advance(trainer: Trainer, state: TrainState, num_updates: Array) -> tuple[TrainState, Metrics]:
    """Take i32[] updates, at least one; return the state and what they were like, as `Interval.means`."""
    metrics = jax.eval_shape(trainer.step, state)[1]

    def one(_: Array, loop_carry: tuple[TrainState, Interval]) -> tuple[TrainState, Interval]:
        state, metrics = trainer.step(loop_carry[0])
        return state, loop_carry[1].add(state.vector.statistics, metrics)

    state, interval = jax.lax.fori_loop(0, num_updates, one, (state, Interval.empty(state.vector.statistics, metrics)))
    return state, interval.means()
