"""DQN in one file, built on purerl's contracts: copy and edit it. `python scripts/dqn.py --env CartPole-v1`.

It uses only flax, optax and the public API of purerl; `purerl/algos/dqn.py` is the version with all options.
Source: Mnih et al. (2015), doi:10.1038/nature14236.
"""

import argparse
import time
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import purerl
from purerl import Algorithm, Config, Discrete, EnvironmentSpec, InputError, Rollout, number, pytree, static

Array = jax.Array


@pytree
class DQNConfig(Config):
    """Settings: numbers can be traced and vmapped; static settings are fixed when the program is compiled."""

    num_envs: int = static(default=10, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=1, doc="steps of each environment per update", at_least=1)
    replay_capacity: int = static(default=10_000, doc="steps held, a multiple of the steps per update", at_least=1)
    batch_size: int = static(default=128, doc="transitions per gradient step", at_least=1)
    learning_starts: int = number(default=1_000, doc="environment steps before the first gradient step", at_least=0)
    learning_rate: float = number(default=2.5e-4, doc="learning rate of Adam", above=0)
    target_update_interval: int = number(default=50, doc="updates between two copies to the target", at_least=1)
    epsilon_end: float = number(default=0.05, doc="fraction of random actions at the end", at_least=0, at_most=1)
    exploration_fraction: float = number(default=0.5, doc="share of the run in which epsilon falls from 1", above=0)


class Transition(NamedTuple):
    """A transition; all fields share the leading axes."""

    observation: Array
    action: Array  # i32
    reward: Array  # f32
    terminated: Array  # bool; a time limit is not a termination, so `truncated` is not needed
    next_observation: Array  # the final observation if the episode ended


class Agent(NamedTuple):
    """The complete state of the algorithm, including the replay: a pytree of arrays."""

    params: Any
    target_params: Any
    opt_state: optax.OptState
    replay: Transition  # [replay_capacity, ...]
    num_steps: Array  # i32[], environment steps so far


class Network(nn.Module):
    """A Q network with two hidden layers."""

    num_actions: int

    @nn.compact
    def __call__(self, observation: Array) -> Array:
        """Return f32[..., num_actions]."""
        x = nn.relu(nn.Dense(120)(observation))
        return nn.Dense(self.num_actions)(nn.relu(nn.Dense(84)(x)))


def dqn(spec: EnvironmentSpec, config: DQNConfig) -> Algorithm:
    """Return the four functions of DQN for discrete actions: init, initial_carry, act, update.

    Raises:
      InputError: if actions are not discrete, or the capacity is not a multiple of the steps per update.
    """
    if not isinstance(spec.action_space, Discrete):
        raise InputError(f"DQN needs discrete actions; this environment's are {spec.action_space}")
    if config.replay_capacity % config.steps_per_update:
        raise InputError(f"replay_capacity must be a multiple of the {config.steps_per_update} steps of an update")
    network, num_actions = Network(spec.action_space.n), spec.action_space.n
    optimizer = optax.adam(config.learning_rate)
    q_values = lambda params, observation: jnp.asarray(network.apply(params, observation))

    def init(key: Array) -> Agent:
        observation, zero = spec.observation_space.zeros(), jnp.float32(0)
        params = network.init(key, observation)
        empty = Transition(
            observation=observation,
            action=jnp.int32(0),
            reward=zero,
            terminated=jnp.bool_(False),
            next_observation=observation,
        )
        return Agent(
            params=params,
            target_params=params,
            opt_state=optimizer.init(params),
            replay=jax.tree.map(lambda x: jnp.zeros((config.replay_capacity, *x.shape), x.dtype), empty),
            num_steps=jnp.int32(0),
        )

    def act(agent: Agent, carry: tuple, key: Array, observation: Array, explore: bool) -> tuple:
        greedy = jnp.argmax(q_values(agent.params, observation), -1)
        if not explore:
            return greedy, carry, ()
        key_which, key_action = jax.random.split(key)
        share = agent.num_steps.astype(jnp.float32) / jnp.float32(config.total_timesteps)  # fraction of the run
        progress = share / config.exploration_fraction
        epsilon = jnp.maximum(1.0 - (1.0 - config.epsilon_end) * progress, config.epsilon_end)
        drawn = jax.random.randint(key_action, greedy.shape, 0, num_actions)
        return jnp.where(jax.random.uniform(key_which, greedy.shape) < epsilon, drawn, greedy), carry, ()

    def update(agent: Agent, key: Array, rollout: Rollout) -> tuple[Agent, dict[str, Array]]:
        agent = remembered(agent, rollout)
        held = jnp.minimum(agent.num_steps, config.replay_capacity)
        rows = jax.random.randint(key, (config.batch_size,), 0, held)
        batch = jax.tree.map(lambda x: x[rows], agent.replay)
        value, gradient = jax.value_and_grad(loss)(agent.params, agent.target_params, batch)
        step, opt_state = optimizer.update(gradient, agent.opt_state)
        learns = agent.num_steps >= config.learning_starts
        choose = lambda new, old: jax.tree.map(lambda a, b: jnp.where(learns, a, b), new, old)
        params = choose(optax.apply_updates(agent.params, step), agent.params)
        is_due = agent.num_steps // config.steps_per_update % config.target_update_interval == 0
        target = jax.tree.map(lambda a, b: jnp.where(is_due, a, b), params, agent.target_params)
        agent = agent._replace(params=params, target_params=target, opt_state=choose(opt_state, agent.opt_state))
        return agent, {"loss": value}

    def remembered(agent: Agent, rollout: Rollout) -> Agent:
        steps = Transition(
            observation=rollout.observation,
            action=rollout.action,
            reward=rollout.reward,
            terminated=rollout.terminated,
            next_observation=rollout.next_observation,
        )
        start = agent.num_steps % config.replay_capacity
        put = lambda old, new: jax.lax.dynamic_update_slice_in_dim(old, new.reshape(-1, *new.shape[2:]), start, 0)
        replay = jax.tree.map(put, agent.replay, steps)
        return agent._replace(replay=replay, num_steps=agent.num_steps + config.steps_per_update)

    def loss(params: Any, target_params: Any, batch: Transition) -> Array:
        following = jnp.max(q_values(target_params, batch.next_observation), -1)
        following = jnp.where(batch.terminated, 0.0, following)
        target = batch.reward + config.discount * following
        taken = jnp.take_along_axis(q_values(params, batch.observation), batch.action[:, None], -1)[:, 0]
        return jnp.mean((taken - target) ** 2) / 2

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


def main(words: list[str] | None = None) -> np.ndarray:
    """Train all seeds in one program and return the curves f32[seeds, points]."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--env", default="CartPole-v1", help="an environment with discrete actions")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=float, default=200_000, help="environment steps of each seed")
    args = parser.parse_args(words)
    train = purerl.make_train(dqn, purerl.make(args.env), DQNConfig(), int(args.steps), num_points=10)
    start = time.perf_counter()
    _, metrics = jax.jit(jax.vmap(train))(jax.random.split(jax.random.key(0), args.seeds))
    curves = np.asarray(metrics.episodes["episode_return"])
    for point in range(curves.shape[1]):
        print(f"{(point + 1) * 10}% of the steps: return {np.nanmean(curves[:, point]):.1f}")
    print(f"{args.seeds} seeds in {time.perf_counter() - start:.1f} s, compilation included")
    return curves


if __name__ == "__main__":
    main()
