"""Reset states: four policies of when to compute them, so that the cost does not grow with unneeded resets.

Episode e of environment i starts from `reset(renew(fold_in(key[i], e)))`. So "prefetch" and "always" give the same
run, bit for bit, and no reset state is used twice. The policies:

    prefetch one reset per environment is computed ahead; when a used one is needed again, all are renewed. That happens
             once in the shortest episode's length: CartPole's resets cost a tenth of "always"
    always   a reset is computed for every environment at every step, and used where an episode ends; no branch
    auto     "prefetch" on a CPU; elsewhere "always", where leaving a compiled graph costs more than a small reset. An
             expensive reset (a physics engine's) is better prefetched everywhere
    pool     resets are sampled from `pool_size` of them that were computed once: cheap for any reset, but they repeat
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.prng import renew
from purerl.types import Array, Key, PyTree
from purerl.xla import backend
from purerl.xla.vmap_cond import any_member

Reset = Callable[[Key], PyTree]  # keys [n] -> the resets of n environments, [n, ...]
POLICIES = ("auto", "prefetch", "always", "pool")


class Resets(NamedTuple):
    """The resets of the coming episodes. A reset is the result of `Environment.reset`, or a part of it."""

    key: Key  # [B], determines them all
    episode: Array  # i32[B], the number of the running episode
    prefetched: PyTree  # [B, ...], computed ahead for the next episode; None for "always"
    used: Array | None  # bool[B], whether it was used already; None for "always"
    pool: PyTree  # [P, ...], the resets to sample from; None except for "pool"


def create(reset: Reset, num_envs: int, key: Key, policy: str, pool_size: int) -> tuple[Resets, PyTree]:
    """Return (resets, the resets of the first episodes [B, ...])."""
    if policy == "auto":
        policy = "prefetch" if backend.branches_are_cheap() else "always"
    pool = None
    if policy == "pool":
        key, key_pool = jax.random.split(key)
        pool = reset(jax.random.split(key_pool, pool_size))
    episode = jnp.zeros(num_envs, jnp.int32)
    resets = Resets(key=jax.random.split(key, num_envs), episode=episode, prefetched=None, used=None, pool=pool)
    first = _compute(reset, resets, episode)
    if policy == "always":
        return resets, first
    return resets._replace(prefetched=first, used=jnp.ones(num_envs, jnp.bool_)), first


def take(reset: Reset, resets: Resets, done: Array) -> tuple[Resets, PyTree]:
    """Return (resets, the resets [B, ...] to use where an episode ended, bool[B])."""
    next_episode = resets.episode + 1
    episode = jnp.where(done, next_episode, resets.episode)
    if resets.used is None:
        return resets._replace(episode=episode), _compute(reset, resets, next_episode)
    prefetched, used = jax.lax.cond(
        any_member(done & resets.used),
        lambda _: (_compute(reset, resets, next_episode), jnp.zeros_like(done)),
        lambda unchanged: unchanged,
        (resets.prefetched, resets.used),
    )
    return resets._replace(episode=episode, prefetched=prefetched, used=used | done), prefetched


def _compute(reset: Reset, resets: Resets, episode: Array) -> PyTree:
    """Return the resets of these episodes, i32[B]: [B, ...]."""
    keys = jax.vmap(lambda key, number: renew(jax.random.fold_in(key, number)))(resets.key, episode)
    # The barrier keeps XLA from computing the keys again for every number of a reset state.
    keys = jax.lax.optimization_barrier(keys)
    if resets.pool is None:
        return reset(keys)

    def one(key: Key) -> PyTree:
        row = jax.random.randint(key, (), 0, jax.tree.leaves(resets.pool)[0].shape[0])
        return jax.tree.map(lambda x: x[row], resets.pool)

    return jax.vmap(one)(keys)
