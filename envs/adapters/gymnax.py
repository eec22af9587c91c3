"""gymnax: classic control, MinAtar, bsuite and small puzzles, as `gymnax/NAME`."""

import functools
import inspect
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from purerl.envs.adapters import common
from purerl.errors import InputError, told
from purerl.fields import validate
from purerl.spaces import Dict, Discrete, Space
from purerl.types import Environment, Key, PyTree, TimeStep, number, pytree, static


@pytree
class GymnaxEnvironment(Environment):
    """An environment of gymnax, stepped by its own `step_env`, without its automatic resets.

    Source: Lange (2022), https://github.com/RobertTLange/gymnax.
    """

    name: str = static(doc="gymnax's id")
    options: Any = static(default=(), doc="arguments of its constructor")
    params: Any = number(doc="gymnax's parameters: all may be traced")
    time_limit: int = number(default=1000, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start an episode by gymnax's `reset_env`."""
        with common.standard_promotion():
            observation, state = _build(self.name, self.options).reset_env(key, self._params)
            return common.settle(state), common.settle(observation)

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Advance by gymnax's `step_env`; its time limit is distinguished from other endings."""
        env = _build(self.name, self.options)
        with common.standard_promotion():
            observation, state, reward, terminated, _ = env.step_env(key, state, action, self._params)
            terminated = common.flag(terminated)
            time_up, reward = common.flag(env.is_truncated(state, self._params)), common.scalar(reward)
            state, observation = common.settle(state), common.settle(observation)
            return state, TimeStep.transition(observation, reward, terminated=terminated, time_up=time_up)

    @property
    def _params(self) -> PyTree:
        return self.params.replace(max_steps_in_episode=self.time_limit)

    @property
    def observation_space(self) -> Space:
        """gymnax's bounds, with the actual dtypes."""
        env = _build(self.name, self.options)
        if self.name in _WITHOUT_BOUNDS:
            return common.space_of(self._observation)
        return _convert(_concrete(env.observation_space, self._params), self._observation)

    @property
    def action_space(self) -> Space:
        """gymnax's action space."""
        env = _build(self.name, self.options)
        space = _concrete(env.action_space, self._params)
        return _convert(space, None)

    @property
    def _observation(self) -> PyTree:
        return jax.eval_shape(self.reset, jax.random.key(0))[1]


@pytree
class CustomGymnaxEnvironment(Environment):
    """An environment object with gymnax's interface, stepped by its own `step_env`, without its automatic resets.

    gymnax's environments before 1.0 end an episode at its time limit as if the task were over. Here an ending counts as
    a termination only if it comes without the time limit, too.
    """

    suite: Any = static(doc="the object, as `common.Given`")
    params: Any = number(doc="its parameters: all may be traced")
    time_limit: Any = number(default=None, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[common.Timed, PyTree]:
        """Start an episode by the object's `reset_env`."""
        with common.standard_promotion():
            observation, state = self.suite.env.reset_env(key, self._params(self.time_limit))
            return common.Timed(common.settle(state), jnp.int32(0)), common.settle(observation)

    def step(self, key: Key, state: common.Timed, action: PyTree) -> tuple[common.Timed, TimeStep]:
        """Advance by the object's `step_env`."""
        move, time = self.suite.env.step_env, state.time + 1
        with common.standard_promotion():
            observation, after, reward, over, _ = move(key, state.suite, action, self._params(self.time_limit))
            ended = over
            if _limited(self.params):  # XLA drops the rest of the second step
                ended = move(key, state.suite, action, self._params(np.iinfo(np.int32).max))[3]
            late = jnp.bool_(False) if self.time_limit is None else time >= self.time_limit
            step = TimeStep.transition(
                common.settle(observation),
                common.scalar(reward),
                terminated=common.flag(ended),
                time_up=common.flag(over) | common.flag(late),
            )
        return common.Timed(common.settle(after), time), step

    def _params(self, limit: object) -> PyTree:
        if limit is None or not _limited(self.params):
            return self.params
        return self.params.replace(max_steps_in_episode=limit)

    @property
    def observation_space(self) -> Space:
        """The object's bounds, with the actual dtypes."""
        seen = jax.eval_shape(self.reset, jax.random.key(0))[1]
        return _convert(_concrete(self.suite.env.observation_space, self.params), seen)

    @property
    def action_space(self) -> Space:
        """The object's action space."""
        return _convert(_concrete(self.suite.env.action_space, self.params), None)


def _kind() -> type:
    with common.building():
        from gymnax.environments.environment import Environment
    return Environment


def from_gymnax(env: Any, params: Any = None, time_limit: int | None = None) -> CustomGymnaxEnvironment:
    """Return an environment object with gymnax's interface as an environment.

    Args:
      env: an environment of gymnax, or your own subclass of its `Environment`.
      params: its parameters; None: its `default_params`. They may be traced.
      time_limit: steps after which an episode is truncated; None: `max_steps_in_episode` of the parameters, if they
        have it.

    Returns:
      The environment.

    Raises:
      InputError: if the object or the parameters are something else.

    Example:
      >>> import gymnax
      >>> import purerl
      >>> env, params = gymnax.make("CartPole-v1")
      >>> purerl.from_gymnax(env, params).observation_space.shape
      (4,)
    """
    common.check_kind("gymnax", env, _kind, "gymnax.make('CartPole-v1')[0]")
    params = env.default_params if params is None else params
    if not isinstance(params, kind := type(env.default_params)):
        raise InputError(f"params is {told(params)}; the parameters of {type(env).__name__} are a {kind.__name__}")
    if time_limit is None and _limited(params):
        time_limit = params.max_steps_in_episode
    made = CustomGymnaxEnvironment(suite=common.Given(env), params=params, time_limit=time_limit)
    validate(made, type(env).__name__)
    return made


def _limited(params: PyTree) -> bool:
    return hasattr(params, "max_steps_in_episode") and hasattr(params, "replace")


# where gymnax states bounds that its own observations leave
_WITHOUT_BOUNDS = (
    "MemoryChain-bsuite",
    "UmbrellaChain-bsuite",
    "BernoulliBandit-misc",
    "GaussianBandit-misc",
    "MetaMaze-misc",
)


def make(name: str, **parameters: Any) -> GymnaxEnvironment:
    """Return a gymnax environment.

    Args:
      name: gymnax's id, such as "CartPole-v1".
      **parameters: `time_limit`, fields of gymnax's `EnvParams` (leaves, which may be traced) and arguments of the
        environment's constructor (static).

    Raises:
      InputError: for an unknown name or parameter, naming the nearest.
    """
    what = f"gymnax/{name}"
    common.check_name("gymnax", name, names())
    suite_env, params = common.build(what, lambda: _import().make(name))
    fields = set(type(params).__dataclass_fields__) - {"max_steps_in_episode"}
    signature = inspect.signature(type(suite_env).__init__).parameters.values()
    arguments = {p.name for p in signature if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"}
    common.check_parameters(what, parameters, fields | arguments | {"time_limit"})
    options = common.freeze(what, {k: v for k, v in parameters.items() if k in arguments})
    params = common.build(what, lambda: _build(name, options)).default_params
    params = params.replace(**{k: v for k, v in parameters.items() if k in fields})
    time_limit = parameters.get("time_limit", params.max_steps_in_episode)
    env = GymnaxEnvironment(name=name, options=options, params=params, time_limit=time_limit)
    validate(env, what)
    return env


def names() -> list[str]:
    """Return gymnax's ids."""
    return list(_import().registered_envs)


def _import() -> ModuleType:
    with common.building():  # importing gymnax makes arrays, and so starts JAX's backend
        import gymnax
    return gymnax


@functools.cache
def _build(name: str, options: common.Options) -> Any:
    with common.building():
        return _import().make(name, **common.thaw(options))[0]


def _concrete(space: Any, params: Any) -> Any:
    """Return the space with concrete bounds, even inside a trace, unless the parameters are traced."""
    traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(params))
    with common.standard_promotion():
        if traced:
            return space(params)
        with jax.ensure_compile_time_eval():
            return space(params)


def _convert(space: object, struct: PyTree) -> Space:
    """Return gymnax's space as ours; `struct` holds the actual dtypes, None: those that it states."""
    from gymnax.environments import spaces

    match space:
        case spaces.Discrete():
            return Discrete(n=int(space.n))
        case spaces.Box():
            stated = jax.ShapeDtypeStruct(tuple(space.shape), space.dtype)
            return common.box(struct if struct is not None else stated, space.low, space.high)
        case spaces.Dict():
            parts = {k: _convert(part, None if struct is None else struct[k]) for k, part in space.spaces.items()}
            return Dict(spaces=parts)
    raise InputError(f"gymnax: a space of kind {type(space).__name__} cannot be used here")
