"""The settings of a pool: the environment, its time limit, and EnvPool's options."""

import dataclasses
from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from purerl import agent_groups, registry
from purerl.errors import InputError, unknown
from purerl.pool import infos, spaces
from purerl.spaces import Dict, Space
from purerl.types import Environment, PyTree
from purerl.wrappers import ActionRepeat, TimeLimit
from purerl.wrappers.base import Wrapper

OUTPUTS = ("numpy", "jax")
SOLVED = {"CartPole": 475.0, "MountainCar": -110.0, "MountainCarContinuous": 90.0, "Acrobot": -100.0}  # in Gymnasium


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolConfig:
    """Settings of a pool; those that EnvPool also has use EnvPool's names and defaults."""

    num_envs: int = 1
    batch_size: int = 0  # environments that one `recv` returns; 0: all
    seed: int = 42  # environment i gets seed + i
    env_seed: tuple[int, ...] = ()  # or a seed for each
    max_episode_steps: int | None = None  # None: the environment has no limit that is known
    max_num_players: int = 1
    num_threads: int = 0  # no effect, accepted for EnvPool's scripts: XLA has its own threads
    thread_affinity_offset: int = -1  # no effect
    gym_reset_return_info: bool = True  # no effect
    base_path: str = ""  # no effect
    reward_threshold: float | None = None  # None: what Gymnasium's registry says of the environment
    render_mode: str | None = None  # "rgb_array" for `render`
    render_env_id: int = 0
    output: str = "numpy"  # "numpy": arrays of the caller's own; "jax": they stay on the device, for dlpack or jit
    strict_envpool: bool = False  # reproduce EnvPool where ours is right: an ending on the limit's step is truncated

    @staticmethod
    def of(env: Environment, given: dict[str, Any]) -> "PoolConfig":
        """Return the settings for an environment.

        Raises:
          InputError: for an unknown setting, or one that cannot be.
        """
        known = {field.name for field in dataclasses.fields(PoolConfig)}
        for name in given:
            if name not in known:
                raise unknown("setting of a pool", name, known)
        known_to_gymnasium = {"max_episode_steps": limit_of(env), "reward_threshold": SOLVED.get(type(env).__name__)}
        given = known_to_gymnasium | {k: v for k, v in given.items() if v is not None}
        if isinstance(given.get("seed"), Sequence | np.ndarray):
            given = given | {"seed": 0, "env_seed": tuple(int(s) for s in given["seed"])}
        config = PoolConfig(**given)
        config._check()
        return dataclasses.replace(config, batch_size=config.batch_size or config.num_envs)

    def _check(self) -> None:
        if self.num_envs < 1:
            raise InputError(f"num_envs is {self.num_envs}; it must be at least 1")
        if self.batch_size < 0:
            raise InputError(f"batch_size is {self.batch_size}; it must be at least 0, which means all of them")
        if self.batch_size > self.num_envs:
            raise InputError(f"batch_size {self.batch_size} is above num_envs {self.num_envs}; 0 means all of them")
        if self.env_seed and len(self.env_seed) != self.num_envs:
            raise InputError(f"seed lists {len(self.env_seed)} numbers for {self.num_envs} environments")
        if self.max_num_players != 1:
            raise InputError(f"max_num_players is {self.max_num_players}; pools of ours have one player")
        if self.render_mode not in (None, "rgb_array"):
            raise InputError(f"render_mode is '{self.render_mode}'; allowed: rgb_array")
        if self.output not in OUTPUTS:
            raise unknown("output", self.output, OUTPUTS)

    @property
    def seeds(self) -> np.ndarray:
        """i64[num_envs]."""
        return np.asarray(self.env_seed or [self.seed + i for i in range(self.num_envs)], np.int64)


OLD_IDS = {"CartPole-v0": ("CartPole-v1", {"time_limit": 200}), "Pendulum-v0": ("Pendulum-v1", {})}
# ids in scripts older than Gymnasium -> (today's id, the parameters that differ)


def make_environment(
    task: str | Environment, parameters: Mapping[str, object], max_episode_steps: int | None
) -> tuple[str, Environment]:
    """Return the id and one environment with the requested time limit; an id of `OLD_IDS` becomes the new id.

    Raises:
      InputError: for an unknown id or parameter, a host environment, one of several agents, or a limit below 1.
    """
    if isinstance(task, str):
        today, differs = OLD_IDS.get(task, (task, {}))
        name, env = task, registry.make(today, **differs | parameters)
    else:
        registry.check_environment(task)
        name, env = type(task).__name__, task
        if parameters:
            raise InputError(
                f"parameters only apply to an id; pass them to {name} when you make it: {', '.join(parameters)}"
            )
    if not isinstance(env, Environment):
        raise InputError(f"{name} already runs on the host: only JAX environments and envpool/NAME make a pool")
    if groups := agent_groups.sizes(env):
        raise InputError(
            f"pools support single-agent environments only; {name} has groups ({', '.join(groups)}): purerl.vectorize"
        )
    return name, _limited(env, max_episode_steps)


