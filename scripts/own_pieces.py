"""Your own network, objective, exploration and replay in a script, without copying an algorithm.

python scripts/own_pieces.py
"""

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

import purerl
import purerl.types
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.ppo import PPOConfig, ppo
from purerl.networks.actor_critic import ActorCritic
from purerl.replay import uniform
from purerl.types import Array

ENV = purerl.make("CartPole-v1")


# --- a network: one torso shared by policy and value ------------------------------------------------------------------
class Shared(nn.Module):
    """Two hidden layers with a policy head and a value head."""

    num_outputs: int

    @nn.compact
    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return (outputs f32[..., num_outputs], value f32[...])."""
        x = jax.nn.silu(nn.Dense(32)(x))
        x = jax.nn.silu(nn.Dense(32)(x))
        return nn.Dense(self.num_outputs)(x), nn.Dense(1)(x)[..., 0]


def shared_network(space: Any, head: Any, config: Any) -> ActorCritic:
    """Return the pure functions of a network without a recurrent state, as PPO uses them."""
    module = Shared(head.num_outputs)

    def outputs(params: Any, observation: Array) -> tuple[Array, Array]:
        result: Any = module.apply(params, observation)
        return result[0], result[1]

    def policy(params: Any, carry: Any, observation: Array) -> tuple[Any, Any]:
        return head.distribution(outputs(params, observation)[0], jnp.zeros(head.num_log_std)), carry

    def value(params: Any, carry: Any, observation: Array) -> Array:
        return outputs(params, observation)[1]

    def unroll(params: Any, carry: Any, observation: Array, done: Array) -> tuple[Any, Array, Any]:
        return policy(params, (), observation)[0], value(params, (), observation), ()

    return ActorCritic(
        init=lambda key: module.init(key, space.zeros()),
        initial_carry=lambda num_envs: (),
        policy=policy,
        value=value,
        unroll=unroll,
    )


# --- an objective: a penalty on the squared log-ratio instead of PPO's clip ------------------------------------------
def squared_drift(log_ratio: Array, advantage: Array, context: Any) -> Array:
    """Return the loss of each sample."""
    return -jnp.exp(log_ratio) * advantage + 2.0 * log_ratio**2


# --- exploration: sample from a softmax of the Q values instead of epsilon-greedy -------------------------------------
def boltzmann(key: jax.Array, q_values: Array, mask: Array | None, num_steps: Array) -> Array:
    """Return actions i32[B]; the temperature falls as training progresses."""
    temperature = 1.0 / (1.0 + num_steps / 5_000)
    noise = jax.random.gumbel(key, q_values.shape)
    return jnp.argmax(q_values / temperature + noise, axis=-1).astype(jnp.int32)


# --- a replay: uniform sampling, with rewards clipped to [-1, 1] when they are sampled --------------------------------
def clipped_replay(config: DQNConfig) -> uniform.Replay:
    """Return a replay whose `sample` clips the rewards."""
    spec = purerl.types.EnvironmentSpec(observation_space=ENV.observation_space, action_space=ENV.action_space)
    plain = uniform.uniform(spec, config.replay_capacity, config.num_envs, config.batch_size, config.discount)

    def sample(state: Any, key: jax.Array) -> uniform.Transitions:
        drawn = plain.sample(state, key)
        return drawn._replace(reward=jnp.clip(drawn.reward, -1.0, 1.0))

    return plain._replace(sample=sample)


def main(total_timesteps: int = 100_000) -> dict[str, float]:
    """Train with each piece and return the mean return over the last tenth of each run."""
    q_config = DQNConfig(learning_starts=1_000)
    variants = {
        "ppo, own network": (partial(ppo, network=shared_network), PPOConfig(learning_rate=1e-3)),
        "ppo, own objective": (partial(ppo, objective=squared_drift), PPOConfig()),
        "dqn, own exploration": (partial(dqn, exploration=boltzmann), q_config),
        "dqn, own replay": (partial(dqn, replay=clipped_replay(q_config)), q_config),
    }
    returns = {}
    for name, (algorithm, config) in variants.items():
        train = purerl.make_train(algorithm, ENV, config, total_timesteps)
        _, metrics = jax.jit(train)(jax.random.key(0))
        curve = metrics.episodes["episode_return"]
        last = curve[-max(1, len(curve) // 10) :]
        returns[name] = float(jnp.nanmean(last))
        print(f"{name}: return {returns[name]:.1f}")
    return returns


if __name__ == "__main__":
    main()
