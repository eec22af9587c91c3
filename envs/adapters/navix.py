"""navix: MiniGrid's rooms, keys and doors, as `navix/NAME`."""

import functools
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from purerl.envs.adapters import common
from purerl.errors import unknown
from purerl.fields import validate
from purerl.spaces import Box, Discrete
from purerl.types import Environment, Key, PyTree, TimeStep, number, pytree, static

OBSERVATIONS = (
    "symbolic",
    "symbolic_first_person",
    "categorical",
    "categorical_first_person",
    "rgb",
    "rgb_first_person",
)
_FUNCTIONS = {"observation_fn", "reward_fn", "termination_fn", "transitions_fn", "action_set"}
_NUMBERS = {"gamma", "penality_coeff"}


@pytree
class NavixEnvironment(Environment):
    """An environment of navix, stepped without its automatic reset, which would come one step late.

    Images are uint8[height, width, 3]. Symbolic and categorical observations are int8, so that a network sees their
    numbers as they are instead of divided by 255. `info["return"]` of navix is left out: it is the episode's return.

    Source: Pignatelli et al. (2024), arXiv:2407.19396.
    """

    name: str = static(doc="navix's id")
    options: Any = static(default=(), doc="arguments of its constructor")
    time_limit: int = number(default=100, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start an episode; navix samples all its random numbers from a key in its state."""
        with common.standard_promotion():
            state = common.settle(self._env.reset(common.raw_key(key)))
            return state, self._observe(state)

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Advance by one action."""
        with common.standard_promotion():
            after = common.settle(self._env._step(state, action))
            terminated, time_up = after.step_type == 2, after.step_type == 1
            observation, reward = self._observe(after), common.scalar(after.reward)
            return after, TimeStep.transition(observation, reward, terminated=terminated, time_up=time_up)

    def _observe(self, state: PyTree) -> jax.Array:
        return state.observation.astype(self.observation_space.dtype)

    @property
    def _env(self) -> Any:
        return _build(self.name, self.options).replace(max_steps=self.time_limit)

    @property
    def observation_space(self) -> Box:
        """int8 or uint8 of [height, width] or [height, width, channels]."""
        return _observation_space(self.name, self.options)

    @property
    def action_space(self) -> Discrete:
        """navix's actions."""
        return Discrete(n=len(_build(self.name, self.options).action_set))


def make(name: str, **parameters: Any) -> NavixEnvironment:
    """Return a navix environment.

    Args:
      name: navix's id, such as "Navix-DoorKey-5x5-v0".
      **parameters: `time_limit`, `observation_fn`: one of `OBSERVATIONS`, and navix's other
        functions and numbers (static).

    Raises:
      InputError: for an unknown name or parameter, naming the nearest.
    """
    what = f"navix/{name}"
    common.check_name("navix", name, names())
    common.check_parameters(what, parameters, _FUNCTIONS | _NUMBERS | {"time_limit"})
    observation = parameters.get("observation_fn", "symbolic")
    if isinstance(observation, str) and observation not in OBSERVATIONS:
        raise unknown(f"observation_fn of {what}", observation, OBSERVATIONS)
    options = common.freeze(what, {k: v for k, v in parameters.items() if k != "time_limit"}, objects=True)
    built = common.build(what, lambda: _build(name, options))
    env = NavixEnvironment(name=name, options=options, time_limit=parameters.get("time_limit", built.max_steps))
    validate(env, what)
    return env


def from_navix(env: Any, time_limit: int | None = None) -> NavixEnvironment:
    """Return an environment object of navix as an environment.

    Args:
      env: the object, such as `navix.make("Navix-Empty-5x5-v0")`, or a subclass of navix's `Environment`.
      time_limit: steps after which an episode is truncated; None: the object's `max_steps`.

    Returns:
      The environment.

    Raises:
      InputError: if the object is something else.

    Example:
      >>> import navix
      >>> import purerl
      >>> purerl.from_navix(navix.make("Navix-Empty-5x5-v0")).action_space.n
      7
    """
    common.check_kind("navix", env, lambda: _import().Environment, "navix.make('Navix-Empty-5x5-v0')")
    limit = env.max_steps if time_limit is None else time_limit
    made = NavixEnvironment(name=type(env).__name__, options=common.Given(env), time_limit=limit)
    validate(made, made.name)
    return made


def names() -> list[str]:
    """Return navix's ids."""
    return sorted(_import().registry())


def _import() -> ModuleType:
    with common.building():  # importing navix makes arrays, and so starts JAX's backend
        import navix  # pyright: ignore[reportMissingImports]
    return navix


@functools.cache
def _build(name: str, options: common.Options | common.Given) -> Any:
    if isinstance(options, common.Given):
        return options.env
    with common.building():
        given = common.thaw(options)
        if isinstance(given.get("observation_fn"), str):
            observations, wanted = _import().observations, given["observation_fn"]
            own = {n: f for n, f in vars(observations).items() if getattr(f, "__module__", "") == observations.__name__}
            if wanted not in own:
                raise unknown(f"observation_fn of navix/{name}", wanted, own)
            given["observation_fn"] = own[wanted]
        return _import().make(name, **given)


@functools.cache
def _observation_space(name: str, options: common.Options | common.Given) -> Box:
    with common.building():
        struct = jax.eval_shape(_build(name, options).reset, jnp.zeros(2, jnp.uint32)).observation
    if isinstance(options, common.Given):
        return common.box(struct)
    kind = dict(options).get("observation_fn", "symbolic")
    kind = kind if isinstance(kind, str) else kind.__name__
    if kind not in OBSERVATIONS or kind.startswith("rgb"):
        return common.box(struct)
    # KeyCorridor starts some doors with `open` 2, where 1 is open: navix shows 1 - 2, and twice that if it has a lock.
    lowest = -2 if "KeyCorridor" in name else 0
    return common.box(jax.ShapeDtypeStruct(struct.shape, jnp.int8), lowest)
