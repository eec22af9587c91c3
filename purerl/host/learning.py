"""Learning from the rollouts of groups: joined, counted and learned from in one program."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.host.rollout import GroupRollout
from purerl.host_environment import HostSource
from purerl.loop.metrics import EpisodeStatistics
from purerl.loop.train import update_keys
from purerl.prng import convert
from purerl.types import Algorithm, Array, Config, Key, Metrics, PyTree, Rollout


class Episodes(NamedTuple):
    """The host's side of a `TrainState`, where the compiled loop has a `VectorState`."""

    env_state: PyTree  # snapshots of the environments; () where they cannot be saved
    episode_return: Array  # f32[B], of the running episodes, before clipping
    episode_length: Array  # i32[B]
    statistics: EpisodeStatistics  # of the episodes that ended in the last update


def begin_episodes(num_envs: int, env_state: PyTree) -> Episodes:
    """Return that of a run in which nothing has happened."""
    zeros = jnp.zeros(num_envs, jnp.float32)
    return Episodes(env_state, zeros, jnp.zeros(num_envs, jnp.int32), EpisodeStatistics.clear(num_envs))


Learn = Callable[..., tuple[PyTree, Episodes, Metrics]]
# (agent, episodes without env_state, the run's key, number of updates, GroupRollouts) -> (agent, episodes, metrics)


def make_learn(algo: Algorithm, source: HostSource) -> Learn:
    """Return the program of one update; it overwrites the agent it is given."""

    def learn(agent: PyTree, episodes: Episodes, key: Key, num_updates: Array, groups: tuple[GroupRollout, ...]):
        _, key_update = update_keys(key, num_updates)
        agent, metrics = algo.update(agent, key_update, _side_by_side([_joined(source, group) for group in groups]))
        score, over = (jnp.concatenate([getattr(g, name) for g in groups], 1) for name in ("score", "over"))
        masks = [jnp.ones_like(g.over) if g.mask is None else g.mask for g in groups]
        episodes = _count(episodes, score, over, jnp.concatenate(masks, 1))
        return agent, episodes, episodes.statistics.summary() | metrics

    return jax.jit(learn, donate_argnums=0)


def metrics_struct(algo: Algorithm, source: HostSource, config: Config, agent: PyTree) -> Metrics:
    """Return the shapes and dtypes of an update's metrics, those of episodes left out.

    Args:
      algo, source, config: as for `make_acting`.
      agent: the shapes and dtypes of its agent.
    """
    size = config.num_envs
    carry = jax.eval_shape(lambda: algo.initial_carry(size))
    batch = lambda leaf: jax.ShapeDtypeStruct((size, *leaf.shape), leaf.dtype)
    seen = jax.tree.map(batch, source.observation_space.struct)
    key = jax.eval_shape(lambda: convert(jax.random.key(0), config.prng))
    action, _, extras = jax.eval_shape(lambda *args: algo.act(*args, True), agent, carry, key, seen)
    steps = lambda leaf: jax.ShapeDtypeStruct((config.rollout_length, *leaf.shape), leaf.dtype)
    seen, action, extras = (jax.tree.map(steps, tree) for tree in (seen, action, extras))
    number, flag = (jax.ShapeDtypeStruct((config.rollout_length, size), kind) for kind in (jnp.float32, jnp.bool_))
    rollout = Rollout(seen, action, number, flag, flag, seen, extras, carry, flag)  # type: ignore[arg-type]
    return jax.eval_shape(algo.update, agent, key, rollout)[1]


def _joined(source: HostSource, group: GroupRollout) -> Rollout:
    """Return one group's rollout, [T, B]."""
    stack = lambda trees: jax.tree.map(lambda *xs: jnp.stack(xs), *trees) if isinstance(trees, list) else trees
    observation = stack(group.observation)
    if group.successor is None:
        last = source.prepare(group.last)
        following = jax.tree.map(lambda xs, x: jnp.concatenate([xs[1:], x[None]]), observation, last)
    else:
        following = jax.vmap(source.prepare)(stack(group.successor))
    return Rollout(
        observation,
        stack(group.action),
        group.reward,  # type: ignore[arg-type]  # inside jit these are traced arrays
        group.terminated,  # type: ignore[arg-type]
        group.truncated,  # type: ignore[arg-type]
        following,
        stack(group.extras),
        group.carry,
        group.mask,  # type: ignore[arg-type]
    )


def _side_by_side(rollouts: list[Rollout]) -> Rollout:
    """Join rollouts along the environments' axis."""
    if len(rollouts) == 1:
        return rollouts[0]
    carry = jax.tree.map(lambda *xs: jnp.concatenate(xs), *[rollout.carry for rollout in rollouts])
    rest = [rollout._replace(carry=()) for rollout in rollouts]
    return jax.tree.map(lambda *xs: jnp.concatenate(xs, 1), *rest)._replace(carry=carry)


def _count(episodes: Episodes, score: Array, over: Array, mask: Array) -> Episodes:
    """Follow T steps' scores; steps that only began an episode are none."""

    def step(episodes: Episodes, at: tuple[Array, Array, Array]) -> tuple[Episodes, None]:
        score, over, mask = at
        total = episodes.episode_return + jnp.where(mask, score, 0.0)
        length = episodes.episode_length + mask.astype(jnp.int32)
        statistics = episodes.statistics.add(over, total, length, {})
        total, length = jnp.where(over, 0.0, total), jnp.where(over, 0, length)
        return episodes._replace(episode_return=total, episode_length=length, statistics=statistics), None

    none = EpisodeStatistics.clear(score.shape[1])
    return jax.lax.scan(step, episodes._replace(statistics=none), (score, over, mask))[0]


def own_metrics(config: Config, idle: float | None, lag: float, ahead: float) -> dict[str, Any]:
    """Return the runtime's own metrics.

    Args:
      config: the settings.
      idle: share of the time in which environments waited; None where that cannot be seen.
      lag: updates that the acting policy was behind the learning one.
      ahead: steps that environments have taken per step that has gone to an update, at least 1.

    Returns:
      environment_idle and policy_lag; with a replay also its replay_ratio as it is, steps trained on per step taken.
    """
    found = {"policy_lag": np.float32(lag)} | ({} if idle is None else {"environment_idle": np.float32(idle)})
    planned = getattr(config, "replay_ratio", None)
    return found if planned is None else found | {"replay_ratio": np.float32(planned / ahead)}
