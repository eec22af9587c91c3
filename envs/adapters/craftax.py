"""Craftax: open-ended survival and crafting, as `craftax/NAME`."""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl.envs.adapters import common
from purerl.fields import validate
from purerl.spaces import Discrete, Space
from purerl.types import Environment, Key, PyTree, TimeStep, number, pytree, static

_NAMES = ("Craftax-Symbolic-v1", "Craftax-Pixels-v1", "Craftax-Classic-Symbolic-v1", "Craftax-Classic-Pixels-v1")
_NEVER = np.iinfo(np.int32).max


@pytree
class CraftaxEnvironment(Environment):
    """An environment of Craftax, stepped by its own `step_env`; its time limit is distinguished from a death.

    `info` holds Craftax's achievements at an episode's end, 100 where one was reached, so that their mean over episodes
    is a rate in percent. The first pixel environment writes a cache of textures next to Craftax's own files.

    Source: Matthews et al. (2024), arXiv:2402.16801.
    """

    name: str = static(doc="Craftax's id")
    options: Any = static(default=(), doc="Craftax's static parameters, such as the size of the map")
    params: Any = number(doc="Craftax's parameters: all may be traced")
    time_limit: int = number(default=10_000, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start an episode in a new world."""
        with common.standard_promotion():
            observation, state = _build(self.name, self.options).env.reset_env(key, self._params)
            return common.settle(state), common.settle(observation)

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Advance by one action."""
        env = _build(self.name, self.options).env
        with common.standard_promotion():
            observation, after, reward, done, info = env.step_env(key, state, action, self._params)
            terminated = common.flag(env.is_terminal(after, self.params.replace(max_timesteps=_NEVER)))
            info = {name: common.scalar(value) for name, value in info.items() if name != "discount"}
            after, observation = common.settle(after), common.settle(observation)
            return after, TimeStep.transition(
                observation, common.scalar(reward), terminated=terminated, time_up=common.flag(done), info=info
            )

    @property
    def _params(self) -> PyTree:
        return self.params.replace(max_timesteps=self.time_limit)

    @property
    def observation_space(self) -> Space:
        """f32 in 0 .. 1: a vector, or an image of [height, width, 3]."""
        return _build(self.name, self.options).observation_space

    @property
    def action_space(self) -> Discrete:
        """Craftax's actions; those that are impossible do nothing."""
        return Discrete(n=int(_build(self.name, self.options).env.num_actions))


class CraftaxSetup(NamedTuple):
    """A Craftax object and the data derived from it."""

    env: Any
    observation_space: Space


def make(name: str, **parameters: Any) -> CraftaxEnvironment:
    """Return a Craftax environment.

    Args:
      name: Craftax's id, such as "Craftax-Classic-Symbolic-v1".
      **parameters: `time_limit`, fields of Craftax's `EnvParams` (leaves, which may be traced) and of its
        `StaticEnvParams`.

    Raises:
      InputError: for an unknown name or parameter, naming the nearest.
    """
    what = f"craftax/{name}"
    common.check_name("craftax", name, names())
    default = common.build(what, lambda: _build(name, ())).env
    params = default.default_params
    fields = set(type(params).__dataclass_fields__) - {"max_timesteps"}
    shapes = set(type(default.static_env_params).__dataclass_fields__)
    common.check_parameters(what, parameters, fields | shapes | {"time_limit"})
    options = common.freeze(what, {k: v for k, v in parameters.items() if k in shapes})
    common.build(what, lambda: _build(name, options))
    time_limit = parameters.get("time_limit", params.max_timesteps)
    params = params.replace(**{k: v for k, v in parameters.items() if k in fields})
    env = CraftaxEnvironment(name=name, options=options, params=params, time_limit=time_limit)
    validate(env, what)
    return env


def names() -> list[str]:
    """Return Craftax's ids."""
    return list(_NAMES)


@functools.cache
def _build(name: str, options: common.Options) -> CraftaxSetup:
    with common.building():
        from craftax.craftax_env import make_craftax_env_from_name  # pyright: ignore[reportMissingImports]

        env = make_craftax_env_from_name(name, auto_reset=False)
        if options:
            env = type(env)(env.default_static_params().replace(**common.thaw(options)))
        observation = jax.eval_shape(env.reset_env, jax.random.key(0), env.default_params)[0]
    return CraftaxSetup(env, common.box(observation, 0.0, 1.0))
