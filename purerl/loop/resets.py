"""Where episodes start: reset policies whose cost does not grow with what is not reset.

Episode e of environment i starts from `reset(renew(fold_in(key[i], e)))`. So "spare" and "always" give the same
run, bit for bit, and no start is used twice. What a policy decides is when starts are computed:

    spare    one start lies in reserve per environment; when one that was used up is needed again, all are renewed.
             That happens once in the shortest episode's length: CartPole's resets cost a tenth of "always"
    always   a start is computed for every environment at every step, and taken where an episode ends; no branch
    auto     "spare" on a CPU; elsewhere "always", where leaving a compiled graph costs more than a small reset. Where
             a reset is expensive (a physics engine's), "spare" is the better one everywhere
    pool     starts are drawn from `pool_size` of them that were computed once: cheap for any reset, but they repeat
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.prng import renew
from purerl.types import Array, Key, PyTree
from purerl.xla import backend
from purerl.xla.vmap_cond import any_lane

Reset = Callable[[Key], PyTree]
POLICIES = ("auto", "spare", "always", "pool")


class Starts(NamedTuple):
    """The starts of the episodes to come."""

    key: Key  # [B], determines them all
    episode: Array  # i32[B], the number of the running episode
    spare: PyTree  # [B, ...], what `reset` returned, in reserve for the next episode; None for "always"
    used: Array | None  # bool[B], whether it was used up; None for "always"
    pool: PyTree  # [P, ...], the starts to draw from; None but for "pool"


def create(reset: Reset, num_envs: int, key: Key, policy: str, pool_size: int) -> tuple[Starts, PyTree]:
    """Return (starts, what `reset` returns [B], of the first episodes)."""
    if policy == "auto":
        policy = "spare" if backend.name() == "cpu" else "always"
    pool = None
    if policy == "pool":
        key, key_pool = jax.random.split(key)
        pool = jax.vmap(reset)(jax.random.split(key_pool, pool_size))
    episode = jnp.zeros(num_envs, jnp.int32)
    starts = Starts(jax.random.split(key, num_envs), episode, None, None, pool)
    first = _start(reset, starts, episode)
    if policy == "always":
        return starts, first
    return starts._replace(spare=first, used=jnp.ones(num_envs, jnp.bool_)), first


def take(reset: Reset, starts: Starts, done: Array) -> tuple[Starts, PyTree]:
    """Return (starts, what `reset` returns [B], to go on from where an episode ended); `done` is bool[B]."""
    following = starts.episode + 1
    episode = jnp.where(done, following, starts.episode)
    if starts.used is None:
        return starts._replace(episode=episode), _start(reset, starts, following)
    spare, used = jax.lax.cond(
        any_lane(done & starts.used),
        lambda _: (_start(reset, starts, following), jnp.zeros_like(done)),
        lambda kept: kept,
        (starts.spare, starts.used),
    )
    return starts._replace(episode=episode, spare=spare, used=used | done), spare


def _start(reset: Reset, starts: Starts, episode: Array) -> PyTree:
    """Return what `reset` returns [B] for these episodes, i32[B]."""

    def start(key: Key) -> Any:
        if starts.pool is None:
            return reset(key)
        row = jax.random.randint(key, (), 0, jax.tree.leaves(starts.pool)[0].shape[0])
        return jax.tree.map(lambda x: x[row], starts.pool)

    keys = jax.vmap(lambda key, number: renew(jax.random.fold_in(key, number)))(starts.key, episode)
    # The barrier keeps XLA from computing the keys anew for every number of a start.
    return jax.vmap(start)(jax.lax.optimization_barrier(keys))
