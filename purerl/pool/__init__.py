"""EnvPool's interface over every JAX environment: `purerl.pool.make("CartPole-v1", num_envs=64)`.

A script written for EnvPool (Weng et al. 2022, arXiv:2206.10558) gets the same shapes, dtypes, keys and reset timing:
auto-reset is next step, so the step that ends an episode returns the final observation, and the next step on that
environment ignores its action and returns the first observation of a new episode. One thing differs: a task that ends
on the step of the time limit is terminated here. `strict_envpool=True` restores EnvPool's way.

Example:
  >>> import numpy as np
  >>> import purerl
  >>> envs = purerl.pool.make("CartPole-v1", num_envs=2)
  >>> observation, info = envs.reset()
  >>> observation.shape
  (2, 4)
"""

import importlib
import importlib.util
from types import ModuleType
from typing import Any

from purerl.errors import InputError, install, unknown
from purerl.pool.config import OLD_IDS, PoolConfig, PoolSpec, make_environment
from purerl.types import Environment

ENV_TYPES = {
    "gymnasium": "purerl.pool.gymnasium_pool:GymnasiumPool",
    "gym": "purerl.pool.gymnasium_pool:GymnasiumPool",  # as in EnvPool 1.2, whose gym is gymnasium
    "vector": "purerl.pool.gymnasium_pool:VectorPool",
    "dm": "purerl.pool.dm_pool:DMPool",
}

__all__ = ["list_all_envs", "make", "make_dm", "make_gym", "make_gymnasium", "make_spec"]


def make(
    task_id: str | Environment, env_type: str = "gymnasium", *, parameters: dict[str, Any] | None = None, **config: Any
) -> Any:
    """Return a pool of environments.

    Args:
      task_id: an id of ours, "suite/NAME", or "module:Class"; "envpool/NAME" is handed on to the real EnvPool; or an
        environment, such as one in wrappers.
      env_type: whose conventions: "gymnasium" (and "gym") and "dm" are EnvPool's; "vector" is "gymnasium" with the
        batched spaces and the `reset(seed=...)` of a plain `gymnasium.vector.VectorEnv`.
      parameters: the environment's own, such as {"gravity": 12.0}.
      **config: the fields of `PoolConfig`: num_envs, batch_size, seed, max_episode_steps, ...

    Raises:
      InputError: for an unknown id or setting, or a missing package.
    """
    if env_type not in ENV_TYPES:
        raise unknown("env_type", env_type, ENV_TYPES)
    if isinstance(task_id, str) and task_id.startswith("envpool/"):
        return _real(task_id, env_type, parameters, config)
    name, env = make_environment(task_id, parameters or {}, config.get("max_episode_steps"))
    module, _, kind = ENV_TYPES[env_type].partition(":")
    if env_type == "dm" and importlib.util.find_spec("dm_env") is None:
        raise InputError(f"dm_env is not installed: {install('dm')}")
    return getattr(importlib.import_module(module), kind)(PoolSpec(name, env, PoolConfig.of(env, config)))


def make_gymnasium(task_id: str | Environment, **config: Any) -> Any:
    """Return a pool with Gymnasium's conventions; arguments as for `make`."""
    return make(task_id, "gymnasium", **config)


def make_gym(task_id: str | Environment, **config: Any) -> Any:
    """Return a pool with Gymnasium's conventions, which Gym has had since 0.26; arguments as for `make`."""
    return make(task_id, "gym", **config)


def make_dm(task_id: str | Environment, **config: Any) -> Any:
    """Return a pool with dm_env's conventions; arguments as for `make`."""
    return make(task_id, "dm", **config)


def make_spec(task_id: str | Environment, *, parameters: dict[str, Any] | None = None, **config: Any) -> Any:
    """Return the spaces and the config that a pool would have; arguments as for `make`."""
    if isinstance(task_id, str) and task_id.startswith("envpool/"):
        return _envpool().make_spec(_real_name(task_id), **config)
    name, env = make_environment(task_id, parameters or {}, config.get("max_episode_steps"))
    return PoolSpec(name, env, PoolConfig.of(env, config))


def list_all_envs() -> list[str]:
    """Return the native ids and their old names; `purerl list envs --suite SUITE` lists the ids of a suite."""
    from purerl import registry

    return [*registry.names(), *OLD_IDS]


def _real(task_id: str, env_type: str, parameters: dict[str, Any] | None, config: dict[str, Any]) -> Any:
    name = _real_name(task_id)
    if env_type == "vector":
        raise InputError(f"{task_id}: env_type 'vector' is for our own environments; allowed: dm, gym, gymnasium")
    size, batch = config.get("num_envs", 1), config.get("batch_size", 0)
    if batch > size:
        raise InputError(f"{task_id}: batch_size {batch} is above num_envs {size}")
    try:
        return _envpool().make(name, env_type="dm" if env_type == "dm" else "gymnasium", **config, **(parameters or {}))
    except (TypeError, ValueError, AssertionError) as error:
        raise InputError(f"{task_id}: EnvPool rejects these settings: {str(error) or 'out of range'}") from None


def _real_name(task_id: str) -> str:
    name = task_id.removeprefix("envpool/")
    known = _envpool().list_all_envs()
    if name not in known:
        raise unknown("environment of EnvPool", name, known)
    return name


def _envpool() -> ModuleType:
    if importlib.util.find_spec("envpool") is None:
        raise InputError(f"envpool is not installed: {install('envpool')}")
    return importlib.import_module("envpool")
