"""PPO in one file, built on purerl's contracts: copy and edit it. `python scripts/ppo.py --env CartPole-v1`.

It uses only flax, optax and the public API of purerl; `purerl/algos/ppo.py` is the version with all options.
Source: Schulman et al. (2017), arXiv:1707.06347; Schulman et al. (2016), arXiv:1506.02438, for the advantages.
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
class PPOConfig(Config):
    """Settings: numbers can be traced and vmapped; static settings are fixed when the program is compiled."""

    num_envs: int = static(default=8, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=128, doc="steps of each environment per update", at_least=1)
    num_epochs: int = static(default=4, doc="passes over each rollout", at_least=1)
    num_minibatches: int = static(default=4, doc="gradient steps per pass", at_least=1)
    learning_rate: float = number(default=1e-3, doc="learning rate of Adam, decayed linearly to 0", above=0)
    gae_lambda: float = number(default=0.95, doc="lambda of the advantages", at_least=0, at_most=1)
    clip_epsilon: float = number(default=0.2, doc="clip range of the probability ratio around 1", above=0)
    value_coefficient: float = number(default=0.5, doc="weight of the value loss", at_least=0)
    entropy_coefficient: float = number(default=0.01, doc="weight of the entropy bonus", at_least=0)


class Agent(NamedTuple):
    """The complete state of the algorithm: a pytree of arrays."""

    params: Any
    opt_state: optax.OptState


class Sample(NamedTuple):
    """The inputs of the loss: [T, B, ...] in a rollout, [N, ...] in a minibatch."""

    observation: Array
    action: Array  # i32
    log_prob: Array  # f32, under the policy that acted
    advantage: Array  # f32
    target: Array  # f32, target of the value function


def normal(scale: float) -> nn.initializers.Initializer:
    """Return an initializer with variance scale^2 / inputs; orthogonal weights under vmap can hang XLA on a CPU."""
    return nn.initializers.variance_scaling(scale**2, "fan_in", "normal")


class Network(nn.Module):
    """A policy and a value function, each with two hidden layers."""

    num_actions: int

    @nn.compact
    def __call__(self, observation: Array) -> tuple[Array, Array]:
        """Return (log-probabilities f32[..., num_actions], value f32[...])."""
        logits = self.mlp(observation, self.num_actions, 0.01)
        return jax.nn.log_softmax(logits), self.mlp(observation, 1, 1.0)[..., 0]

    def mlp(self, x: Array, num_outputs: int, scale: float) -> Array:
        """Return f32[..., num_outputs]."""
        for _ in range(2):
            x = nn.tanh(nn.Dense(64, kernel_init=normal(2**0.5))(x))
        return nn.Dense(num_outputs, kernel_init=normal(scale))(x)


def ppo(spec: EnvironmentSpec, config: PPOConfig) -> Algorithm:
    """Return the four functions of PPO for discrete actions: init, initial_carry, act, update.

    Raises:
      InputError: if actions are not discrete.
    """
    if not isinstance(spec.action_space, Discrete):
        raise InputError(f"this PPO needs discrete actions; this environment's are {spec.action_space}")
    network = Network(spec.action_space.n)
    steps_per_update = config.num_epochs * config.num_minibatches
    num_updates = jnp.float32(config.total_timesteps) / config.steps_per_update
    share = lambda count: (count // steps_per_update).astype(jnp.float32) / num_updates  # fraction of the run
    decay = lambda count: config.learning_rate * jnp.maximum(1.0 - share(count), 0.0)
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(decay, eps=1e-5))

    def init(key: Array) -> Agent:
        params = network.init(key, spec.observation_space.zeros())
        return Agent(params, optimizer.init(params))

    def act(agent: Agent, carry: tuple, key: Array, observation: Array, explore: bool) -> tuple:
        log_probs, _ = evaluate(agent.params, observation)
        action = jax.random.categorical(key, log_probs) if explore else jnp.argmax(log_probs, -1)
        return action, carry, {"log_prob": chosen(log_probs, action)} if explore else ()

    def update(agent: Agent, key: Array, rollout: Rollout) -> tuple[Agent, dict[str, Array]]:
        samples = with_advantages(agent.params, rollout)
        samples = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples)  # [T B, ...]

        def epoch(agent: Agent, key: Array) -> tuple[Agent, dict[str, Array]]:
            order = jax.random.permutation(key, config.steps_per_update).reshape(config.num_minibatches, -1)
            return jax.lax.scan(descend, agent, jax.tree.map(lambda x: x[order], samples))

        agent, metrics = jax.lax.scan(epoch, agent, jax.random.split(key, config.num_epochs))
        return agent, jax.tree.map(jnp.mean, metrics)

    def with_advantages(params: Any, rollout: Rollout) -> Sample:
        value = evaluate(params, rollout.observation)[1]
        next_value = evaluate(params, rollout.next_observation)[1]  # the final observation if the episode ended
        next_value = jnp.where(rollout.terminated, 0.0, next_value)  # a time limit is not a termination
        error = rollout.reward + config.discount * next_value - value
        decay = jnp.where(rollout.done, 0.0, config.discount * config.gae_lambda)

        def back(later: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
            advantage = step[0] + step[1] * later
            return advantage, advantage

        _, advantage = jax.lax.scan(back, jnp.zeros_like(error[0]), (error, decay), reverse=True)
        return Sample(
            observation=rollout.observation,
            action=rollout.action,
            log_prob=rollout.extras["log_prob"],
            advantage=advantage,
            target=advantage + value,
        )

    def descend(agent: Agent, batch: Sample) -> tuple[Agent, dict[str, Array]]:
        gradient, metrics = jax.grad(loss, has_aux=True)(agent.params, batch)
        step, opt_state = optimizer.update(gradient, agent.opt_state)
        return Agent(optax.apply_updates(agent.params, step), opt_state), metrics

    def loss(params: Any, batch: Sample) -> tuple[Array, dict[str, Array]]:
        log_probs, value = evaluate(params, batch.observation)
        ratio = jnp.exp(chosen(log_probs, batch.action) - batch.log_prob)
        advantage = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
        clipped = jnp.clip(ratio, 1 - config.clip_epsilon, 1 + config.clip_epsilon)
        policy_loss = -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
        value_loss = jnp.mean((value - batch.target) ** 2) / 2
        entropy = -jnp.mean(jnp.sum(jnp.exp(log_probs) * log_probs, -1))
        total = policy_loss + config.value_coefficient * value_loss - config.entropy_coefficient * entropy
        return total, {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}

    def evaluate(params: Any, observation: Array) -> tuple[Array, Array]:
        result: Any = network.apply(params, observation)
        return result[0], result[1]

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


def chosen(log_probs: Array, action: Array) -> Array:
    """Return the log-probability of each action, f32[...]."""
    return jnp.take_along_axis(log_probs, action[..., None], -1)[..., 0]


def main(words: list[str] | None = None) -> np.ndarray:
    """Train all seeds in one program and return the curves f32[seeds, points]."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--env", default="CartPole-v1", help="an environment with discrete actions")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=float, default=200_000, help="environment steps of each seed")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    args = parser.parse_args(words)
    config = PPOConfig(learning_rate=args.learning_rate)
    train = purerl.make_train(ppo, purerl.make(args.env), config, int(args.steps), num_points=10)
    start = time.perf_counter()
    _, metrics = jax.jit(jax.vmap(train))(jax.random.split(jax.random.key(0), args.seeds))
    curves = np.asarray(metrics.episodes["episode_return"])
    for point in range(curves.shape[1]):
        print(f"{(point + 1) * 10}% of the steps: return {np.nanmean(curves[:, point]):.1f}")
    print(f"{args.seeds} seeds in {time.perf_counter() - start:.1f} s, compilation included")
    return curves


if __name__ == "__main__":
    main()
