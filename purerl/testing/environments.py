"""The conformance suite of environments."""

import dataclasses
import re
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from purerl import agent_groups, registry
from purerl.errors import InputError, kind_of
from purerl.host_environment import HostSource
from purerl.prng import fast
from purerl.spaces import Box, Discrete, MultiDiscrete, Space, Stacked
from purerl.testing.host import check_host_environment
from purerl.testing.measure import figures_of, measure_environment
from purerl.testing.play import RandomPlay, parts, play_one
from purerl.testing.report import Check, Checks, Report
from purerl.testing.spaces import check_spaces, notes_of_bytes
from purerl.testing.trees import describe, device, difference, host, paths, same_struct, traced
from purerl.types import Environment, Key, PyTree, TimeStep

NUM_PLAYED = 8  # environments played side by side
COMPARED = 3  # steps compared between eager and compiled execution
SHORT = 7  # the time limit that episodes are held to


def check_environment(
    env: Environment | HostSource,
    key: Key | None = None,
    num_steps: int = 128,
    *,
    name: str | None = None,
    same_start: bool = False,
    eager: bool = True,
    measure: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Report:
    """Check an environment against the contract of `purerl.types.Environment`; a host one by `check_host_environment`.

    Args:
      env: the environment, which may be your own.
      key: a key for random play; None: a fixed one.
      num_steps: steps of random play in each of eight copies.
      name: its name in messages; None: its class's name.
      same_start: whether every episode may start in one state although `reset` uses random numbers.
      eager: also compare compiled with uncompiled steps, which is slow for large physics engines.
      measure: also measure its speed, which takes seconds.
      say: a function that is called with a line for each check as it passes.

    Returns:
      The checks it passed and the measurements.

    Raises:
      InputError: for the first problem, naming the method or the field.
    """
    registry.check_environment(env)
    if isinstance(env, HostSource):
        return check_host_environment(env, num_steps, name=name)
    name = type(env).__name__ if name is None else name
    key = fast(jax.random.key(0) if key is None else key)
    checks = Checks(say)
    checks += check_contract(env, name, key)
    key_play, key_starts = jax.random.split(key)
    keys = jax.random.split(key_play, NUM_PLAYED)
    play = jax.jit(jax.vmap(play_one, in_axes=(None, 0, None, None)), static_argnums=3)
    record = host(play(env, keys, False, num_steps))
    checks += _check_values(env, name, record)
    checks.append(_check_repeats(name, host(play(env, keys, False, num_steps)), record))
    if eager:
        checks.append(_check_eager(env, name, key, record))
    checks.append(_check_starts(env, name, key_starts, record, same_start))
    checks.append(_check_time_limit(env, name, lambda short: host(play(short, keys, False, num_steps)), record))
    checks.append(_check_outside(env, host(play(env, keys, True, num_steps))))
    figures = figures_of(env, record) | (measure_environment(env, key) if measure else {})
    return Report(subject=name, checks=tuple(checks), figures=figures)


def check_contract(env: Environment, name: str, key: Key) -> list[Check]:
    """Check only parts, structures, shapes and dtypes, without taking a step; arguments as for `check_environment`."""
    return [*_check_parts(env, name), *check_spaces(env, name), *_check_contract(env, name, key)]


def _check_parts(env: Environment, name: str) -> list[Check]:
    """Check that the environment is a pytree with two methods and two spaces."""
    for method in ("reset", "step"):
        if not callable(getattr(env, method, None)):
            raise InputError(f"{name} has no method {method}")
    leaves = paths(env)
    if any(leaf is env for leaf in leaves.values()):
        raise InputError(f"{name} is not a pytree: decorate its class with purerl.types.pytree")
    for path, leaf in leaves.items():
        if not isinstance(leaf, bool | int | float | complex | np.ndarray | np.generic | jax.Array):
            raise InputError(f"{name}{path} is {kind_of(leaf)}; declare what is not a number with static(...)")
    for space in ("observation_space", "action_space"):
        try:
            given = getattr(env, space)
        except (AttributeError, NotImplementedError):
            raise InputError(f"{name} has no {space}") from None
        if not isinstance(given, Space):
            raise InputError(f"{name}.{space} is {kind_of(given)}; it must be one of purerl.spaces")
    return [Check("a pytree with reset, step and two spaces")]


def _check_contract(env: Environment, name: str, key: Key) -> list[Check]:
    """Check structures, shapes and dtypes by tracing, with the environment's numbers traced too."""
    started = traced(f"{name}.reset(key)", lambda env, key: env.reset(key), env, key)
    if not isinstance(started, tuple) or len(started) != 2 or hasattr(started, "_fields"):
        raise InputError(f"{name}.reset(key) returns {_shape_of(started)}; it must return (state, observation)")
    state, observation = started
    source = f"{name}.observation_space"
    same_struct(f"{name}.reset(key): observation", observation, env.observation_space.struct, source)
    what = f"{name}.step(key, state, action)"
    action = env.action_space.struct
    stepped = traced(what, lambda env, key, state, action: env.step(key, state, action), env, key, state, action)
    if not isinstance(stepped, tuple) or len(stepped) != 2 or not isinstance(stepped[1], TimeStep):
        raise InputError(f"{what} returns {_shape_of(stepped)}; it must return (state, TimeStep)")
    after, step = stepped
    same_struct(f"{what}: state", after, state, "the state from reset")
    same_struct(f"{what}: observation", step.observation, env.observation_space.struct, source)
    number = jax.ShapeDtypeStruct((), jnp.float32)
    if sizes := agent_groups.sizes(env):
        agent_groups.check(name, env)
        wanted = {group: jax.ShapeDtypeStruct((n,), jnp.float32) for group, n in sizes.items()}
        same_struct(f"{what}: reward", step.reward, wanted, "its groups of agents")
        step = step._replace(reward=number)
    for field, dtype in (("reward", "float32"), ("terminated", "bool"), ("truncated", "bool")):
        if describe(getattr(step, field)) != f"{dtype}[]":
            raise InputError(f"{what}: {field} is {describe(getattr(step, field))}; it must be {dtype}[]")
    if not isinstance(step.info, Mapping):
        raise InputError(f"{what}: info is {kind_of(step.info)}; it must be a dict of numbers, {{}} for none")
    for info, value in step.info.items():
        if describe(value) != "float32[]":
            raise InputError(f"{what}: info['{info}'] is {describe(value)}; it must be float32[]")
    return [
        Check("reset returns (state, observation)"),
        Check("step returns (state, TimeStep)"),
        Check("structures, shapes and dtypes are static, agree between reset and step, and match the spaces"),
        Check("can be traced, including its numbers"),
    ]


def _shape_of(value: object) -> str:
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"a tuple of {len(value)} ({', '.join(_shape_of(part) for part in value)})"
    return "an array" if isinstance(value, jax.ShapeDtypeStruct) else kind_of(value)


def _check_values(env: Environment, name: str, record: RandomPlay) -> list[Check]:
    problem = _value_problem(env, record)
    if problem is not None:
        raise InputError(f"{name}: {problem}")
    if not record.sampled.all():
        raise InputError(f"{name}.observation_space does not contain what it samples")
    if not record.action_inside.all():
        raise InputError(f"{name}.action_space does not contain what it samples, or no action was legal")
    checks = [
        Check("the spaces contain all observations and their own samples"),
        Check("no NaN, rewards finite"),
        Check("never terminated and truncated together"),
    ]
    if type(env).observe is not Environment.observe:
        checks.append(_check_observe(env, name, record))
    shown = parts(env.observation_space, record.result[1].observation)
    return [*checks, *notes_of_bytes({path: (part, values.max(initial=0)) for path, part, values in shown})]


def _check_outside(env: Environment, invalid: RandomPlay) -> Check:
    problem = _value_problem(env, invalid)
    return Check("actions outside the space", "harmless" if problem is None else f"not handled: {problem}")


def _check_repeats(name: str, again: RandomPlay, record: RandomPlay) -> Check:
    if difference(again, record) is not None:
        raise InputError(
            f"{name}: the same key and actions gave other results: it is not a pure function of its inputs"
        )
    return Check("deterministic for a key")


def _check_observe(env: Environment, name: str, record: RandomPlay) -> Check:
    """Check that the observation of a state equals the one that the step into it returned."""
    state, step = record.result
    template = jax.eval_shape(env.reset, fast(jax.random.key(0)))[0]
    observation = host(jax.jit(jax.vmap(jax.vmap(env.observe)))(device(state, template)))
    found = difference(observation, step.observation, 1e-6)
    if found is not None:
        raise InputError(f"{name}.observe(state) is not the observation that step returns: {found}")
    return Check("observe(state) equals the observation of reset and step")


def _value_problem(env: Environment, record: RandomPlay) -> str | None:
    state, step = record.result
    for what, tree in (("state", state), ("observation", step.observation), ("info", step.info)):
        for path, leaf in paths(tree).items():
            if np.issubdtype(leaf.dtype, np.inexact) and np.isnan(leaf).any():
                return f"{what}{path} became NaN"
    for path, reward in paths(step.reward).items():
        if not np.isfinite(reward).all():
            return f"reward{path} became {reward[~np.isfinite(reward)][0]}"
    before = {path: values for path, _, values in parts(env.observation_space, record.observation)}
    for path, space, values in parts(env.observation_space, step.observation):
        inside = record.inside[path]
        if not inside.all():
            low, high = min(values.min(), before[path].min()), max(values.max(), before[path].max())
            return f"observation{path} reached {low} .. {high}; its space holds {_bounds(space)}"
    if (step.terminated & step.truncated).any():
        return "terminated and truncated were set together; the end of a task is not a time limit"
    over = step.terminated | step.truncated
    masks = {path: part for path, part in paths(step.observation).items() if path.endswith("['action_mask']")}
    for path, mask in masks.items():
        going = mask.any(-1) | over.reshape(over.shape + (1,) * (mask.ndim - 1 - over.ndim))
        if not going.all():
            return f"observation{path} allowed no action although the episode went on"
    return None


def _bounds(space: Space) -> str:
    match space:
        case Discrete(n=n):
            return f"0 .. {n - 1}"
        case MultiDiscrete(nvec=nvec):
            return f"0 .. {tuple(n - 1 for n in nvec)}"
        case Stacked():
            return _bounds(space.space)
        case Box():
            return f"{np.min(np.asarray(space.low))} .. {np.max(np.asarray(space.high))}"
    return str(space)


def _check_eager(env: Environment, name: str, key: Key, record: RandomPlay) -> Check:
    """Repeat the first copy's first steps, uncompiled and alone, from the recorded states."""
    template = jax.eval_shape(env.reset, key)[0]
    comparisons = []
    for t in range(COMPARED):
        row = jax.tree.map(lambda x, t=t: x[0, t], record)
        reset_key, step_key = device((row.reset_key, row.step_key), (key, key))
        state, action = device(row.state, template), jax.tree.map(jnp.asarray, row.action)
        if t == 0:
            comparisons.append(("reset", env.reset, (reset_key,), row.reset))
        comparisons.append((f"step {t}", env.step, (step_key, state, action), row.result))
    for what, function, args, compiled in comparisons:
        eager = host(function(*args))
        if what in ("reset", "step 0") and difference(host(function(*args)), eager) is not None:
            raise InputError(f"{name}.{what} gave two results for the same inputs: it must be a pure function of them")
        found = difference(eager, compiled, 1e-4)
        if found is not None:
            solo = difference(host(jax.jit(function)(*args)), compiled, 1e-4)
            pair = "eager against jit" if solo is None else "jit against vmap"
            where = (found if solo is None else solo).replace("[0]", "state", 1).replace("[1].", "", 1)
            raise InputError(f"{name}.{what} differs, {pair}, in {where}")
    return Check("jit = eager = vmap")


def _check_starts(env: Environment, name: str, key: Key, record: RandomPlay, same_start: bool) -> Check:
    """Check that other keys give other starts, unless `reset` uses no randomness."""
    if _distinct(jax.tree.map(lambda x: x[:, 0], record.reset)) > 1:
        return Check("resets differ between keys")
    many = host(jax.jit(jax.vmap(lambda env, key: env.reset(key), in_axes=(None, 0)))(env, jax.random.split(key, 256)))
    if _distinct(many) > 1:
        return Check("resets differ between keys")
    program = str(jax.make_jaxpr(lambda env, key: env.reset(key))(env, key))
    shapes = re.findall(r"random_bits\[[^]]*shape=\(([^)]*)\)", program)
    draws = any("0" not in re.split(r"\D+", shape) for shape in shapes)
    if draws and not same_start:
        raise InputError(
            f"{name}.reset draws random numbers, but 256 keys gave one state and observation: does it use its key?"
        )
    return Check("every episode starts in the same state", "reset uses no randomness" if not draws else "as declared")


def _distinct(first: PyTree) -> int:
    """Return the number of different (state, observation) pairs along axis [B]; keys in the state are ignored."""
    leaves = [leaf for leaf in jax.tree.leaves(first) if leaf.dtype != np.uint32 or leaf.shape[1:] != (2,)]
    return len({tuple(leaf[i].tobytes() for leaf in leaves) for i in range(leaves[0].shape[0])}) if leaves else 1


def _check_time_limit(env: Environment, name: str, play: object, record: RandomPlay) -> Check:
    """Check that with a shorter limit, no episode is longer."""
    limit = getattr(env, "time_limit", None)
    done = record.result[1].terminated | record.result[1].truncated
    if limit is None:
        detail = f"none; {done.sum()} of the episodes in {done.size} random steps ended"
        return Check("time limit", detail)
    if np.ndim(limit) or isinstance(limit, bool) or "time_limit" not in getattr(env, "__dataclass_fields__", {}):
        raise InputError(f"{name}.time_limit must be a number field: steps, or None")
    short = type(limit)(min(int(limit), SHORT)) if isinstance(limit, int | float) else jnp.full_like(limit, SHORT)
    played = play(dataclasses.replace(env, time_limit=short))  # type: ignore[type-var]
    longest = int(played.length.max())
    if longest > int(short):
        raise InputError(f"{name}: with time_limit = {int(short)} an episode continued to step {longest}")
    return Check("episodes end by their time limit", f"{int(limit)} steps")
