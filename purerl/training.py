"""The functions that users call: they resolve names and put extensions around the loop."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from purerl import registry, trust
from purerl.errors import InputError, kind_of
from purerl.host_environment import HostSource, not_inside_jit
from purerl.loop import train
from purerl.loop.evaluate import MAX_STEPS, Evaluation
from purerl.loop.extension import Extension
from purerl.loop.metrics import TrainMetrics
from purerl.loop.pieces import check_count, check_key, check_pieces
from purerl.loop.trainer import Trainer, TrainState
from purerl.settings.extensions import wraps
from purerl.settings.runs import settings
from purerl.types import AlgorithmFactory, Config, Environment, Key, PyTree


def make_trainer(
    algorithm: AlgorithmFactory | str,
    env: Environment | HostSource | str,
    config: Config | None = None,
    extensions: Mapping[Extension | str, object] = MappingProxyType({}),
) -> Trainer:
    """Return the trainer of an algorithm on an environment: a run, update by update.

    `trainer.init(key)` returns a `TrainState`; `trainer.step(state)` returns the next one and the update's metrics.

    Args:
      algorithm: (spec, config) -> Algorithm, such as `ppo`, or its name.
      env: an environment from `purerl.make` or your own, or its name; the fields of a JAX environment may be traced.
      config: the algorithm's settings, by default those in configs/; for a JAX environment, its numbers may be traced.
      extensions: options by extension, such as {"levels": LevelOptions(levels="plr")}, or {my_extension: MyOptions()}.

    Returns:
      The trainer, with `init`, `step` and `evaluate`.

    Raises:
      InputError: for a name that does not exist, or extensions that exclude each other.

    Example:
      >>> import jax
      >>> import purerl
      >>> trainer = purerl.make_trainer("ppo", "Catch")
      >>> state, metrics = jax.eval_shape(trainer.step, jax.eval_shape(trainer.init, jax.random.key(0)))
      >>> "approx_kl" in metrics.algorithm
      True
    """
    factory, task, settled = _objects(algorithm, env, config)
    check_pieces(factory, task, settled)
    return train.make_trainer(factory, task, settled, wraps(task, settled, extensions))


def make_train(
    algorithm: AlgorithmFactory | str,
    env: Environment | HostSource | str,
    config: Config | None = None,
    total_timesteps: int | None = None,
    num_points: int | None = None,
    extensions: Mapping[Extension | str, object] = MappingProxyType({}),
) -> Callable[[Key], tuple[TrainState, TrainMetrics]]:
    """Return a complete run as one pure function: key -> (state, metrics), each metric f32[num_updates].

    `jax.jit(train)(key)` trains one agent, `jax.jit(jax.vmap(train))(keys)` as many as there are keys.
    `jax.jit(train, compiler_options=purerl.backend.compiler_options())` turns each update into one launch on a GPU, and
    on a CPU avoids a library that is slow for some sums.

    Args:
      algorithm, env, config, extensions: as for `make_trainer`.
      total_timesteps: environment steps, rounded down to a multiple of an update; by default `config.total_timesteps`.
        It also sets the horizon of the config's schedules.
      num_points: return metrics f32[num_points] instead, for a run of any length: `MetricsSum.means` of the updates
        between two points. `purerl.loop.train.curve_points` returns the updates at these points.

    Returns:
      The function of a PRNG key.

    Raises:
      InputError: for a host environment, for less than one rollout, or for more points than updates.

    Example:
      >>> import jax
      >>> import purerl
      >>> train = purerl.make_train("ppo", "Catch", total_timesteps=5_000, num_points=2)
      >>> state, metrics = jax.eval_shape(train, jax.random.key(0))
      >>> metrics.episodes["episode_return"].shape
      (2,)
    """
    factory, task, settled = _objects(algorithm, env, config)
    if isinstance(task, HostSource):
        raise not_inside_jit(task, "make_train")
    check_pieces(factory, task, settled)
    around = wraps(task, settled, extensions)
    return train.make_train(
        factory, task, settled, total_timesteps=total_timesteps, num_points=num_points, wraps=around
    )


def _objects(
    algorithm: Any, env: Environment | HostSource | str, config: Config | None
) -> tuple[AlgorithmFactory, Any, Any]:
    """Return (factory, environment, config) for arguments given by name or as objects."""
    if config is not None and not isinstance(algorithm, str) and not isinstance(env, str):
        return algorithm, env, config  # whose numbers may be traced
    trust.typed(algorithm, env)
    run = settings(algorithm, env, {}, config=config)
    env = registry.environment(run.environment, run.parameters) if run.env is None else run.env
    return run.make_algorithm(), env, run.config


def evaluate(
    trainer: Trainer,
    agent: PyTree,
    key: Key,
    num_episodes: int = 128,
    max_steps: int = MAX_STEPS,
    explore: bool = False,
) -> Evaluation:
    """Play `num_episodes` episodes in parallel, one per environment, from new resets.

    Playing a fixed number of episodes to their end gives long and short ones the same weight.

    Args:
      trainer: from `make_trainer`.
      agent: `state.agent` of a `TrainState`.
      key: the PRNG key of the resets and of the environment's randomness.
      num_episodes: number of episodes.
      max_steps: number of steps after which an episode is cut off.
      explore: act as in training instead of greedily; not for host environments.

    Returns:
      The returns and lengths of the episodes, f32[num_episodes] and int32[num_episodes].

    Raises:
      InputError: if an argument has another type, or the agent has several seeds.

    Example:
      >>> import jax
      >>> import purerl
      >>> trainer = purerl.make_trainer("ppo", "Catch")
      >>> agent = trainer.init(jax.random.key(0)).agent
      >>> purerl.evaluate(trainer, agent, jax.random.key(1), num_episodes=4).episode_return.shape
      (4,)
    """
    if not callable(getattr(trainer, "evaluate", None)) or not hasattr(trainer, "algorithm"):
        raise InputError(f"trainer is {kind_of(trainer)}; it must be from purerl.make_trainer, or the trainer of a run")
    check_key(key, "the episodes draw theirs from it")
    num_episodes, max_steps = check_count(num_episodes, "num_episodes"), check_count(max_steps, "max_steps")
    _check_agent(trainer, agent, key)
    return trainer.evaluate(agent, key, num_episodes, max_steps, explore)


def _check_agent(trainer: Trainer, agent: PyTree, key: Key) -> None:
    """Check that an agent has the shapes of the trainer's."""
    wanted, given = (jax.tree.flatten(tree) for tree in (jax.eval_shape(trainer.algorithm.init, key), agent))
    if wanted[1] != given[1]:
        raise InputError(f"agent is {kind_of(agent)}; it must be `state.agent` of the trainer's `TrainState`")
    shapes = [(x.shape, np.shape(y)) for x, y in zip(wanted[0], given[0], strict=True)]
    if all(y[1:] == x and y[:1] == shapes[0][1][:1] for x, y in shapes) and len(shapes[0][1]) > len(shapes[0][0]):
        raise InputError(
            f"agent has a leading axis of {shapes[0][1][0]}: take one of them, jax.tree.map(lambda x: x[0], agent), or "
            "vmap evaluate over them"
        )
    wrong = next(((x, y) for x, y in shapes if x != y), None)
    if wrong is not None:
        raise InputError(f"agent holds an array of shape {wrong[1]} where this trainer's agents have {wrong[0]}")