def _limited(env: Environment, max_episode_steps: int | None) -> Environment:
    """Return an environment that truncates after this many steps; None: after its own limit."""
    if max_episode_steps is None:
        return env
    if max_episode_steps < 1:
        raise InputError(f"max_episode_steps is {max_episode_steps}; it must be at least 1")
    if hasattr(env, "time_limit"):
        return dataclasses.replace(env, time_limit=max_episode_steps)  # type: ignore[type-var]
    if limit_of(env) is not None:
        return dataclasses.replace(env, env=_limited(env.env, max_episode_steps))  # type: ignore[attr-defined]
    return TimeLimit(env, time_limit=max_episode_steps)


def limit_of(env: Environment) -> int | None:
    """Return the number of steps after which an environment truncates; None if that is not known."""
    if isinstance(env, Wrapper) and not hasattr(env, "time_limit"):
        return None if isinstance(env, ActionRepeat) else limit_of(env.env)
    limit = getattr(env, "time_limit", None)
    return None if limit is None else int(limit)


class ArraySpec:
    """A dtype, a shape and bounds, named as in EnvPool."""

    def __init__(self, dtype: Any, shape: tuple[int, ...], minimum: Any = None, maximum: Any = None):
        self.dtype, self.shape, self.minimum, self.maximum = np.dtype(dtype), list(shape), minimum, maximum

    def __repr__(self) -> str:
        return f"ArraySpec(shape={self.shape}, dtype={self.dtype}, minimum={self.minimum}, maximum={self.maximum})"


class PoolSpec:
    """A pool's spaces and settings, in the form of EnvPool's `make_spec`."""

    def __init__(self, task_id: str, env: Environment, settings: PoolConfig):
        """Describe the pool of `env`."""
        self.task_id, self.env, self.settings = task_id, env, settings

    @property
    def config(self) -> Any:
        """The settings as a named tuple."""
        fields = dataclasses.asdict(self.settings)
        return namedtuple("Config", fields)(**fields)

    @property
    def reward_threshold(self) -> float | None:
        """The mean return from which Gymnasium considers the environment solved; None if it defines none."""
        return self.settings.reward_threshold

    @property
    def observation_space(self) -> Any:
        """The Gymnasium space of one environment's observation."""
        return spaces.to_gymnasium(self.env.observation_space)

    @property
    def action_space(self) -> Any:
        """The Gymnasium space of one environment's action."""
        return spaces.to_gymnasium(self.env.action_space)

    gymnasium_observation_space = observation_space
    gymnasium_action_space = action_space

    def observation_spec(self) -> Any:
        """Return dm_env's specs of a time step's `observation`."""
        ids = {"env_id": spaces.id_spec(), "players": {"env_id": spaces.id_spec()}}
        told = {name: spaces.array_spec(struct, name) for name, struct in infos.structs(self.env).items()}
        return spaces.to_namedtuple("State", ids | {"obs": spaces.to_dm(self.env.observation_space, "obs")} | told)

    def action_spec(self) -> Any:
        """Return dm_env's spec of one environment's action."""
        return spaces.to_dm(self.env.action_space, "action")

    @property
    def state_array_spec(self) -> dict[str, ArraySpec]:
        """The dtype and shape of each array that `recv` returns."""
        fixed = {
            "info:env_id": ArraySpec(np.int32, ()),
            "info:players.env_id": ArraySpec(np.int32, (-1,)),
            "elapsed_step": ArraySpec(np.int32, ()),
            "done": ArraySpec(np.bool_, (), False, True),
            "reward": ArraySpec(np.float32, (-1,)),
            "discount": ArraySpec(np.float32, (-1,), 0.0, 1.0),
            "step_type": ArraySpec(np.int32, ()),
            "trunc": ArraySpec(np.bool_, (), False, True),
        }
        told = {f"info:{name}": ArraySpec(s.dtype, s.shape) for name, s in infos.structs(self.env).items()}
        return fixed | _array_specs("obs", self.env.observation_space.struct) | told

    @property
    def action_array_spec(self) -> dict[str, ArraySpec]:
        """The dtype, shape with an axis of players, and bounds of each array that `send` accepts."""
        last = self.settings.num_envs - 1
        ids = {"env_id": ArraySpec(np.int32, (), 0, last), "players.env_id": ArraySpec(np.int32, (-1,), 0, last)}
        return ids | _action_specs("action", self.env.action_space)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in dataclasses.asdict(self.settings).items())
        return f"PoolSpec({self.task_id}, {fields})"


def _array_specs(name: str, struct: PyTree) -> dict[str, ArraySpec]:
    if not isinstance(struct, dict):
        return {name: ArraySpec(struct.dtype, struct.shape)}
    found = {}
    for key, inner in struct.items():
        found |= _array_specs(f"{name}:{key}", inner)
    return found


def _action_specs(name: str, space: Space) -> dict[str, ArraySpec]:
    if isinstance(space, Dict):
        found = {}
        for key, inner in space.spaces.items():
            found |= _action_specs(f"{name}:{key}", inner)
        return found
    low, high = spaces.bounds(space)
    return {name: ArraySpec(space.struct.dtype, (-1, *space.struct.shape), low, high)}
