"""What drawing a batch and giving its errors back costs, uniformly and by priority, in turn."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import purerl
from benchmarks.tables import Table
from benchmarks.timing import in_turn, ratios, spread
from purerl.prng import fast
from purerl.replay.prioritized import prioritized
from purerl.replay.uniform import Replay, uniform
from purerl.types import EnvironmentSpec, Rollout

BATCHES = 200  # per timed call
SIZES = ((10_000, 1), (1_000_000, 1), (1_000_000, 4))  # steps held, seeds
COLUMNS = [("steps held", "count"), ("seeds", "count"), ("uniform", "number"), ("prioritized", "number")]


def measure(runs: int) -> Table:
    """Return the microseconds per batch of 256 of CartPole's steps."""
    rows = []
    for capacity, seeds in SIZES:
        timed = in_turn([replay_call(kind, capacity, seeds) for kind in (uniform, prioritized)], runs)
        even, priority = ([s / BATCHES / seeds * 1e6 for s in seconds] for seconds in timed)
        rows.append([capacity, seeds, spread(even), spread(priority), ratios(priority, even)])
    return Table("A batch of 256 drawn from a replay and updated, microseconds", [*COLUMNS, ("ratio", "ratio")], rows)


def replay_call(kind: Callable[..., Replay], capacity: int, seeds: int) -> Callable[[], Any]:
    """Return a call that draws and updates batches, one after the other, of full replays of CartPole's steps."""
    env = purerl.make("CartPole-v1")
    memory = kind(EnvironmentSpec(env.observation_space, env.action_space), capacity, 10, 256)
    length = capacity // 20 - 1
    zeros, seen = jnp.zeros((length, 10)), jnp.ones((length, 10, 4))
    steps = Rollout(seen, zeros.astype(jnp.int32), zeros + 1.0, zeros > 0, zeros > 0, seen, (), ())

    def once(carry: tuple[Any, jax.Array], key: jax.Array) -> tuple[tuple[Any, jax.Array], None]:
        state, total = carry
        batch = memory.sample(state, key)
        state = memory.update(state, batch, jnp.abs(batch.reward) + 0.1)
        parts = (batch.observation, batch.next_observation, batch.reward, batch.weight)
        return (state, total + sum((jnp.sum(part) for part in parts), jnp.float32(0))), None

    def many(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        return jax.lax.scan(once, (state, jnp.float32(0)), jax.random.split(fast(key), BATCHES))[0]

    keys = jax.random.split(jax.random.key(0), seeds)
    held = [jax.jit(jax.vmap(lambda key: memory.add(memory.add(memory.init(), steps), steps)))(keys)]
    advance = jax.jit(jax.vmap(many), donate_argnums=0)

    def call() -> jax.Array:
        held[0], total = advance(held[0], keys)
        return total

    return call
