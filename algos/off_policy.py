"""The shared part of all algorithms with a replay; `dqn.py` and `sac.py` build the Q agent and the soft agent on it."""

from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp

from purerl.errors import InputError
from purerl.functional.action_masks import action_mask
from purerl.functional.counters import increment
from purerl.functional.normalize import RunningStatistics, normalized
from purerl.networks.encoder import NetworkConfig
from purerl.networks.torsos import ACTIVATIONS
from purerl.optim.schedules import Schedule, schedule, updates_of
from purerl.replay.prioritized import prioritized
from purerl.replay.uniform import Replay, uniform
from purerl.spaces import Space
from purerl.types import LEARNING, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static
from purerl.xla.once import traced_once
from purerl.xla.vmap_cond import any_member

T = TypeVar("T")


@pytree
class OffPolicyConfig(NetworkConfig):
    """Settings of an algorithm with a replay."""

    rollout_length: int = static(default=1, doc="steps of each environment per update", at_least=1)
    activation: str = static(default="relu", doc="activation function of the hidden layers", choices=tuple(ACTIVATIONS))
    learning_rate: float = number(default=2.5e-4, doc="learning rate of Adam", above=0)
    learning_rate_schedule: Schedule = schedule("constant")
    batch_size: int = static(default=128, doc="transitions per gradient step", at_least=1)
    num_gradient_steps: int = static(default=1, doc="gradient steps per update", at_least=1)
    replay_capacity: int = static(default=10_000, doc="capacity of the replay, in environment steps", at_least=1)
    learning_starts: int = static(default=10_000, doc="environment steps before the first gradient step", at_least=1)
    n_step: int = static(default=1, doc="steps of reward before bootstrapping", at_least=1)

    @property
    def replay_ratio(self) -> float:
        """Steps of gradient batches per collected environment step, once learning has started."""
        return self.num_gradient_steps * self.samples_per_gradient / self.steps_per_update

    @property
    def samples_per_gradient(self) -> int:
        """Steps in a gradient batch."""
        return self.batch_size


@pytree
class ActorCriticReplayConfig(OffPolicyConfig):
    """Settings of an algorithm with a policy, critics and a replay."""

    num_envs: int = static(default=1, doc="environments stepped in parallel", at_least=1)
    hidden_sizes: tuple[int, ...] = static(default=(256, 256), doc="units of the hidden layers", at_least=1)
    learning_rate: float = number(default=3e-4, doc="learning rate of Adam, for all networks", above=0)
    batch_size: int = static(default=256, doc="transitions per gradient step", at_least=1)
    replay_capacity: int = static(default=100_000, doc="capacity of the replay, in environment steps", at_least=1)
    learning_starts: int = static(
        default=1_000, doc="steps with random actions before the first gradient step", at_least=1
    )
    tau: float = number(default=0.005, doc="Polyak coefficient of the target update", above=0, at_most=1)
    normalize_observation: bool = static(
        default=False, doc="standardize float and byte observations by running statistics"
    )
    reward_scale: float = number(default=1.0, doc="factor on the rewards in learning", above=0)


class OffPolicyAgent(NamedTuple):
    """The state of an agent with a replay."""

    params: PyTree
    target_params: PyTree
    opt_state: PyTree
    replay: Any
    num_updates: Array  # i32[], so far; drives every schedule
    num_gradient_steps: Array  # i32[]; it may wrap around, as only its remainders count
    observation_statistics: RunningStatistics | None


class ReplayAgent(Protocol):
    """The fields that `learn_from_replay` needs of an agent, which is a NamedTuple."""

    @property
    def replay(self) -> PyTree:
        """The state of the replay."""
        ...

    @property
    def num_updates(self) -> Array:
        """Updates so far, i32[]."""
        ...

    @property
    def num_gradient_steps(self) -> Array:
        """Gradient steps so far, i32[]."""
        ...

    @property
    def observation_statistics(self) -> RunningStatistics | None:
        """The statistics that normalize batches."""
        ...

    def _replace(self: T, /, **fields: object) -> T:
        """Return the agent with some fields replaced."""
        ...


A = TypeVar("A", bound=ReplayAgent)


class GradientStep(Protocol[A]):
    """One gradient step on a batch from the replay."""

    def __call__(self, agent: A, batch: PyTree, key: Key, /) -> tuple[A, Array, Metrics]:
        """Take the step.

        Args:
          agent: the agent before the step.
          batch: a batch of N samples, from `Replay.sample`; observations are normalized.
          key: for what the loss samples.

        Returns:
          (the agent with new params, target_params and opt_state, its |TD errors| f32[N], metrics).
        """
        ...


def new_agent(
    params: PyTree,
    target_params: PyTree,
    opt_state: PyTree,
    replay: Replay,
    statistics: RunningStatistics | None = None,
) -> OffPolicyAgent:
    """Return an agent before its first step; the target is a copy, so that the state can be donated."""
    return OffPolicyAgent(
        params=params,
        target_params=jax.tree.map(jnp.copy, target_params),
        opt_state=opt_state,
        replay=replay.init(),
        num_updates=jnp.int32(0),
        num_gradient_steps=jnp.int32(0),
        observation_statistics=statistics,
    )


def new_statistics(spec: EnvironmentSpec, config: Any) -> RunningStatistics | None:
    """Return empty statistics of observations if `config.normalize_observation`, else None."""
    return RunningStatistics.create(spec.observation_space.struct) if config.normalize_observation else None


