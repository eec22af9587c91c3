"""Replays that always give the same batch, and networks as an oracle sees them."""

import jax
import jax.numpy as jnp

from purerl.networks.critics import critics
from purerl.networks.squashed_policy import SquashedPolicy
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Rollout


def batch(key, size, discount, action=None):
    """Return transitions of two numbers, with one action in [-2, 6] unless others are given."""
    draw = lambda i, *shape: jax.random.normal(jax.random.fold_in(key, i), (size, *shape))
    inside = jax.random.uniform(jax.random.fold_in(key, 3), (size, 1), jnp.float32, -2.0, 6.0)
    return Transitions(
        observation=draw(0, 2),
        action=inside if action is None else action,
        reward=draw(1),
        next_observation=draw(2, 2),
        discount=jnp.full(size, discount),
        weight=jnp.ones(size),
        start=jnp.arange(size, dtype=jnp.int32),
    )


def fixed(batch):
    """Return a replay that gives that batch."""
    return Replay(
        init=lambda: (),
        add=lambda state, rollout: state,
        sample=lambda state, key: batch,
        update=lambda state, drawn, error: state,
    )


def rollout(action=None):
    """Return a rollout of 8 steps of 4 environments, which a fixed replay does not look at."""
    never, zeros = jnp.zeros((8, 4), bool), jnp.zeros((8, 4, 2))
    return Rollout(
        observation=zeros,
        action=jnp.zeros((8, 4, 1)) if action is None else action,
        reward=jnp.ones((8, 4)),
        terminated=never,
        truncated=never,
        next_observation=zeros,
        carry=(),
        extras=(),
    )


def critic_outputs(spec, config, num, outputs=None):
    """Return (params, batch) -> outputs of the critics for the batch's actions."""
    networks = critics(spec.observation_space, 1, config, num=num, outputs=outputs)
    return lambda params, batch: networks.apply(params, batch.observation, (batch.action - 2.0) / 4.0)


ACTION = 0.3  # action of the known policy, before tanh


class KnownPolicy:
    """A distribution with one sample, whose log-probabilities have both signs; without it tests depend on keys."""

    def __init__(self, params, observation):
        self.observation = observation

    def sample(self, seed):
        """Return the action, for any key."""
        return jnp.full((*self.observation.shape[:-1], 1), ACTION)

    def log_prob(self, sample):
        """Return what depends on the observation alone."""
        return log_probs(self.observation)


def log_probs(observation):
    """Return the known policy's log-probabilities."""
    return 2.0 * observation[..., 0] - 0.2


def know_policy(monkeypatch):
    """Let every squashed policy be the known one."""
    monkeypatch.setattr(SquashedPolicy, "distribution", lambda self, params, seen: KnownPolicy(params, seen))


def known_outputs(spec, config, num, outputs=None):
    """Return (params, observation) -> outputs of the critics for the known policy's actions."""
    networks = critics(spec.observation_space, 1, config, num=num, outputs=outputs)
    action = lambda seen: jnp.full((*seen.shape[:-1], 1), jnp.tanh(ACTION))
    return lambda params, observation: networks.apply(params, observation, action(observation))
