"""Learning on the host: one program joins the rollouts of all groups, counts episodes and updates the agent."""

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from purerl.extensions.host.rollout import GroupRollout
from purerl.host_environment import HostSource
from purerl.loop.metrics import EpisodeStatistics, TrainMetrics
from purerl.loop.vector import VectorState
from purerl.prng import convert, update_keys
from purerl.types import Algorithm, Array, Config, Key, Metrics, PyTree, Rollout


def no_episodes(num_envs: int, env_state: PyTree) -> VectorState:
    """Return the state of host environments at the start of their first episodes."""
    return VectorState(
        env_state=env_state,
        episode_return=jnp.zeros(num_envs, jnp.float32),
        group_return={},
        episode_length=jnp.zeros(num_envs, jnp.int32),
        statistics=EpisodeStatistics.clear(num_envs),
        resets=None,
    )


class Learn(Protocol):
    """One update from the actors' rollouts."""

    def __call__(
        self, agent: PyTree, vector: VectorState, key: Key, num_updates: Array, groups: tuple[GroupRollout, ...], /
    ) -> tuple[PyTree, VectorState, TrainMetrics]:
        """Return (agent, vector, metrics).

        Args:
          agent: that learns.
          vector: without `env_state`.
          key: the run's.
          num_updates: i32[], so far.
          groups: the rollouts of all groups of environments.
        """
        ...


def make_learn(algo: Algorithm, source: HostSource) -> Learn:
    """Return the function of one update, to be compiled or used inside a program."""

    def learn(agent: PyTree, vector: VectorState, key: Key, num_updates: Array, groups: tuple[GroupRollout, ...]):
        _, key_update = update_keys(key, num_updates)
        agent, metrics = algo.update(agent, key_update, _side_by_side([_joined(source, group) for group in groups]))
        score, over = (jnp.concatenate([getattr(g, name) for g in groups], 1) for name in ("score", "over"))
        masks = [jnp.ones_like(g.over) if g.mask is None else g.mask for g in groups]
        vector = _count(vector, score, over, jnp.concatenate(masks, 1))
        return agent, vector, vector.statistics.metrics(metrics)

    return learn


def metrics_struct(algo: Algorithm, source: HostSource, config: Config, agent: PyTree) -> Metrics:
    """Return the shapes and dtypes of the algorithm's metrics.

    Args:
      algo, source, config: as for `make_acting`.
      agent: the shapes and dtypes of its agent.
    """
    size = config.num_envs
    carry = jax.eval_shape(lambda: algo.initial_carry(size))
    batch = lambda leaf: jax.ShapeDtypeStruct((size, *leaf.shape), leaf.dtype)
    observation = jax.tree.map(batch, source.observation_space.struct)
    key = jax.eval_shape(lambda: convert(jax.random.key(0), config.prng))
    action, _, extras = jax.eval_shape(
        lambda agent, carry, key, batch: algo.act(agent, carry, key, batch, True), agent, carry, key, observation
    )
    steps = lambda leaf: jax.ShapeDtypeStruct((config.rollout_length, *leaf.shape), leaf.dtype)
    observation, action, extras = (jax.tree.map(steps, tree) for tree in (observation, action, extras))
    number, flag = (jax.ShapeDtypeStruct((config.rollout_length, size), kind) for kind in (jnp.float32, jnp.bool_))
    flag: Any = flag
    rollout = Rollout(
        observation=observation,
        action=action,
        reward=number,
        terminated=flag,
        truncated=flag,
        next_observation=observation,
        extras=extras,
        carry=carry,
        mask=flag,
    )
    return jax.eval_shape(algo.update, agent, key, rollout)[1]


def _joined(source: HostSource, group: GroupRollout) -> Rollout:
    """Return one group's rollout, [T, B]."""
    stack = lambda trees: jax.tree.map(lambda *xs: jnp.stack(xs), *trees) if isinstance(trees, list) else trees
    observation = stack(group.observation)
    if group.next_observation is None:
        last = source.prepare(group.last)
        next_observation = jax.tree.map(lambda xs, x: jnp.concatenate([xs[1:], x[None]]), observation, last)
    else:
        next_observation = jax.vmap(source.prepare)(stack(group.next_observation))
    return Rollout(
        observation=observation,
        action=stack(group.action),
        reward=group.reward,
        terminated=group.terminated,
        truncated=group.truncated,
        next_observation=next_observation,
        extras=stack(group.extras),
        carry=group.carry,
        mask=group.mask,
        statistics=jax.tree.map(lambda x: jnp.broadcast_to(x, (group.over.shape[1], *x.shape)), group.statistics),
    )


def _side_by_side(rollouts: list[Rollout]) -> Rollout:
    """Join rollouts along the environments' axis."""
    if len(rollouts) == 1:
        return rollouts[0]
    by_env = [(rollout.carry, rollout.statistics) for rollout in rollouts]  # without an axis of time
    carry, statistics = jax.tree.map(lambda *xs: jnp.concatenate(xs), *by_env)
    rest = [rollout._replace(carry=(), statistics=None) for rollout in rollouts]
    joined = jax.tree.map(lambda *xs: jnp.concatenate(xs, 1), *rest)
    return joined._replace(carry=carry, statistics=statistics)


def _count(vector: VectorState, score: Array, over: Array, mask: Array) -> VectorState:
    """Add T steps' scores to the episodes; steps that only reset an environment do not count."""

    def step(vector: VectorState, at: tuple[Array, Array, Array]) -> tuple[VectorState, None]:
        score, over, mask = at
        total = vector.episode_return + jnp.where(mask, score, 0.0)
        length = vector.episode_length + mask.astype(jnp.int32)
        statistics = vector.statistics.add(over, total, length, {})
        total, length = jnp.where(over, 0.0, total), jnp.where(over, 0, length)
        return vector._replace(episode_return=total, episode_length=length, statistics=statistics), None

    none = EpisodeStatistics.clear(score.shape[1])
    return jax.lax.scan(step, vector._replace(statistics=none), (score, over, mask))[0]


def sampler_metrics(config: Config, idle: float | None, lag: float, ahead: float) -> dict[str, Any]:
    """Return the metrics of sampling on the host, {name: f32[]}.

    Args:
      config: the settings.
      idle: share of the time in which environments waited; None where that is not measured.
      lag: updates that the acting policy was behind the learning one.
      ahead: environment steps per step that an update used, at least 1.

    Returns:
      environment_idle and policy_lag; with a replay also the measured replay_ratio.
    """
    found = {"policy_lag": np.float32(lag)} | ({} if idle is None else {"environment_idle": np.float32(idle)})
    planned = getattr(config, "replay_ratio", None)
    return found if planned is None else found | {"replay_ratio": np.float32(planned / ahead)}
