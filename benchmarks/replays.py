"""The time to sample a batch from a uniform and from a prioritized replay and to update its errors, in turn."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import purerl
from benchmarks import tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import in_turn, ratios, spread
from purerl.prng import fast
from purerl.replay.prioritized import prioritized
from purerl.replay.uniform import Replay, uniform
from purerl.types import EnvironmentSpec, Rollout

BATCHES = 200  # per timed call
SIZES = ((10_000, 1), (1_000_000, 1), (1_000_000, 4))  # steps stored, seeds
COLUMNS = tables.columns("steps held: count; seeds: count; uniform: number; prioritized: number; ratio: ratio")


def measure(request: Request) -> Table:
    """Return the microseconds per batch of 256 of CartPole's steps."""
    rows = []
    for capacity, seeds in SIZES:
        timed = in_turn([replay_call(kind, capacity, seeds) for kind in (uniform, prioritized)], request.runs)
        even, priority = ([s / BATCHES / seeds * 1e6 for s in seconds] for seconds in timed)
        rows.append([capacity, seeds, spread(even), spread(priority), ratios(priority, even)])
    return Table(title="A batch of 256 drawn from a replay and updated, microseconds", columns=COLUMNS, rows=rows)


def replay_call(kind: Callable[..., Replay], capacity: int, seeds: int) -> Callable[[], Any]:
    """Return a call that draws and updates batches, one after the other, of full replays of CartPole's steps."""
    env = purerl.make("CartPole-v1")
    spec = EnvironmentSpec(observation_space=env.observation_space, action_space=env.action_space)
    replay = kind(spec, capacity, 10, 256)
    length = capacity // 20 - 1
    zeros, seen = jnp.zeros((length, 10)), jnp.ones((length, 10, 4))
    steps = Rollout(
        observation=seen,
        action=zeros.astype(jnp.int32),
        reward=zeros + 1.0,
        terminated=zeros > 0,
        truncated=zeros > 0,
        next_observation=seen,
        extras=(),
        carry=(),
    )

    def once(carry: tuple[Any, jax.Array], key: jax.Array) -> tuple[tuple[Any, jax.Array], None]:
        state, total = carry
        batch = replay.sample(state, key)
        state = replay.update(state, batch, jnp.abs(batch.reward) + 0.1)
        parts = (batch.observation, batch.next_observation, batch.reward, batch.weight)
        return (state, total + sum((jnp.sum(part) for part in parts), jnp.float32(0))), None

    def many(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        return jax.lax.scan(once, (state, jnp.float32(0)), jax.random.split(fast(key), BATCHES))[0]

    keys = jax.random.split(jax.random.key(0), seeds)
    held = [jax.jit(jax.vmap(lambda key: replay.add(replay.add(replay.init(), steps), steps)))(keys)]
    advance = jax.jit(jax.vmap(many), donate_argnums=0)

    def call() -> jax.Array:
        held[0], total = advance(held[0], keys)
        return total

    return call
