"""The loop: act, step, learn, compiled into one program."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from purerl.devices.sharding import split_data, whole
from purerl.errors import InputError, told
from purerl.host_environment import HostSource, not_inside_jit
from purerl.loop.evaluate import MAX_STEPS, Evaluation, play_episodes
from purerl.loop.metrics import MetricsSum, TrainMetrics
from purerl.loop.pieces import check_count, check_key, check_pieces
from purerl.loop.trainer import PER_ENVIRONMENT, MakeTrainer, Policy, Trainer, TrainState
from purerl.loop.vector import VectorEnvironment, VectorState, vectorize
from purerl.prng import convert, update_keys
from purerl.types import Algorithm, AlgorithmFactory, Array, Config, Environment, EnvironmentSpec, Key, PyTree, Rollout
from purerl.xla import packing
from purerl.xla.once import traced_once
from purerl.xla.trees import where

LONGEST = 1e15  # environment steps of a run


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class CompiledTrainer:
    """The `Trainer` of JAX environments; `init` and `step` are pure functions."""

    algorithm: Algorithm
    environment: Environment
    config: Config
    vector: VectorEnvironment
    evaluation: Environment  # where episodes of an evaluation are played
    policies: Mapping[str, Policy]
    playing: Callable[[PyTree], tuple[Algorithm, PyTree]] | None = None  # `player`; None: the algorithm and the agent

    @property
    def pure(self) -> bool:
        """True."""
        return True

    def player(self, agent: PyTree) -> tuple[Algorithm, PyTree]:
        """Return the (algorithm, agent) that plays."""
        return (self.algorithm, agent) if self.playing is None else self.playing(agent)

    def init(self, key: Key) -> TrainState:
        """Start a run."""
        check_key(key, "jax.vmap trains one agent for each of several")
        key_agent, key_env, key_run = jax.random.split(convert(key, self.config.prng), 3)
        vector_state, observation = self.vector.reset(key_env)
        return TrainState(
            agent=self.algorithm.init(key_agent),
            vector=vector_state,
            observation=observation,
            carry=self.algorithm.initial_carry(self.config.num_envs),
            key=key_run,
            num_updates=jnp.int32(0),
        )

    def step(self, state: TrainState) -> tuple[TrainState, TrainMetrics]:
        """Take one rollout and one update."""
        key_rollout, key_update = update_keys(state.key, state.num_updates)
        state, rollout = self.collect(state, key_rollout)
        agent, metrics = self.algorithm.update(state.agent, key_update, rollout)
        state = state._replace(agent=agent, num_updates=state.num_updates + 1)
        return self.placed(state), state.vector.statistics.metrics(metrics)

    def collect(self, state: TrainState, key: Key) -> tuple[TrainState, Rollout]:
        """Return (the state after a rollout, with the statistics of only its episodes; the rollout [T, B])."""
        statistics = state.vector.statistics
        cleared = statistics.clear(self.config.num_envs, tuple(statistics.info_sum))
        state = state._replace(vector=state.vector._replace(statistics=cleared))
        return collect(self.algorithm, self.vector, state, key, self.config.rollout_length)

    def placed(self, state: TrainState) -> TrainState:
        """Return a state whose environment parts are split over the mesh axis `data`."""
        place = lambda split, part: split_data(part) if split else whole(part)
        return jax.tree.map(place, PER_ENVIRONMENT, state)

    def template(self, key: Key) -> tuple[TrainState, TrainMetrics]:
        """Return the shapes of a state and of metrics."""
        state = jax.eval_shape(self.init, key)
        return state, jax.eval_shape(self.step, state)[1]

    def evaluate(
        self, agent: PyTree, key: Key, num_episodes: int = 128, max_steps: int = MAX_STEPS, explore: bool = False
    ) -> Evaluation:
        """Play complete episodes in parallel."""
        return play_episodes(
            self.algorithm,
            self.evaluation,
            agent=agent,
            key=key,
            num_episodes=num_episodes,
            max_steps=max_steps,
            explore=explore,
        )

    def close(self) -> None:
        """Do nothing."""


def make_trainer(
    algorithm: AlgorithmFactory,
    env: Environment,
    config: Config,
    wraps: Sequence[Callable[[MakeTrainer], MakeTrainer]] = (),
) -> Trainer:
    """Return the trainer of an algorithm on an environment; `purerl.make_trainer` also takes names.

    Args:
      algorithm: (spec, config) -> Algorithm, such as `ppo`.
      env: one environment; its fields may be traced.
      config: the algorithm's settings; its numbers may be traced.
      wraps: the wraps of extensions, the outermost first.

    Raises:
      InputError: if one of them has the wrong type, or a setting is out of range.
    """
    check_pieces(algorithm, env, config)
    make: MakeTrainer = compiled_trainer
    for wrap in reversed(wraps):
        make = wrap(make)
    trainer = make(algorithm, env, config)
    if not all(callable(getattr(trainer, name, None)) for name in ("init", "step")):
        raise InputError(f"an extension makes {told(trainer)}; it must be the trainer of `make`, or wrap it")
    return trainer


def compiled_trainer(algorithm: AlgorithmFactory, env: Environment, config: Config, /) -> CompiledTrainer:
    """Return the loop's own trainer, without extensions; arguments as for `make_trainer`."""
    if isinstance(env, HostSource):
        raise not_inside_jit(env, "the compiled loop")
    return CompiledTrainer(
        algorithm=algorithm(EnvironmentSpec(env.observation_space, env.action_space), config),
        environment=env,
        config=config,
        vector=vectorize(env, config.num_envs, config.reset_policy, config.pool_size, prng=config.prng),
        evaluation=env,
        policies={"": Policy(factory=algorithm, config=config, select=lambda agent: agent)},
    )


