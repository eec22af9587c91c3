"""XLand-MiniGrid: MiniGrid's rooms, and worlds whose rules and goals are data, as `xminigrid/NAME`."""

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from purerl.envs.adapters import common
from purerl.errors import InputError
from purerl.fields import validate
from purerl.spaces import Box, Discrete
from purerl.types import Environment, Key, PyTree, TimeStep, number, pytree, static

RULESET = ("goal", "init_tiles", "rules")
_SIZES = {"height", "width", "view_size"}


@pytree
class XMiniGridEnvironment(Environment):
    """An environment of XLand-MiniGrid, stepped without its automatic resets.

    Observation: int8[view_size, view_size, 2], the kind and the color of what the agent sees, as numbers; with
    `one_hot`, bool[view_size, view_size, 25]. The reward at the goal is 1 - 0.9 steps / time_limit. The benchmarks
    of rulesets are pickles, which can run code, so none is loaded here: pass the arrays of a ruleset.

    Source: Nikulin et al. (2024), arXiv:2312.12044.
    """

    name: str = static(doc="the suite's id")
    options: Any = static(default=(), doc="height, width and view_size, if they differ from the id's")
    one_hot: bool = static(default=False, doc="encode kinds and colors one-hot, which networks learn from more easily")
    ruleset: Any = number(
        default=None, doc="ruleset of an XLand world: {goal, init_tiles, rules}, arrays of the suite's codes"
    )
    time_limit: int = number(default=243, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start an episode; the suite samples its random numbers from a key in its state."""
        with common.standard_promotion():
            first = common.settle(_build(self.name, self.options)[0].reset(self._params, common.raw_key(key)))
            return first.state, self._shown(first.observation)

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Advance by one action; reaching the goal in the last step counts."""
        env, params = _build(self.name, self.options)[0], self._params
        with common.standard_promotion():
            now = _timestep(state)
            after = common.settle(env.step(params, now, action))
            terminated = after.discount == 0
            time_up = after.state.step_num >= self.time_limit
            observation, reward = self._shown(after.observation), common.scalar(after.reward)
            return after.state, TimeStep.transition(observation, reward, terminated=terminated, time_up=time_up)

    def _shown(self, observation: jax.Array) -> jax.Array:
        if not self.one_hot:
            return observation.astype(jnp.int8)
        kinds, colors = _counts()
        parts = [jax.nn.one_hot(observation[..., i], n, dtype=jnp.bool_) for i, n in enumerate((kinds, colors))]
        return jnp.concatenate(parts, axis=-1)

    @property
    def _params(self) -> PyTree:
        params = _build(self.name, self.options)[1].replace(max_steps=self.time_limit)
        if self.ruleset is None:
            return params
        return params.replace(ruleset=params.ruleset.replace(**self.ruleset))

    @property
    def observation_space(self) -> Box:
        """int8[view_size, view_size, 2], or bool[view_size, view_size, 25]."""
        size = _build(self.name, self.options)[1].view_size
        if self.one_hot:
            return common.box(jax.ShapeDtypeStruct((size, size, sum(_counts())), jnp.bool_))
        return common.box(jax.ShapeDtypeStruct((size, size, 2), jnp.int8), 0, max(_counts()) - 1)

    @property
    def action_space(self) -> Discrete:
        """Forward, turn right, turn left, pick up, put down, toggle."""
        env, params = _build(self.name, self.options)
        return Discrete(n=env.num_actions(params))


def make(name: str, **parameters: Any) -> XMiniGridEnvironment:
    """Return an environment of XLand-MiniGrid.

    Args:
      name: the suite's id, such as "XLand-MiniGrid-R1-9x9" or "MiniGrid-DoorKey-8x8".
      **parameters: `time_limit`, `one_hot`, `height`, `width`, `view_size`, and of XLand worlds `ruleset`: the suite's
        `RuleSet`, or a mapping of its arrays.

    Raises:
      InputError: for an unknown name or parameter, naming the nearest, and for a ruleset that is none.
    """
    what, world = f"xminigrid/{name}", name.startswith("XLand")
    common.check_name("xminigrid", name, names())
    fields = {"time_limit", "one_hot"} | ({"ruleset"} if world else set())
    common.check_parameters(what, parameters, _SIZES | fields)
    options = common.freeze(what, {k: v for k, v in parameters.items() if k in _SIZES})
    params = common.build(what, lambda: _build(name, options))[1]
    rules = parameters.get("ruleset", params.ruleset) if world else None
    env = XMiniGridEnvironment(
        name=name,
        options=options,
        one_hot=parameters.get("one_hot", False),
        ruleset=None if rules is None else _ruleset(what, rules),
        time_limit=parameters.get("time_limit", params.max_steps),
    )
    validate(env, what)
    return env


def names() -> list[str]:
    """Return the suite's ids."""
    return sorted(_import().registered_environments())


def _ruleset(what: str, rules: object) -> dict[str, jax.Array]:
    """Return the arrays of a ruleset by name."""
    given = rules if isinstance(rules, Mapping) else {name: getattr(rules, name, None) for name in RULESET}
    if sorted(given) != sorted(RULESET) or any(part is None for part in given.values()):
        raise InputError(
            f"{what}: ruleset must have the arrays {', '.join(RULESET)}; it has {', '.join(given) or 'none'}"
        )
    arrays = {name: jnp.asarray(given[name], jnp.uint8) for name in RULESET}
    if [arrays[name].ndim for name in RULESET] != [1, 2, 2]:
        shapes = ", ".join(f"{name} {arrays[name].shape}" for name in RULESET)
        raise InputError(f"{what}: ruleset has {shapes}; it must be goal [n], init_tiles [m, 2] and rules [k, n]")
    return arrays


def _timestep(state: PyTree) -> PyTree:
    """Return the suite's time step for a state, with only the fields that a step reads."""
    from xminigrid.types import TimeStep as Theirs  # pyright: ignore[reportMissingImports]

    record: Any = Theirs
    return record(state=state, step_type=None, reward=None, discount=None, observation=None)


def _import() -> ModuleType:
    with common.building():
        import xminigrid  # pyright: ignore[reportMissingImports]
    return xminigrid


@functools.cache
def _counts() -> tuple[int, int]:
    """Return the numbers of kinds and of colors."""
    with common.building():
        from xminigrid.core import constants  # pyright: ignore[reportMissingImports]
    return constants.NUM_TILES, constants.NUM_COLORS


@functools.cache
def _build(name: str, options: common.Options) -> tuple[Any, Any]:
    """Return the suite's (environment, parameters)."""
    with common.building():
        return _import().make(name, **common.thaw(options))