def learn_from_replay(
    agent: A,
    key: Key,
    rollout: Rollout,
    *,
    replay: Replay,
    gradient_step: GradientStep[A],
    config: Any,
) -> tuple[A, Metrics]:
    """Store a rollout and, after `config.learning_starts` steps, take `config.num_gradient_steps` steps: an `update`.

    The replay stores raw observations. Batches are normalized by the agent's current statistics, if it has any.

    Args:
      agent, key, rollout: as for `Algorithm.update`.
      replay: its functions.
      gradient_step: learns from one batch.
      config: the settings, with `learning_starts` and `num_gradient_steps`.
    """

    def once(agent: A, key: Key, started: Array) -> tuple[A, Metrics]:
        key_sample, key_step = jax.random.split(key)
        batch = replay.sample(agent.replay, key_sample)
        if agent.observation_statistics is not None:
            batch = _normalized(agent.observation_statistics, batch)
        learned, td_error, metrics = gradient_step(agent, batch, key_step)
        counted = batch._replace(weight=jnp.where(started, batch.weight, 0.0))
        stored = replay.update(agent.replay, counted, td_error)
        learned = learned._replace(replay=(), num_gradient_steps=agent.num_gradient_steps + 1)
        # The replay is not part of the choice: its copy would cost more than the rest of the update.
        chosen = jax.tree.map(lambda new, old: jnp.where(started, new, old), learned, agent._replace(replay=()))
        return chosen._replace(replay=stored), jax.tree.map(lambda m: jnp.where(started, m, 0), metrics)

    @traced_once  # for the shapes of the metrics and for the branch
    def learn(agent: A, key: Key, started: Array) -> tuple[A, Metrics]:
        if config.num_gradient_steps == 1:
            return once(agent, key, started)
        keys = jax.random.split(key, config.num_gradient_steps)
        agent, metrics = jax.lax.scan(lambda agent, key: once(agent, key, started), agent, keys)
        return agent, jax.tree.map(jnp.mean, metrics)

    agent = agent._replace(replay=replay.add(agent.replay, rollout))
    if agent.observation_statistics is not None:
        statistics = agent.observation_statistics.update(rollout.observation, rollout.mask)
        agent = agent._replace(observation_statistics=statistics)
    started = agent.num_updates >= updates_of(config, config.learning_starts) - 1  # with this rollout
    zeros = jax.tree.map(lambda m: jnp.zeros(m.shape, m.dtype), jax.eval_shape(learn, agent, key, started)[1])
    rest = lambda agent, key, started: (agent, zeros)
    agent, metrics = jax.lax.cond(any_member(started), learn, rest, agent, key, started)
    metrics[LEARNING] = started.astype(jnp.float32)
    return agent._replace(num_updates=increment(agent.num_updates)), metrics


def _normalized(statistics: RunningStatistics, batch: PyTree) -> PyTree:
    """Return a batch with all its observations normalized."""
    by_statistics, between = partial(normalized, statistics), batch.between
    return batch._replace(
        observation=by_statistics(batch.observation),
        next_observation=by_statistics(batch.next_observation),
        between=between and between._replace(observation=by_statistics(between.observation)),
    )


def polyak(target_params: PyTree, params: PyTree, tau: Array | float) -> PyTree:
    """Return target + tau (params - target): Polyak averaging."""
    return jax.tree.map(lambda old, new: old + tau * (new - old), target_params, params)


def random_at_first(
    space: Space, config: OffPolicyConfig, agent: OffPolicyAgent, key: Key, observation: PyTree, *, action: PyTree
) -> PyTree:
    """Return uniform actions until learning starts, then `action`, [B, ...].

    If the observation holds an action mask, return `action` from the beginning.
    """
    keys = jax.random.split(jax.random.fold_in(key, 1), jax.tree.leaves(observation)[0].shape[0])
    random = jax.vmap(space.sample)(keys)
    started = (agent.num_updates >= updates_of(config, config.learning_starts)) | (action_mask(observation) is not None)
    return jnp.where(started, action, random)


def check_batch(config: OffPolicyConfig) -> None:
    """Check that a batch is not larger than the replay when learning starts.

    Raises:
      InputError: if it is larger.
    """
    stored = -(-config.learning_starts // config.steps_per_update) * config.steps_per_update
    if config.batch_size > stored:
        raise InputError(
            f"batch_size {config.batch_size} is larger than the {stored} steps that are stored when learning starts, "
            f"after learning_starts {config.learning_starts}"
        )


def uniform_replay(spec: EnvironmentSpec, config: OffPolicyConfig, between: bool = False) -> Replay:
    """Return the uniform replay that a config describes; `between` as for `uniform`.

    Raises:
      InputError: if its sizes do not fit one another or the available memory.
    """
    check_batch(config)
    return uniform(
        spec,
        capacity=config.replay_capacity,
        num_envs=config.num_envs,
        batch_size=config.batch_size,
        discount=config.discount,
        n_step=config.n_step,
        between=between,
    )


def prioritized_replay(
    spec: EnvironmentSpec, config: OffPolicyConfig, exponent: Array | float, beta: Array | float
) -> Replay:
    """Return the prioritized replay that a config describes, with the exponents of priorities and weights.

    Raises:
      InputError: if its sizes do not fit one another or the available memory.
    """
    check_batch(config)
    return prioritized(
        spec,
        capacity=config.replay_capacity,
        num_envs=config.num_envs,
        batch_size=config.batch_size,
        discount=config.discount,
        n_step=config.n_step,
        exponent=exponent,
        correction=beta,
        correction_steps=config.total_timesteps,
    )
