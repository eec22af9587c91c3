"""Particles: futures that set out from one state, are weighed on the way and drawn anew by their weights.

Source: Macfarlane et al. (2024), arXiv:2402.07963; systematic resampling: Kitagawa (1996), doi:10.2307/1390750.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.types import Array, Key, PyTree, TimeStep
from purerl.wrappers.situations import Situation


class Particles(NamedTuple):
    """B x N futures, N rows for each environment."""

    situation: Situation  # where each of them is
    value: Array  # f32, of there
    over: Array  # bool, the episode has ended: nothing follows
    first: PyTree  # the draw of its first action
    gain: Array  # f32, the sum of its advantages since the last resampling


def imagine(
    key: Key,
    situation: Situation,
    *,
    policy: Callable[[PyTree], Any],
    value: Callable[[PyTree], Array],
    step: Callable[[Key, Situation, PyTree], TimeStep],
    temperature: Array,
    config: Any,
) -> tuple[PyTree, Array]:
    """Let N particles set out from each of B situations and act `config.depth` times.

    A particle gains r + discount V(s') - V(s) at each action. Every `config.resampling_period` of them, particles are
    drawn anew by softmax(gain / temperature), and gain anew.

    Args:
      key: for draws, for what is random in the environment, and for the resampling.
      situation: [B, ...].
      policy: observation [n, ...] -> distribution [n].
      value: observation [n, ...] -> f32[n].
      step: (key, situation, draw of the policy) -> the time step that follows, whose observation is a situation.
      temperature: f32[].
      config: has `num_particles` N, `depth`, `resampling_period` and `discount`.

    Returns:
      (draws of the particles' first actions [B, N, ...], their gains in each period f32[B, K, N]).
    """
    num, length = config.num_particles, config.resampling_period
    rows = jax.tree.map(lambda x: jnp.repeat(x, num, axis=0), situation)
    first = jax.eval_shape(lambda: policy(rows.observation).sample(seed=key))
    at_first = value(rows.observation)
    begun = Particles(
        situation=rows,
        value=at_first,
        over=jnp.zeros_like(at_first, bool),
        first=jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), first),
        gain=jnp.zeros_like(at_first),
    )
    offset = num * jnp.arange(len(at_first) // num, dtype=jnp.int32)[:, None]

    def act(particles: Particles, inputs: tuple[Key, Array]) -> tuple[Particles, None]:
        (key, number), before = inputs, particles
        key_draw, key_step = jax.random.split(key)
        draw = policy(before.situation.observation).sample(seed=key_draw)
        keys = jax.random.split(key_step, before.over.shape[0])
        timestep = jax.vmap(step)(keys, before.situation, draw)
        following = jnp.where(timestep.terminated, 0.0, value(timestep.observation.observation))
        after = jnp.where(before.over, before.value, following)
        advantage = timestep.reward + config.discount * after - before.value
        particles = Particles(
            situation=timestep.observation,
            value=after,
            over=before.over | timestep.done,
            first=jax.tree.map(lambda new, old: jnp.where(number == 0, new, old), draw, before.first),
            gain=before.gain + jnp.where(before.over, 0.0, advantage),
        )
        return particles, None

    def period(particles: Particles, inputs: tuple[Key, Array]) -> tuple[Particles, Array]:
        keys, k = inputs
        drawn = survivors(keys[0], particles.gain.reshape(-1, num) / temperature)
        kept = jnp.where(k > 0, drawn, jnp.arange(num, dtype=jnp.int32)) + offset
        particles = jax.tree.map(lambda x: x[kept.ravel()], particles)
        particles = particles._replace(gain=jnp.zeros_like(particles.gain))
        each = jax.random.split(keys[1], length), jnp.arange(length) + k * length
        particles, _ = jax.lax.scan(act, particles, each)
        return particles, particles.gain.reshape(-1, num)

    periods = config.depth // length
    particles, gain = jax.lax.scan(period, begun, (jax.random.split(key, (periods, 2)), jnp.arange(periods)))
    first = jax.tree.map(lambda x: x.reshape(-1, num, *x.shape[1:]), particles.first)
    return first, jnp.moveaxis(gain, 0, 1)


def survivors(key: Key, log_weight: Array) -> Array:
    """Draw which particles go on, i32[B, N], by systematic resampling of log weights f32[B, N], one draw for all N.

    Particle n goes on floor or ceil of N w_n times; equal weights keep every particle.
    """
    batch, num = log_weight.shape
    upper = jnp.cumsum(jax.nn.softmax(log_weight), axis=-1)
    at = (jnp.arange(num, dtype=jnp.float32) + jax.random.uniform(key, (batch, 1))) / num
    return jnp.minimum(jax.vmap(jnp.searchsorted)(upper, at), num - 1).astype(jnp.int32)


def heaviest(first: PyTree, weight: Array) -> Array:
    """Return the particle whose first action weighs most, i32[B], of draws [B, N, ...]; equal actions add up."""
    flat = [x.reshape(*weight.shape, -1) for x in jax.tree.leaves(first)]
    same = [jnp.all(x[:, :, None] == x[:, None], axis=-1) for x in flat]
    together = jnp.sum(jnp.where(jnp.all(jnp.stack(same), axis=0), weight[:, None], 0.0), axis=-1)
    return jnp.argmax(together, axis=-1).astype(jnp.int32)
