"""Evaluation: whole episodes of an agent that does not explore."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl import agent_groups
from purerl.agent_groups import group_rewards, mean_reward
from purerl.host_environment import HostSource
from purerl.loop.train import Trainer
from purerl.loop.vector import where
from purerl.prng import fast
from purerl.types import Array, Key, PyTree


class Evaluation(NamedTuple):
    """What the episodes were like."""

    episode_return: Array  # f32[num_episodes]; of several agents the mean
    episode_length: Array  # i32[num_episodes]
    finished: Array  # bool[num_episodes]; False: cut off by `max_steps`, return and length so far
    group_return: dict[str, Array]  # f32[num_episodes] of each group's mean agent; {} for a single agent


def evaluate(
    trainer: Trainer,
    agent: PyTree,
    key: Key,
    num_episodes: int = 128,
    max_steps: int = 27_000,
    explore: bool = False,
) -> Evaluation:
    """Play `num_episodes` episodes side by side, one each, from fresh starts.

    Playing a fixed number of episodes to their end gives long and short ones the same weight.

    Args:
      trainer: from `make_trainer`, for its algorithm and environment.
      agent: `state.agent` of a `TrainState`.
      key: draws the starts and whatever is random in the environment.
      num_episodes: how many.
      max_steps: where an episode that does not end is cut off.
      explore: act as in training instead of greedily.
    """
    if isinstance(trainer.environment, HostSource):
        return Evaluation(*trainer.play(agent, key, num_episodes, max_steps), group_return={})  # type: ignore[attr-defined]
    algo, env = trainer.algorithm, trainer.environment.env
    key_reset, key_run = jax.random.split(fast(key))
    env_state, observation = jax.vmap(env.reset)(jax.random.split(key_reset, num_episodes))

    def going(loop_carry: tuple) -> Array:
        time, finished = loop_carry[0], loop_carry[-1].finished
        return (time < max_steps) & ~jnp.all(finished)

    def step(loop_carry: tuple) -> tuple:
        time, env_state, observation, carry, result = loop_carry
        key_act, key_step = jax.random.split(jax.random.fold_in(key_run, time))
        action, carry, _ = algo.act(agent, carry, key_act, observation, explore)
        new_state, timestep = jax.vmap(env.step)(jax.random.split(key_step, num_episodes), env_state, action)
        running = ~result.finished
        count = lambda total, reward: total + jnp.where(running, reward, 0.0)
        result = Evaluation(
            count(result.episode_return, mean_reward(timestep.reward)),
            result.episode_length + running.astype(jnp.int32),
            result.finished | timestep.terminated | timestep.truncated,
            jax.tree.map(count, result.group_return, group_rewards(timestep.reward)),
        )
        env_state = where(running, new_state, env_state)
        return time + 1, env_state, timestep.observation, carry, result

    zeros = jnp.zeros(num_episodes)
    none = Evaluation(
        zeros, zeros.astype(jnp.int32), zeros.astype(jnp.bool_), dict.fromkeys(agent_groups.sizes(env), zeros)
    )
    loop_carry = (jnp.int32(0), env_state, observation, algo.initial_carry(num_episodes), none)
    return jax.lax.while_loop(going, step, loop_carry)[-1]
