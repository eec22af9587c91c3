"""Evaluation: complete episodes of an agent without exploration."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl import agent_groups
from purerl.agent_groups import group_rewards, mean_reward
from purerl.prng import fast
from purerl.types import Algorithm, Array, Environment, Key, PyTree
from purerl.xla.trees import where

MAX_STEPS = 27_000  # longest episode of an evaluation, if no other limit is given


class Evaluation(NamedTuple):
    """The episodes of an evaluation."""

    episode_return: Array  # f32[num_episodes]; the mean over the agents if there are several
    episode_length: Array  # i32[num_episodes]
    finished: Array  # bool[num_episodes]; False: cut off by `max_steps`, return and length so far
    group_return: dict[str, Array]  # f32[num_episodes] of each group's mean agent; {} for a single agent


def play_episodes(
    algo: Algorithm, env: Environment, agent: PyTree, key: Key, num_episodes: int, max_steps: int, explore: bool
) -> Evaluation:
    """Play `num_episodes` episodes in parallel, one per environment; see `purerl.evaluate`."""
    key_reset, key_run = jax.random.split(fast(key))
    env_state, observation = jax.vmap(env.reset)(jax.random.split(key_reset, num_episodes))

    def not_all_finished(loop_carry: tuple) -> Array:
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
            episode_return=count(result.episode_return, mean_reward(timestep.reward)),
            episode_length=result.episode_length + running.astype(jnp.int32),
            finished=result.finished | timestep.done,
            group_return=jax.tree.map(count, result.group_return, group_rewards(timestep.reward)),
        )
        env_state = where(running, new_state, env_state)
        return time + 1, env_state, timestep.observation, carry, result

    zeros = jnp.zeros(num_episodes)
    none = Evaluation(
        episode_return=zeros,
        episode_length=zeros.astype(jnp.int32),
        finished=zeros.astype(jnp.bool_),
        group_return=dict.fromkeys(agent_groups.sizes(env), zeros),
    )
    loop_carry = (jnp.int32(0), env_state, observation, algo.initial_carry(num_episodes), none)
    return jax.lax.while_loop(not_all_finished, step, loop_carry)[-1]
