"""A network of your own: attention over the numbers of an observation. `purerl train attention:attentive_ppo ENV`."""

import flax.linen as nn
import jax.numpy as jnp

from purerl import Algorithm, EnvironmentSpec
from purerl.algos.ppo import PPOConfig, ppo


class Attention(nn.Module):
    """Each number of an observation f32[N, k] is a token; the features are f32[N, size]."""

    size: int = 32
    num_heads: int = 2

    @nn.compact
    def __call__(self, observation):
        """Return f32[N, size]: what stands below the policy's and the value's heads."""
        num_tokens = observation.shape[-1]
        place = self.param("place", nn.initializers.normal(0.5), (num_tokens, self.size))
        tokens = nn.Dense(self.size)(observation[..., None]) + place
        mixed = nn.MultiHeadDotProductAttention(num_heads=self.num_heads)(nn.LayerNorm()(tokens))
        return jnp.tanh(nn.Dense(self.size)((tokens + mixed).mean(axis=-2)))


def attentive_ppo(spec: EnvironmentSpec, config: PPOConfig) -> Algorithm:
    """Return PPO with this network; the annotation of `config` tells the command line the settings."""
    return ppo(spec, config, network=Attention())
