"""The learning part of the algorithms' suite: trains on all probes in parallel in one program."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError
from purerl.loop.trainer import Trainer
from purerl.prng import fast
from purerl.testing.probes import LADDER, STATES, Probe, Rung
from purerl.testing.report import Check
from purerl.testing.trainers import make_trainer
from purerl.testing.trees import difference, host
from purerl.types import AlgorithmFactory, Array, Config, Key, PyTree

WALK = 3  # greedy steps from each state
EXAMPLE = LADDER[2]  # the probe of the other checks
DECISIVE = 0.05  # choices whose values differ by less are both right


def check_learning(
    algorithm: AlgorithmFactory,
    config: Config,
    key: Key,
    kind: str,
    name: str,
    num_seeds: int,
    solo: PyTree | None,
) -> list[Check]:
    """Train on every probe with every seed, all in one vmapped program, and compare the greedy choices."""
    num_updates = int(config.total_timesteps) // config.steps_per_update
    example = make_trainer(algorithm, LADDER[0].environment(kind), config)
    recurrent = bool(jax.tree.leaves(jax.eval_shape(lambda: example.algorithm.initial_carry(1))))
    rungs = [rung for rung in LADDER if recurrent or not rung.recurrent]
    members = [rung for rung in rungs for _ in range(num_seeds)]
    envs = jax.tree.map(lambda *xs: jnp.stack(xs), *[rung.environment(kind) for rung in members])
    discounts = jnp.array([rung.discount for rung in members])
    alone = rungs.index(EXAMPLE) * num_seeds  # the member that was also run separately
    keys = jnp.stack([key if i == alone else jax.random.fold_in(key, i) for i in range(len(members))])

    state = _advance(algorithm, config, discounts, envs, _init_members(algorithm, config, discounts, envs, keys), 3)
    checks = []
    if solo is not None and config.discount == EXAMPLE.discount:
        found = difference(host(jax.tree.map(lambda x: x[alone], state.agent)), solo, 1e-2)
        if found is not None:
            raise InputError(f"{name}: vmapped over seeds, settings and environments it differs in agent{found}")
        checks.append(Check("vmapped runs equal single runs"))
    state = _advance(algorithm, config, discounts, envs, state, num_updates - 3)
    chosen, visited = host(_walk(algorithm, config, discounts, envs, state.agent))
    for i, rung in enumerate(rungs):
        members_of_rung = slice(i * num_seeds, (i + 1) * num_seeds)
        checks.append(_judge(rung, chosen[members_of_rung], visited[members_of_rung], f"{name} with {kind} actions"))
    return checks


def _trainer(algorithm: AlgorithmFactory, config: Config, discount: Array, env: Probe) -> Trainer:
    return make_trainer(algorithm, env, dataclasses.replace(config, discount=discount))


@partial(jax.jit, static_argnums=0)
@partial(jax.vmap, in_axes=(None, None, 0, 0, 0))
def _init_members(algorithm: AlgorithmFactory, config: Config, discount: Array, env: Probe, key: Key) -> PyTree:
    return _trainer(algorithm, config, discount, env).init(key)


@partial(jax.jit, static_argnums=0)
@partial(jax.vmap, in_axes=(None, None, 0, 0, 0, None))
def _advance(
    algorithm: AlgorithmFactory, config: Config, discount: Array, env: Probe, state: PyTree, updates: int
) -> PyTree:
    step = _trainer(algorithm, config, discount, env).step
    return jax.lax.fori_loop(0, updates, lambda _, state: step(state)[0], state)


@partial(jax.jit, static_argnums=0)
@partial(jax.vmap, in_axes=(None, None, 0, 0, 0))
def _walk(
    algorithm: AlgorithmFactory, config: Config, discount: Array, env: Probe, agent: PyTree
) -> tuple[Array, Array]:
    """Act greedily for a few steps from every state.

    Returns:
      (choices i32[WALK, S], states they were made in i32[WALK, S], -1 after an ending).
    """
    algo = _trainer(algorithm, config, discount, env).algorithm
    state, carry = jnp.arange(STATES, dtype=jnp.int32), algo.initial_carry(STATES)
    running = jnp.ones(STATES, jnp.bool_)
    rows = []
    for _ in range(WALK):
        action, carry, _ = algo.act(agent, carry, fast(jax.random.key(0)), env.observation[state], False)
        choice = env.choice(action)
        rows.append((choice, jnp.where(running, state, -1)))
        running = running & ~env.terminated[state, choice] & ~env.truncated[state, choice]
        state = env.next_state[state, choice]
    chosen, visited = zip(*rows, strict=True)
    return jnp.stack(chosen), jnp.stack(visited)


def _judge(rung: Rung, chosen: np.ndarray, visited: np.ndarray, name: str) -> Check:
    """Compare greedy choices [seeds, WALK, S] with the best ones, on walks from the episodes' first states."""
    best, gap = rung.best()
    starts = sorted(rung.start)
    chosen, visited = chosen[..., starts], visited[..., starts]
    wrong = (visited >= 0) & (gap[visited] > DECISIVE) & (chosen != best[visited])
    right = int((~wrong.any(axis=(1, 2))).sum())
    if 2 * right <= len(chosen):
        seed, time, walk = np.argwhere(wrong)[0]
        raise InputError(
            f"{name} does not learn the probe '{rung.name}' ({right} of {len(chosen)} seeds): in state "
            f"{visited[seed, time, walk]} it prefers choice {chosen[seed, time, walk]}. Likely: {rung.isolates}"
        )
    return Check(f"learns the probe '{rung.name}'", f"{right} of {len(chosen)} seeds")
