"""brax: rigid-body control (ant, halfcheetah, humanoid, ...), as `brax/NAME`, on any of its physics backends."""

import functools
import inspect
import types
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from purerl.envs.adapters import common
from purerl.errors import InputError, unknown
from purerl.fields import validate
from purerl.spaces import Box, Space
from purerl.types import Environment, Key, PyTree, TimeStep, number, pytree, static

BACKENDS = ("generalized", "positional", "spring", "mjx")


@pytree
class BraxEnvironment(Environment):
    """An environment of brax without its wrappers: every episode has a new start, and final observations are kept.

    Actions f32[n] lie in -1 .. 1. `info` holds brax's metrics of the step. brax has no time limit of its own; its
    trainers cut episodes off after 1000 steps, and so does `time_limit`.

    Source: Freeman et al. (2021), arXiv:2106.13281.
    """

    name: str = static(doc="brax's name")
    options: Any = static(default=(), doc="arguments of its constructor")
    time_limit: int = number(default=1000, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[common.Timed, PyTree]:
        """Start an episode."""
        with common.standard_promotion():
            state = common.settle(_build(self.name, self.options).reset(key))
        return common.Timed(state, jnp.int32(0)), state.obs

    def step(self, key: Key, state: common.Timed, action: PyTree) -> tuple[common.Timed, TimeStep]:
        """Advance by one control step, which is several physics steps."""
        before = jax.tree.map(lambda x: x, state.suite)  # a copy: brax writes into the dicts of the state it is given
        with common.standard_promotion():
            after = common.settle(_build(self.name, self.options).step(before, action))
        time = state.time + 1
        terminated = after.done != 0
        time_up = time >= self.time_limit
        info = {name: common.scalar(value) for name, value in after.metrics.items()}
        step = TimeStep.transition(
            after.obs, common.scalar(after.reward), terminated=terminated, time_up=time_up, info=info
        )
        return common.Timed(after, time), step

    def render_page(self, states: list[common.Timed]) -> str:
        """Return an episode as a page of HTML with brax's viewer."""
        from brax.io import html

        env = _build(self.name, self.options)
        system = env.sys.tree_replace({"opt.timestep": env.dt})
        return html.render(system, [state.suite.pipeline_state for state in states])

    @property
    def observation_space(self) -> Space:
        """f32[n] without bounds, or a dict of such."""
        return _observation_space(self.name, self.options)

    @property
    def action_space(self) -> Box:
        """f32[n] in -1 .. 1."""
        return Box(low=-1.0, high=1.0, shape=(int(_build(self.name, self.options).action_size),))


def make(name: str, **parameters: Any) -> BraxEnvironment:
    """Return a brax environment.

    Args:
      name: brax's name, such as "ant".
      **parameters: `backend` (generalized, positional, spring or mjx; brax's default is generalized), `time_limit`,
        and arguments of the environment's constructor (static).

    Raises:
      InputError: for an unknown name, backend or parameter, naming the nearest.
    """
    what = f"brax/{name}"
    common.check_name("brax", name, names())
    cls = _import()._envs[name]
    allowed = {p.name for p in inspect.signature(cls.__init__).parameters.values() if p.kind is not p.VAR_KEYWORD}
    physics = set() if name == "fast" else {"backend", "n_frames"}  # "fast" has no physics and would ignore them
    common.check_parameters(what, parameters, (allowed | physics | {"time_limit"}) - {"self"})
    if parameters.get("backend", "spring") not in BACKENDS:
        raise unknown("backend of brax", str(parameters["backend"]), BACKENDS)
    options = common.freeze(what, {k: v for k, v in parameters.items() if k != "time_limit"})
    common.build(what, lambda: _build(name, options))
    env = BraxEnvironment(name=name, options=options, time_limit=parameters.get("time_limit", 1000))
    validate(env, what)
    return env


def from_brax(env: Any, time_limit: int = 1000) -> BraxEnvironment:
    """Return an environment object of brax, such as a `PipelineEnv` of your own, as an environment.

    Args:
      env: the object, without the wrappers of brax's training, which reset automatically.
      time_limit: steps after which an episode is truncated.

    Returns:
      The environment.

    Raises:
      InputError: if the object is something else.

    Example:
      >>> import brax.envs
      >>> import purerl
      >>> purerl.from_brax(brax.envs.get_environment("fast")).time_limit
      1000
    """
    common.check_kind("brax", env, lambda: _import().Env, "brax.envs.get_environment('ant')")
    inner = env
    while isinstance(inner, _import().Wrapper):
        if type(inner).__module__.endswith("wrappers.training"):
            raise InputError(f"the environment has brax's {type(inner).__name__}; pass env.unwrapped")
        inner = inner.env
    made = BraxEnvironment(name=type(env).__name__, options=common.Given(env), time_limit=time_limit)
    validate(made, made.name)
    return made


def names() -> list[str]:
    """Return brax's names."""
    return sorted(_import()._envs)


@functools.cache
def _import() -> ModuleType:
    with common.building():
        from brax import envs, fluid
    numpy: Any = types.SimpleNamespace(**vars(jnp))  # brax's fluids name an argument as JAX no longer does
    numpy.clip = lambda x, a_min: jnp.maximum(x, a_min)
    fluid.jp = numpy
    return envs


@functools.cache
def _build(name: str, options: common.Options | common.Given) -> Any:
    if isinstance(options, common.Given):
        return options.env
    envs = _import()  # and so MuJoCo
    with common.building():
        return envs.get_environment(name, **common.thaw(options))


@functools.cache
def _observation_space(name: str, options: common.Options | common.Given) -> Space:
    env = BraxEnvironment(name=name, options=options)
    return common.space_of(jax.eval_shape(env.reset, jax.random.key(0))[1])