def collect(
    algo: Algorithm, vector: VectorEnvironment, state: TrainState, key: Key, length: int
) -> tuple[TrainState, Rollout]:
    """Act for `length` steps in every environment.

    Returns:
      (state with the environments advanced, rollout [T, B]).
    """
    initial_carry = algo.initial_carry(vector.num_envs)
    layout = []  # how to unpack a step's record, known once the step is traced

    def step(loop_carry: tuple[VectorState, PyTree, PyTree], keys: Key):
        vector_state, observation, carry = loop_carry
        action, carry, extras = algo.act(state.agent, carry, keys[0], observation, True)
        vector_state, observation, timestep = vector.step(keys[1], vector_state, action)
        carry = where(timestep.done, initial_carry, carry)
        # The observation to act on next is stacked, not the carried one: a carry that a step only passes on would
        # become a copy that depends on the loop.
        record, unpack = packing.pack((observation, action, timestep, extras), leading=1)
        layout.append(unpack)
        return (vector_state, observation, carry), record

    loop_carry = (state.vector, state.observation, state.carry)
    (vector_state, last, carry), stacked = jax.lax.scan(step, loop_carry, jax.random.split(key, (length, 2)))
    acted_on_next, action, timestep, extras = layout[-1](stacked)
    rollout = Rollout(
        observation=jax.tree.map(lambda x, xs: jnp.concatenate([x[None], xs[:-1]]), state.observation, acted_on_next),
        action=action,
        reward=timestep.reward,
        terminated=timestep.terminated,
        truncated=timestep.truncated,
        next_observation=timestep.observation,
        extras=extras,
        carry=state.carry,
    )
    return state._replace(vector=vector_state, observation=last, carry=carry), rollout


def make_train(
    algorithm: AlgorithmFactory,
    env: Environment,
    config: Config,
    total_timesteps: int | None = None,
    num_points: int | None = None,
    wraps: Sequence[Callable[[MakeTrainer], MakeTrainer]] = (),
) -> Callable[[Key], tuple[TrainState, TrainMetrics]]:
    """Return a complete run as one pure function: key -> (state, metrics[num_updates]); see `purerl.make_train`."""
    check_pieces(algorithm, env, config)
    if total_timesteps is None:
        total_timesteps = int(config.total_timesteps)
    total_timesteps = check_count(total_timesteps, "total_timesteps")
    config = dataclasses.replace(config, total_timesteps=total_timesteps)
    num_updates = whole_updates(config)
    trainer = make_trainer(algorithm, env, config, wraps)

    def train(key: Key) -> tuple[TrainState, TrainMetrics]:
        return jax.lax.scan(lambda state, _: trainer.step(state), trainer.init(key), None, num_updates)

    if num_points is None:
        return train
    ends = curve_points(num_updates, num_points)
    spans = jnp.asarray(np.diff(ends, prepend=0), jnp.int32)
    return lambda key: jax.lax.scan(lambda state, span: advance(trainer, state, span), trainer.init(key), spans)


def whole_updates(config: Config) -> int:
    """Return the number of updates in a config's `total_timesteps`, rounded down.

    Raises:
      InputError: if that is less than one rollout, more than a run can have, or a rollout has more steps than an i32
        counts.
    """
    if config.total_timesteps > LONGEST:
        raise InputError(f"total_timesteps is {config.total_timesteps:.3g}; it must be at most {LONGEST:g}")
    if config.steps_per_update >= 2**31:
        raise InputError(
            f"num_envs {config.num_envs} x rollout_length is {config.steps_per_update:,} steps for each update; at "
            f"most {2**31 - 1:,}"
        )
    num_updates = int(config.total_timesteps) // config.steps_per_update
    if num_updates < 1:
        raise InputError(
            f"total_timesteps {config.total_timesteps} is less than one rollout: num_envs x rollout_length = "
            f"{config.steps_per_update}"
        )
    return num_updates


def curve_points(num_updates: int, num_points: int) -> np.ndarray:
    """Return the number of updates before each point of a curve, i64[num_points], evenly spaced to the end.

    Raises:
      InputError: if there are fewer updates than points.
    """
    num_points = check_count(num_points, "num_points", 0)
    if not 1 <= num_points <= num_updates:
        raise InputError(f"num_points is {num_points}; it must be at least 1 and at most the {num_updates} updates")
    return np.arange(1, num_points + 1) * num_updates // num_points


def advance(trainer: Trainer, state: TrainState, num_updates: Array) -> tuple[TrainState, TrainMetrics]:
    """Take i32[] updates, at least one; return the state and the means of the updates' metrics."""
    step = traced_once(trainer.step)  # for the shapes of the metrics and for the loop
    metrics = jax.eval_shape(step, state)[1]

    def one(_: Array, loop_carry: tuple[TrainState, MetricsSum]) -> tuple[TrainState, MetricsSum]:
        state, metrics = step(loop_carry[0])
        return state, loop_carry[1].add(state.vector.statistics, metrics.algorithm)

    none = MetricsSum.zeros(state.vector.statistics, metrics.algorithm)
    state, total = jax.lax.fori_loop(0, num_updates, one, (state, none))
    return state, total.means()
