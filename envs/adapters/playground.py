"""MuJoCo Playground: the DeepMind control suite, locomotion and manipulation on MJX, as `playground/NAME`."""

import functools
import subprocess
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.envs.adapters import common
from purerl.errors import InputError
from purerl.fields import validate
from purerl.spaces import Box, Space
from purerl.types import Array, Environment, Key, PyTree, TimeStep, number, pytree, static

PRIVILEGED = {"privileged_state": "global_state"}  # its name for what only a critic sees, and ours


@pytree
class PlaygroundEnvironment(Environment):
    """A MuJoCo Playground environment without wrappers: every episode has a new start, final observations are kept.

    Actions f32[n] lie in -1 .. 1 and are repeated as Playground's config says. `info` holds its metrics of the step.
    Where the physics broke down (Playground ends the episode) a NaN in the observation or reward reads 0. Only plain
    JAX physics (`impl="jax"`) is the default here; Playground's own is `impl="warp"`.

    Source: Zakka et al. (2025), arXiv:2502.08844.
    """

    name: str = static(doc="Playground's name")
    options: Any = static(default=(), doc="overrides of its config, nested names joined by dots")
    time_limit: int = number(default=1000, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[common.Timed, PyTree]:
        """Start an episode; Playground keeps a key in its state."""
        with common.standard_promotion():
            state = common.settle(_build(self.name, self.options).env.reset(common.raw_key(key)))
        return common.Timed(state, jnp.int32(0)), _plain(state.obs)

    def step(self, key: Key, state: common.Timed, action: PyTree) -> tuple[common.Timed, TimeStep]:
        """Advance by one control step, or by as many as Playground repeats an action."""
        built, time = _build(self.name, self.options), state.time + 1
        after, reward = state.suite, jnp.float32(0)
        done = jnp.bool_(False)
        with common.standard_promotion():
            for _ in range(built.action_repeat):
                # the copy is for Playground's writing into the dicts of the state it is given
                after = common.settle(built.env.step(jax.tree.map(lambda x: x, after), action))
                reward = reward + common.scalar(after.reward)
                done = done | common.flag(after.done)
        time_up = time >= self.time_limit
        observation = jax.tree.map(lambda x: jnp.where(done, _number(x), x), _plain(after.obs))
        reward = jnp.where(done, _number(reward), reward)
        info = {name: _number(common.scalar(value)) for name, value in after.metrics.items()}
        return common.Timed(after, time), TimeStep.transition(
            observation, reward, terminated=done, time_up=time_up, info=info
        )

    @property
    def observation_space(self) -> Space:
        """f32[n] without bounds, or a dict of such."""
        return _build(self.name, self.options).observation_space

    @property
    def action_space(self) -> Box:
        """f32[n] in -1 .. 1."""
        return Box(low=-1.0, high=1.0, shape=(int(_build(self.name, self.options).env.action_size),))


class PlaygroundSetup(NamedTuple):
    """A Playground object and the data derived from it."""

    env: Any
    action_repeat: int
    observation_space: Space


def _number(x: Array) -> Array:
    return jnp.where(jnp.isnan(x), jnp.zeros_like(x), x) if jnp.issubdtype(x.dtype, jnp.inexact) else x


def _plain(observation: PyTree) -> PyTree:
    """Return an observation; Playground's privileged state becomes `global_state`, which only a critic sees."""
    if not isinstance(observation, Mapping):
        return observation
    return {PRIVILEGED.get(name, name): part for name, part in observation.items()}


def make(name: str, **parameters: Any) -> PlaygroundEnvironment:
    """Return an environment of MuJoCo Playground.

    Locomotion and manipulation need MuJoCo's menagerie of robots, which Playground downloads when one is first made.

    Args:
      name: Playground's name, such as "CartpoleBalance".
      **parameters: `time_limit`, and overrides of Playground's config (static), nested names joined by dots, such as
        impl="warp" or `**{"reward_config.scales.energy": 0.0}`.

    Raises:
      InputError: for an unknown name or parameter, naming the nearest; if the robots cannot be downloaded.
    """
    what = f"playground/{name}"
    common.check_name("playground", name, names())
    config = _flat(_import().get_default_config(name).to_dict())
    settings = {k for k in config if k != "episode_length"}
    common.check_parameters(what, parameters, settings | {"time_limit"})
    options = common.freeze(what, {"impl": "jax"} | {k: v for k, v in parameters.items() if k in settings})
    try:
        built = common.build(what, lambda: _build(name, options))
    except subprocess.CalledProcessError as error:
        problem = "MuJoCo Playground could not download its models of robots (mujoco_menagerie) from GitHub"
        raise InputError(f"{what} cannot be made: {problem}") from error
    default = -(-config["episode_length"] // built.action_repeat)
    env = PlaygroundEnvironment(name=name, options=options, time_limit=parameters.get("time_limit", default))
    validate(env, what)
    return env


def names() -> list[str]:
    """Return Playground's names."""
    return list(_import().ALL_ENVS)


def _import() -> ModuleType:
    with common.building():
        from mujoco_playground import registry  # pyright: ignore[reportMissingImports]
    return registry


def _flat(config: Mapping[str, object], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in config.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return flat


@functools.cache
def _build(name: str, options: common.Options) -> PlaygroundSetup:
    with common.building():
        env = _import().load(name, config_overrides=common.thaw(options))
        key = jnp.zeros(2, jnp.uint32)
        observation = _plain(jax.eval_shape(env.reset, key).obs)
    return PlaygroundSetup(
        env=env, action_repeat=int(env._config.action_repeat), observation_space=common.space_of(observation)
    )
