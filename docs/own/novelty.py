"""An extension of your own: a bonus for observations that are new in an episode.

`purerl train ppo CartPole-v1 --extension novelty:novelty --novelty 0.1`
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from purerl import Extension, number, pytree, static
from purerl.wrappers import Wrapped, Wrapper


@pytree
class NoveltyOptions:
    """The options: each is a flag and a line of config.toml, and numbers can be swept."""

    novelty: float = number(default=0.0, doc="weight of the bonus; 0: none", at_least=0)
    novelty_bits: int = static(default=8, doc="bits of an observation's hash", at_least=1, at_most=16)


@pytree
class Novelty(Wrapper):
    """Adds weight / sqrt(n) to the reward where an observation's hash is seen for the n-th time in the episode."""

    keeps_state: ClassVar[bool] = True
    weight: Any = number(default=0.0, doc="of the bonus")
    bits: int = static(default=8, doc="of the hash")

    def reset(self, key):
        """Start an episode with empty counts."""
        state, observation = self.env.reset(key)
        counts = jnp.zeros(2**self.bits, jnp.int32)
        return Wrapped(state, counts.at[self._hash(observation)].add(1)), observation

    def step(self, key, state, action):
        """Step, count and add the bonus."""
        inner, step = self.env.step(key, state.inner, action)
        bucket = self._hash(step.observation)
        counts = state.outer.at[bucket].add(1)
        bonus = self.weight / jnp.sqrt(counts[bucket].astype(jnp.float32))
        return Wrapped(inner, counts), step._replace(reward=step.reward + bonus, info={**step.info, "bonus": bonus})

    def _hash(self, observation):
        """Return SimHash, i32[]: the signs of random projections."""
        flat = jnp.concatenate([jnp.ravel(x).astype(jnp.float32) for x in jax.tree.leaves(observation)])
        signs = flat @ jax.random.normal(jax.random.key(0), (flat.size, self.bits)) > 0
        return jnp.sum(jnp.where(signs, 2 ** jnp.arange(self.bits), 0), dtype=jnp.int32)


def wrap(make, options):
    """Return a maker of trainers whose environments pay the bonus."""
    paying = lambda env: Novelty(env, weight=options.novelty, bits=options.novelty_bits)
    return lambda algorithm, env, config: make(algorithm, paying(env), config)


novelty = Extension(name="novelty", options=NoveltyOptions, wrap=wrap)
