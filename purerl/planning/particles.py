"""Particles: simulated futures of a state, weighted by their advantages and resampled along the way.

Source: Macfarlane et al. (2024), arXiv:2402.07963; systematic resampling: Kitagawa (1996), doi:10.2307/1390750.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from purerl.types import Array, Key, PyTree, TimeStep
from purerl.wrappers.situations import Situation


class ParticlePolicy(Protocol):
    """The policy of the particles."""

    def __call__(self, observation: PyTree, /) -> Any:
        """Return the distribution of actions [n] at observations [n, ...]."""
        ...


class ParticleValue(Protocol):
    """The value function of the particles."""

    def __call__(self, observation: PyTree, /) -> Array:
        """Return V(s), f32[n], of observations [n, ...]."""
        ...


class ParticleStep(Protocol):
    """The environment's model for one particle."""

    def __call__(self, key: Key, situation: Situation, action: PyTree, /) -> TimeStep:
        """Return the time step after an action of the policy; its observation is the next `Situation`."""
        ...


class Particles(NamedTuple):
    """N particles for each of B environments, as B x N rows."""

    situation: Situation  # the current one
    value: Array  # f32, of that
    done: Array  # bool, the episode has ended: the particle stays
    first: PyTree  # the first action, as the policy sampled it
    gain: Array  # f32, the sum of the advantages since the last resampling


def imagine(
    key: Key,
    situation: Situation,
    *,
    policy: ParticlePolicy,
    value: ParticleValue,
    step: ParticleStep,
    temperature: Array,
    config: Any,
) -> tuple[PyTree, Array]:
    """Simulate `config.depth` actions of N particles from each of B situations.

    The gain of a particle is the sum of r + discount V(s') - V(s). Every `config.resampling_period` actions the
    particles are resampled by softmax(gain / temperature), and the gains restart at 0.

    Args:
      key: for actions, a stochastic model and the resampling.
      situation: [B, ...].
      policy: observation [n, ...] -> distribution [n].
      value: observation [n, ...] -> f32[n].
      step: (key, situation, action) -> the next time step.
      temperature: f32[].
      config: has `num_particles` N, `depth`, `resampling_period` and `discount`.

    Returns:
      (the first actions of the particles [B, N, ...], their gains in each of K periods f32[B, K, N]).
    """
    num, length = config.num_particles, config.resampling_period
    start = _start(key, situation, num, policy=policy, value=value)

    def act(before: Particles, inputs: tuple[Key, Array]) -> tuple[Particles, None]:
        key, number = inputs
        key_action, key_step = jax.random.split(key)
        action = policy(before.situation.observation).sample(seed=key_action)
        timestep = jax.vmap(step)(jax.random.split(key_step, before.done.shape[0]), before.situation, action)
        first = jax.tree.map(lambda new, old: jnp.where(number == 0, new, old), action, before.first)
        after = value(timestep.observation.observation)
        return _advanced(before, timestep, after, config.discount)._replace(first=first), None

    def period(particles: Particles, inputs: tuple[Key, Array]) -> tuple[Particles, Array]:
        keys, k = inputs
        particles = _resampled(keys[0], particles, num, temperature=temperature, keep=k == 0)
        each = jax.random.split(keys[1], length), jnp.arange(length) + k * length
        particles, _ = jax.lax.scan(act, particles, each)
        return particles, particles.gain.reshape(-1, num)

    periods = config.depth // length
    particles, gain = jax.lax.scan(period, start, (jax.random.split(key, (periods, 2)), jnp.arange(periods)))
    first = jax.tree.map(lambda x: x.reshape(-1, num, *x.shape[1:]), particles.first)
    return first, jnp.moveaxis(gain, 0, 1)


def _start(key: Key, situation: Situation, num: int, *, policy: ParticlePolicy, value: ParticleValue) -> Particles:
    """Return `num` particles at each of B situations, before their first actions; the key is for shapes only."""
    rows = jax.tree.map(lambda x: jnp.repeat(x, num, axis=0), situation)
    action = jax.eval_shape(lambda: policy(rows.observation).sample(seed=key))
    first_value = value(rows.observation)
    return Particles(
        situation=rows,
        value=first_value,
        done=jnp.zeros_like(first_value, bool),
        first=jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), action),
        gain=jnp.zeros_like(first_value),
    )


def _resampled(key: Key, particles: Particles, num: int, *, temperature: Array, keep: Array) -> Particles:
    """Return the particles that survive, with gains of 0; all of them if `keep` is true."""
    weight = particles.gain.reshape(-1, num) / temperature
    index = jnp.where(keep, jnp.arange(num, dtype=jnp.int32), survivors(key, weight))
    rows = index + num * jnp.arange(len(weight), dtype=jnp.int32)[:, None]
    particles = jax.tree.map(lambda x: x[rows.ravel()], particles)
    return particles._replace(gain=jnp.zeros_like(particles.gain))


def _advanced(before: Particles, timestep: TimeStep, value: Array, discount: Array) -> Particles:
    """Return the particles after a time step to situations with these values f32[B x N], except their first actions."""
    next_value = jnp.where(timestep.terminated, 0.0, value)
    next_value = jnp.where(before.done, before.value, next_value)
    advantage = timestep.reward + discount * next_value - before.value
    return before._replace(
        situation=timestep.observation,
        value=next_value,
        done=before.done | timestep.done,
        gain=before.gain + jnp.where(before.done, 0.0, advantage),
    )


def survivors(key: Key, log_weight: Array) -> Array:
    """Return the particles that survive systematic resampling, i32[B, N], with one random number for all N.

    Particle n survives floor or ceil of N w_n times; equal weights keep every particle.

    Args:
      key: for the random numbers.
      log_weight: f32[B, N].
    """
    batch, num = log_weight.shape
    upper = jnp.cumsum(jax.nn.softmax(log_weight), axis=-1)
    at = (jnp.arange(num, dtype=jnp.float32) + jax.random.uniform(key, (batch, 1))) / num
    return jnp.minimum(jax.vmap(jnp.searchsorted)(upper, at), num - 1).astype(jnp.int32)


def heaviest(first: PyTree, weight: Array) -> Array:
    """Return the particle whose first action has the largest total weight, i32[B]; equal actions add up.

    Args:
      first: [B, N, ...], first actions.
      weight: f32[B, N].
    """
    flat = [x.reshape(*weight.shape, -1) for x in jax.tree.leaves(first)]
    same = [jnp.all(x[:, :, None] == x[:, None], axis=-1) for x in flat]
    total = jnp.sum(jnp.where(jnp.all(jnp.stack(same), axis=0), weight[:, None], 0.0), axis=-1)
    return jnp.argmax(total, axis=-1).astype(jnp.int32)
