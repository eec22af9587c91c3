"""Your own network in PPO and DQN, in one file. `python scripts/custom_network.py --steps 100000`.

A Flax module maps observations [N, ...] to features f32[N, n]; each algorithm adds its own heads.
"""

import argparse
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

import purerl
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.ppo import PPOConfig, ppo


class Residual(nn.Module):
    """Residual blocks with layer normalization."""

    size: int = 64
    depth: int = 2

    @nn.compact
    def __call__(self, observation: jax.Array) -> jax.Array:
        """Return f32[N, size]."""
        x = nn.Dense(self.size)(observation.reshape(observation.shape[0], -1))
        for _ in range(self.depth):
            x = x + nn.Dense(self.size)(nn.silu(nn.Dense(self.size)(nn.LayerNorm()(x))))
        return nn.silu(x)


def main(words: list[str] | None = None) -> dict[str, float]:
    """Train PPO and DQN with the network, and return the mean return over the last tenth of each run."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--steps", type=float, default=100_000, help="environment steps of each agent")
    args = parser.parse_args(words)
    env: Any = purerl.make(args.env)
    returns: dict[str, float] = {}
    algorithms: dict[str, Any] = {
        "ppo": (partial(ppo, network=Residual()), PPOConfig(learning_rate=1e-3)),
        "dqn": (partial(dqn, network=Residual(depth=1)), DQNConfig(learning_starts=1_000)),
    }
    for name, (algorithm, config) in algorithms.items():
        train = purerl.make_train(algorithm, env, config, int(args.steps), num_points=10)
        state, metrics = jax.jit(train)(jax.random.key(0))
        size = sum(x.size for x in jax.tree.leaves(state.agent.params))
        returns[name] = float(jnp.nanmean(metrics.episodes["episode_return"][-1]))
        print(f"{name}: {size:,} parameters, return {returns[name]:.1f}")
    return returns


if __name__ == "__main__":
    main()
