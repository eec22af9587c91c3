"""jumanji: combinatorial puzzles, packing, routing and games, as `jumanji/NAME`."""

import copy
import dataclasses
import functools
import inspect
import math
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.adapters import common
from purerl.errors import InputError
from purerl.fields import validate
from purerl.spaces import Dict, Discrete, MultiDiscrete, Space
from purerl.types import Array, Environment, Key, PyTree, TimeStep, number, pytree, static

_NEVER = np.iinfo(np.int32).max
_LIMIT_IN_REWARD = ("SearchAndRescue-v0",)  # rewards shrink to 0 toward the time limit
_LIMIT_IN_SHAPES = ("MMST-v0",)  # the state has a column per step
_NOWHERE = {"TSP-v1": ("position",)}  # fields that are -1 at the start, where jumanji states 0 .. n - 1


@pytree
class JumanjiEnvironment(Environment):
    """An environment of jumanji. One agent controls a team; its reward is the sum of theirs.

    The observation is a dict of jumanji's fields. "action_mask" bool[n] marks the legal actions: n is the number of
    actions, or the sum of the numbers of choices if each of several choices has a mask of its own. Choices that are
    masked jointly, such as Tetris's rotation and column, are one `Discrete` action. If jumanji continues although no
    action is legal, as FlatPack does, the mask allows all of them. `info` holds jumanji's scalar extras.

    jumanji mostly ends an episode at its time limit as if the task were over; here that is a truncation.

    Source: Bonnet et al. (2024), arXiv:2306.09884.
    """

    name: str = static(doc="jumanji's id")
    options: Any = static(default=(), doc="arguments of its constructor")
    time_limit: Any = number(default=None, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[common.Timed, PyTree]:
        """Start an episode; jumanji samples all its random numbers from a key in its state."""
        with common.standard_promotion():
            state, first = _build(self.name, self.options).env.reset(common.raw_key(key))
            return common.Timed(common.settle(state), jnp.int32(0)), self._observe(first.observation, jnp.bool_(False))

    def step(self, key: Key, state: common.Timed, action: PyTree) -> tuple[common.Timed, TimeStep]:
        """Advance by one action."""
        built = _build(self.name, self.options)
        env, time = built.env, state.time + 1
        out_of_time = jnp.bool_(False) if self.time_limit is None else time >= self.time_limit
        with common.standard_promotion():
            if self.name in _LIMIT_IN_REWARD:
                env = copy.copy(env)
                env.time_limit = self.time_limit
            after, step = env.step(state.suite, built.actions.to_suite(action))
            over = (step.step_type == 2) & (jnp.max(step.discount) == 0)
            if self.name in _LIMIT_IN_REWARD:
                over = jnp.all(after.targets.found)
            terminated = common.flag(over)
            time_up = common.flag(step.step_type == 2) | common.flag(out_of_time)
            info = {k: common.scalar(v) for k, v in step.extras.items() if jnp.ndim(v) == 0}
            after, reward = common.settle(after), common.scalar(jnp.sum(step.reward))
            observation = self._observe(step.observation, step.step_type == 2)
        return common.Timed(after, time), TimeStep.transition(
            observation, reward, terminated=terminated, time_up=time_up, info=info
        )

    def _observe(self, observation: PyTree, last: Array) -> PyTree:
        parts = common.settle(_as_dict(observation))
        if "action_mask" in parts:
            mask = parts["action_mask"]
            several = isinstance(self.action_space, MultiDiscrete)
            some = jnp.any(mask, axis=-1, keepdims=True) if several else jnp.any(mask)
            parts["action_mask"] = (mask | ~(some | last)).reshape(-1)
        return parts

    @property
    def observation_space(self) -> Dict:
        """A dict of jumanji's fields."""
        return _build(self.name, self.options).observation_space

    @property
    def action_space(self) -> Space:
        """Discrete, MultiDiscrete or a Box with one axis."""
        return _build(self.name, self.options).actions.space


class Actions(NamedTuple):
    """The conversion of our actions to jumanji's."""

    space: Space
    shape: tuple[int, ...]  # shape of jumanji's action
    dtype: Any
    choices: tuple[int, ...]  # numbers of choices that are masked jointly, () if they are not

    def to_suite(self, action: Array) -> Array:
        """Return jumanji's action."""
        if self.choices:
            action = jnp.stack(jnp.unravel_index(action, self.choices))
        return action.reshape(self.shape).astype(self.dtype)


class JumanjiSetup(NamedTuple):
    """A jumanji object and the data derived from it."""

    env: Any
    time_limit: int | None  # its own default
    actions: Actions
    observation_space: Dict


def make(name: str, **parameters: Any) -> JumanjiEnvironment:
    """Return a jumanji environment.

    Args:
      name: jumanji's id, such as "Snake-v1".
      **parameters: `time_limit` and arguments of the environment's constructor (static), such as num_rows or a
        generator object.

    Raises:
      InputError: for an unknown name or parameter, naming the nearest.
    """
    what = f"jumanji/{name}"
    common.check_name("jumanji", name, names())
    with common.building():
        cls = _import().registration.load(_import().registration._REGISTRY[name].entry_point)
    arguments = set(inspect.signature(cls.__init__).parameters) - {"self", "viewer"}
    common.check_parameters(what, parameters, arguments | {"time_limit"})
    shaping = {k: v for k, v in parameters.items() if k != "time_limit" or name in _LIMIT_IN_SHAPES}
    options = common.freeze(what, shaping, objects=True)
    built = common.build(what, lambda: _build(name, options))
    time_limit = parameters.get("time_limit", built.time_limit)
    env = JumanjiEnvironment(name=name, options=options, time_limit=time_limit)
    validate(env, what)
    return env


def from_jumanji(env: Any, time_limit: int | None = None) -> JumanjiEnvironment:
    """Return an environment object of jumanji, such as a subclass of its `Environment`, as an environment.

    Args:
      env: the object, without the wrappers of jumanji, which reset automatically.
      time_limit: steps after which an episode is truncated; None: the object's own limit.

    Returns:
      The environment.

    Raises:
      InputError: if the object is something else.

    Example:
      >>> import jumanji
      >>> import purerl
      >>> purerl.from_jumanji(jumanji.make("Snake-v1")).action_space.n
      4
    """
    common.check_kind("jumanji", env, lambda: _import().env.Environment, "jumanji.make('Snake-v1')")
    from jumanji.wrappers import Wrapper

    if isinstance(env, Wrapper):
        raise InputError(f"the environment has jumanji's {type(env).__name__}; pass env.unwrapped")
    name, given = type(env).__name__, common.Given(env)
    built = common.build(name, lambda: _build(name, given))
    made = JumanjiEnvironment(
        name=name, options=given, time_limit=built.time_limit if time_limit is None else time_limit
    )
    validate(made, name)
    return made


def names() -> list[str]:
    """Return jumanji's ids. Sokoban downloads its levels when it is created."""
    return sorted(_import().registered_environments())


def _import() -> ModuleType:
    with common.building():  # importing jumanji makes arrays, and so starts JAX's backend
        import jumanji
    return jumanji


@functools.cache
def _build(name: str, options: common.Options | common.Given) -> JumanjiSetup:
    with common.building():
        given = isinstance(options, common.Given)
        env = copy.copy(options.env) if given else _import().make(name, **common.thaw(options))
        first = _as_dict(jax.eval_shape(env.reset, jax.random.PRNGKey(0))[1].observation)
        mask = first.get("action_mask")
        actions = _actions(env.action_spec, None if mask is None else mask.shape)
        if mask is not None:
            first["action_mask"] = jax.ShapeDtypeStruct((math.prod(mask.shape),), jnp.bool_)
        spaces = {k: _space(env.observation_spec[k], part, k) for k, part in first.items()}
        for field in _NOWHERE.get(name, ()):
            spaces[field] = common.box(first[field], -1, int(env.observation_spec[field].num_values) - 1)
    time_limit = getattr(env, "time_limit", None)
    if time_limit is not None and name not in _LIMIT_IN_REWARD:
        env.time_limit = _NEVER  # the adapter keeps the time, to distinguish a termination from a time limit
    return JumanjiSetup(env=env, time_limit=time_limit, actions=actions, observation_space=Dict(spaces=spaces))


def _actions(spec: Any, mask: tuple[int, ...] | None) -> Actions:
    dtype = np.dtype(spec.dtype)
    if np.issubdtype(dtype, np.floating):
        low, high = (np.broadcast_to(np.asarray(x), spec.shape).reshape(-1) for x in (spec.minimum, spec.maximum))
        space = common.box(jax.ShapeDtypeStruct((math.prod(spec.shape),), dtype), low, high)
        return Actions(space=space, shape=spec.shape, dtype=dtype, choices=())
    counts = tuple(int(n) + 1 for n in np.broadcast_to(np.asarray(spec.maximum), spec.shape).reshape(-1))
    if spec.shape == ():
        return Actions(space=Discrete(n=counts[0]), shape=(), dtype=dtype, choices=())
    if mask == counts:
        return Actions(space=Discrete(n=math.prod(counts)), shape=spec.shape, dtype=dtype, choices=counts)
    if mask is not None:  # MultiCVRP states one choice more than its mask has
        counts = (mask[-1],) * mask[0]
    return Actions(space=MultiDiscrete(nvec=counts), shape=spec.shape, dtype=dtype, choices=())


def _space(spec: Any, struct: Any, field: str) -> Space:
    """Return the space of one field, with jumanji's bounds and the actual dtype."""
    if isinstance(struct, Mapping):
        return Dict(spaces={k: _space(spec[k], part, k) for k, part in struct.items()})
    if field == "action_mask" or not hasattr(spec, "minimum"):
        return common.box(struct)
    if hasattr(spec, "num_values") and struct.shape == () and struct.dtype == jnp.int32 and "step" not in field:
        return Discrete(n=int(spec.num_values))
    if "step" in field:
        return common.box(struct, 0)
    return common.box(struct, np.asarray(spec.minimum), np.asarray(spec.maximum))


def _as_dict(value: PyTree) -> PyTree:
    """Return jumanji's named tuples and dataclasses as nested dicts."""
    if hasattr(value, "_asdict"):
        return {k: _as_dict(v) for k, v in value._asdict().items()}
    if dataclasses.is_dataclass(value):
        return {field.name: _as_dict(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return {k: _as_dict(v) for k, v in value.items()} if isinstance(value, Mapping) else value
