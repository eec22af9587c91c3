"""Many instances of one environment, stepped together; each starts a new episode when its episode ends."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar, TypeVarTuple

import jax
import jax.numpy as jnp

from purerl import registry
from purerl.agent_groups import group_rewards, mean_reward
from purerl.errors import InputError, told, unknown
from purerl.host_environment import HostSource
from purerl.loop import resets
from purerl.loop.metrics import EpisodeStatistics
from purerl.loop.pieces import check_count
from purerl.loop.resets import Resets
from purerl.prng import GENERATORS, as_generator
from purerl.types import Array, Environment, Key, PyTree, TimeStep, number, pytree, static
from purerl.wrappers import DomainRandomization
from purerl.xla.once import once
from purerl.xla.trees import where

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class VectorState(NamedTuple):
    """B environments and their episodes, for both loops."""

    env_state: PyTree  # [B, ...]; on the host snapshots by group, () where environments cannot be saved
    episode_return: Array  # f32[B], of the running episodes; the mean over the agents if there are several
    group_return: dict[str, Array]  # f32[B], of the running episodes, of each group's mean agent; {} for a single agent
    episode_length: Array  # i32[B]
    statistics: EpisodeStatistics  # statistics of the episodes that ended
    resets: Resets | None  # resets of the episodes to come; None on the host, whose environments reset themselves


def _named(group_return: dict[str, Array]) -> dict[str, Array]:
    """Return the groups' returns under the names that they have among an environment's own metrics."""
    return {f"return_{group}": total for group, total in group_return.items()}


@pytree
class VectorEnvironment:
    """`num_envs` instances of `env`."""

    env: Any = number()
    num_envs: int = static(default=1)
    reset_policy: str = static(default="auto", choices=resets.POLICIES)
    pool_size: int = static(default=1024, at_least=1)
    prng: str = static(default="fast", choices=tuple(GENERATORS))

    def reset(self, key: Key) -> tuple[VectorState, PyTree]:
        """Start an episode in every environment.

        Args:
          key: a key of any generator; the environments get keys of `prng`'s.

        Returns:
          (state, observation[B]).
        """
        key = as_generator(key, self.prng)
        coming, first = resets.create(self._reset_all, self.num_envs, key, self.reset_policy, self.pool_size)
        env_state, observation = self._observed(first)
        _check_observation(self.env, observation)
        step = jax.eval_shape(self._one_step, key, env_state)[1]
        zeros = jnp.zeros(self.num_envs)
        groups: list[str] = sorted(step.reward) if isinstance(step.reward, dict) else []
        group_return = dict.fromkeys(groups, zeros)
        statistics = EpisodeStatistics.clear(self.num_envs, tuple(sorted({**step.info, **_named(group_return)})))
        state = VectorState(
            env_state=env_state,
            episode_return=zeros,
            group_return=group_return,
            episode_length=zeros.astype(jnp.int32),
            statistics=statistics,
            resets=coming,
        )
        return state, observation

    def step(self, key: Key, state: VectorState, action: PyTree) -> tuple[VectorState, PyTree, TimeStep]:
        """Step every environment; where an episode ends, start the next one.

        Args:
          key: one key for all, of any generator.
          state: from `reset` or `step`.
          action: [B, ...].

        Returns:
          (state, observation[B] to act on next, TimeStep[B] whose observation is the final one at an end). The two
          observations differ exactly where an episode ended.
        """
        keys = jax.random.split(as_generator(key, self.prng), self.num_envs)
        env_state, step = self.each(lambda env, *x: env.step(*x), keys, state.env_state, action)
        if self._observes:  # from the state in memory; otherwise XLA would compute the step again for the observation
            env_state = jax.lax.optimization_barrier(env_state)
            step = step._replace(observation=self._observe(env_state))
        done = step.done
        assert state.resets is not None
        coming, reset = resets.take(self._reset_all, state.resets, done)
        env_state, observation = self._observed(where(done, reset, (env_state, step.observation)[: len(reset)]))
        episode_return = state.episode_return + mean_reward(step.reward)
        group_return = jax.tree.map(jnp.add, state.group_return, group_rewards(step.reward))
        episode_length = state.episode_length + 1
        info = {**step.info, **_named(group_return)}
        statistics = state.statistics.add(done, episode_return, episode_length, info)
        state = VectorState(
            env_state=env_state,
            episode_return=jnp.where(done, 0.0, episode_return),
            group_return=jax.tree.map(lambda total: jnp.where(done, 0.0, total), group_return),
            episode_length=jnp.where(done, 0, episode_length),
            statistics=statistics,
            resets=coming,
        )
        return state, observation, step

    def sample(self, key: Key) -> PyTree:
        """Sample an action for every environment, [B, ...]."""
        sample = jax.vmap(self.env.action_space.sample)
        return once(lambda key: sample(jax.random.split(key, self.num_envs)), as_generator(key, self.prng))

    def each(self, function: Callable[[Environment, *Ts], R], *arguments: *Ts) -> R:
        """Return the results [B, ...] of a function (env, *arguments) on every environment; arguments are [B, ...]."""
        return jax.vmap(partial(function, self.env))(*arguments)

    def _reset_all(self, keys: Key) -> tuple[PyTree, ...]:
        """Return the (state, observation)[B] of resets, or (state,) if observations are computed from states."""
        parts = 1 if self._observes else 2
        return self.each(lambda env, key: _checked_reset(env, env.reset(key))[:parts], keys)

    def _observe(self, env_state: PyTree) -> PyTree:
        return self.each(lambda env, state: env.observe(state), env_state)

    def _observed(self, reset: tuple[PyTree, ...]) -> tuple[PyTree, PyTree]:
        """Return (state, observation)[B] from the result of `_reset_all`."""
        return (reset[0], self._observe(reset[0])) if self._observes else (reset[0], reset[1])

    @property
    def _observes(self) -> bool:
        return type(self.env).observe is not Environment.observe

    def _one_step(self, key: Key, env_state: PyTree) -> tuple[PyTree, TimeStep]:
        first = jax.tree.map(lambda x: x[0], env_state)
        return self.env.step(key, first, self.env.action_space.sample(key))


def _checked_reset(env: Environment, returned: Any) -> tuple[PyTree, PyTree]:
    """Return what a reset returned: (state, observation), of arrays."""
    name = type(env).__name__
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise InputError(f"{name}.reset returned {told(returned)}; it must return (state, observation)")
    for what, part in zip(("state", "observation"), returned, strict=True):
        for leaf in jax.tree.leaves(part):
            if not hasattr(leaf, "dtype") and not isinstance(leaf, bool | int | float):
                raise InputError(f"{name}.reset returned {told(leaf)} in the {what}; it may only hold arrays")
    return returned


def _check_observation(env: Environment, observation: PyTree) -> None:
    """Raise an `InputError` unless observations [B, ...] have the structure and the shapes of the space."""
    if hasattr(observation, "_fields"):
        return  # a record around it, for the algorithms of an extension
    wanted, structure = jax.tree.flatten(env.observation_space.struct)
    leaves, given = jax.tree.flatten(observation)
    if given != structure or any(x.shape[1:] != leaf.shape for x, leaf in zip(leaves, wanted, strict=True)):
        shapes = jax.tree.map(lambda x: f"{x.dtype}[{','.join(map(str, x.shape[1:]))}]", observation)
        name = type(env).__name__
        raise InputError(f"{name}.reset returns the observation {shapes}; its space is {env.observation_space}")


def vectorize(
    env: Environment,
    num_envs: int,
    reset_policy: str = "auto",
    pool_size: int = 1024,
    redraw: Callable[[Key, Environment], Environment] | None = None,
    prng: str = "fast",
) -> VectorEnvironment:
    """Return `num_envs` instances of `env`, which reset themselves when an episode ends.

    Its `step` returns the observation to act on next and, in the time step, the final observation of each episode, from
    which an algorithm can bootstrap at a time limit.

    Args:
      env: one environment; its fields may be traced.
      num_envs: B.
      reset_policy: "auto", "prefetch", "always" or "pool": see `purerl.loop.resets`.
      pool_size: the number of reset states in a "pool".
      redraw: (key, env) -> env: new parameters for each episode of each instance.
      prng: the random number generator of the environments, independent of the given keys: "fast", "threefry" (JAX's
        own, some four times slower for a light environment) or "rbg".

    Returns:
      The environments, with `reset(key)` and `step(key, state, action)`.

    Raises:
      InputError: for an unknown policy or generator, or an object that is not an environment.

    Example:
      >>> import jax
      >>> import purerl
      >>> vector = purerl.vectorize(purerl.make("CartPole-v1"), num_envs=8)
      >>> state, observation = vector.reset(jax.random.key(0))
      >>> observation.shape
      (8, 4)
    """
    registry.check_environment(env)
    if isinstance(env, HostSource):
        raise InputError(f"vectorize needs a JAX environment, and {env.id} runs on the host: its `open` makes a batch")
    num_envs, pool_size = check_count(num_envs, "num_envs"), check_count(pool_size, "pool_size")
    if reset_policy not in resets.POLICIES:
        raise unknown("reset policy", reset_policy, resets.POLICIES)
    if prng not in GENERATORS:
        raise unknown("generator", prng, GENERATORS)
    if redraw is not None:
        env = DomainRandomization(env=env, redraw=redraw)
    return VectorEnvironment(env=env, num_envs=num_envs, reset_policy=reset_policy, pool_size=pool_size, prng=prng)
