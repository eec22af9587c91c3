"""The suite of algorithms for combined features: trained agents in other runs, leaving agents, counters, failures."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import KeyPath

from purerl.errors import InputError
from purerl.loop.train import CompiledTrainer, collect
from purerl.settings.extensions import rows
from purerl.testing.probes import Probe
from purerl.testing.report import Check
from purerl.testing.trainers import make_trainer
from purerl.testing.trees import difference, host
from purerl.types import AlgorithmFactory, Array, Config, PyTree

UPDATES = 4
LIMIT = np.iinfo(np.int32).max
COUNTERS = ("num_updates", "num_gradient_steps", "rollouts", "added", "count", "steps")  # names that count without end
HORIZON = 1e13  # environment steps: an annealed learning rate has not fallen when the counters are at their limit


def check_meetings(algorithm: AlgorithmFactory, config: Config, env: Probe, state: PyTree, name: str) -> list[Check]:
    """Check an algorithm in combinations of features.

    Args:
      algorithm, config, name: as for `check_algorithm`.
      env: a probe.
      state: the state after training on the probe.

    Raises:
      InputError: for the first problem.
    """
    return [
        _check_counters(algorithm, config, env, state, name),
        _check_failed_seed(algorithm, config, env, state, name),
        _check_every_step(algorithm, config, env, state, name),
        *[check for row in rows() if row.checks is not None for check in row.checks(algorithm, config, env, name)],
    ]


@partial(jax.jit, static_argnums=0)
def _steps(algorithm: AlgorithmFactory, config: Config, envs: Probe, states: PyTree) -> PyTree:
    """Return the states of several seeds after UPDATES updates, each in its own environment."""

    def some(env: Probe, state: PyTree) -> PyTree:
        trainer = make_trainer(algorithm, env, config)
        return jax.lax.fori_loop(0, UPDATES, lambda _, state: trainer.step(state)[0], state)

    return jax.vmap(some)(envs, states)


def _stack(trees: list[PyTree]) -> PyTree:
    return jax.tree.map(lambda *xs: jnp.stack(xs), *trees)


def _check_counters(algorithm: AlgorithmFactory, config: Config, env: Probe, state: PyTree, name: str) -> Check:
    """Continue from counters just below 2^31, three times in parallel: parameters change and stay finite."""
    config = dataclasses.replace(config, total_timesteps=HORIZON)

    def late(path: KeyPath, leaf: Array) -> Array:
        last = jax.tree_util.keystr(path[-1:]).strip(".[]'\"") if path else ""
        counts = leaf.dtype == jnp.int32 and leaf.ndim == 0 and last in COUNTERS
        return jnp.int32(LIMIT - 1) if counts else leaf

    agent = jax.tree_util.tree_map_with_path(late, state.agent)
    envs = _stack([env] * 3)
    at_limit = _steps(algorithm, config, envs, _stack([state._replace(agent=agent)] * 3))
    beyond = _steps(algorithm, config, envs, at_limit)
    moved = False
    for path, (old, new) in _numbers_of(at_limit.agent, beyond.agent).items():
        if not np.isfinite(new).all():
            raise InputError(f"{name}: past 2^31 updates agent{path} is not finite")
        moved |= "replay" not in path and not np.array_equal(old, new)
    if not moved:
        raise InputError(f"{name}: past 2^31 updates nothing is learned any more")
    return Check("continues to learn after 2^31 updates")


def _check_failed_seed(algorithm: AlgorithmFactory, config: Config, env: Probe, state: PyTree, name: str) -> Check:
    """Give one of three seeds NaN rewards, and check that the others learn exactly the same."""
    broken = dataclasses.replace(env, reward=jnp.full_like(env.reward, jnp.nan))
    states = _stack([state] * 3)
    clean = host(_steps(algorithm, config, _stack([env, env, env]), states).agent)
    mixed = host(_steps(algorithm, config, _stack([env, broken, env]), states).agent)
    for seed in (0, 2):
        found = difference(*(jax.tree.map(lambda x, s=seed: x[s], agent) for agent in (clean, mixed)))
        if found is not None:
            raise InputError(f"{name}: a seed whose rewards are NaN changes another seed's agent{found}")
    return Check("a failed seed does not change the others")


def _check_every_step(algorithm: AlgorithmFactory, config: Config, env: Probe, state: PyTree, name: str) -> Check:
    """Check that the reward of every step affects learning, except for steps that a replay happens not to sample."""
    if hasattr(state.agent, "replay"):
        return Check("learns from every step", "skipped for a replay, which samples")
    trainer = make_trainer(algorithm, env, config)
    assert isinstance(trainer, CompiledTrainer)

    @jax.jit
    def learned(state: PyTree) -> PyTree:
        _, rollout = collect(trainer.algorithm, trainer.vector, state, jax.random.key(2), config.rollout_length)
        update = lambda reward: trainer.algorithm.update(
            state.agent, jax.random.key(3), rollout._replace(reward=reward)
        )[0]
        more = jnp.eye(config.rollout_length + 1)[:, :-1, None]  # one more at each step in turn, and nowhere
        return jax.vmap(update)(rollout.reward + more)

    agents = host(learned(state))
    of = lambda t: jax.tree.map(lambda x: x[t], agents)
    for t in range(config.rollout_length):
        if difference(of(t), of(-1)) is None:
            raise InputError(f"{name}: nothing is learned from step {t} of a rollout of {config.rollout_length}")
    return Check("learns from every step")


def _numbers_of(one: PyTree, other: PyTree) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the pairs of floating leaves by path."""
    pairs = zip(jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True)
    floats = ((path, x, y) for (path, x), y in pairs if jnp.issubdtype(x.dtype, jnp.inexact))
    return {jax.tree_util.keystr(path): (np.asarray(x), np.asarray(y)) for path, x, y in floats}
