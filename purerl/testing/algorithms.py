"""The conformance suite of algorithms."""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError, kind_of, line_of
from purerl.fields import is_static
from purerl.functional.normalize import RunningStatistics
from purerl.loop.pieces import check_algorithm_kind, check_config, config_class_of
from purerl.loop.train import collect
from purerl.prng import fast
from purerl.spaces import Box, Dict, Discrete
from purerl.testing.learning import EXAMPLE, check_learning
from purerl.testing.meetings import check_meetings
from purerl.testing.probes import Probe
from purerl.testing.report import Check, Checks, Report
from purerl.testing.trainers import make_trainer
from purerl.testing.trees import describe, device, difference, host, paths, same_struct
from purerl.types import Algorithm, AlgorithmFactory, Array, Config, EnvironmentSpec, Key, PyTree, Values

TRACES: list[str] = []  # a row whenever an update is traced


@partial(jax.jit, static_argnums=0)
def _init(algorithm: AlgorithmFactory, config: Config, env: Probe, key: Key) -> PyTree:
    return make_trainer(algorithm, env, config).init(key)


@partial(jax.jit, static_argnums=0)
def _step(algorithm: AlgorithmFactory, config: Config, env: Probe, state: PyTree) -> tuple[PyTree, PyTree]:
    TRACES.append("update")
    return make_trainer(algorithm, env, config).step(state)


def check_algorithm(
    algorithm: AlgorithmFactory,
    config: Config | None = None,
    key: Key | None = None,
    *,
    actions: Sequence[str] = ("discrete",),
    name: str | None = None,
    contract: bool = True,
    compiled: bool = True,
    masks: bool = False,
    meetings: bool = False,
    learn: bool = True,
    num_seeds: int = 3,
    say: Callable[[str], None] = lambda line: None,
) -> Report:
    """Check an algorithm against the contract of `purerl.types.Algorithm`, and whether it learns the probes.

    Args:
      algorithm: (spec, config) -> Algorithm.
      config: its settings; small ones, as every probe is trained for `config.total_timesteps`. None: the defaults of
        the class that its annotation names.
      key: a key for everything random; None: a fixed one.
      actions: the kinds of actions it supports: "discrete", "multi-discrete", "continuous", "dict".
      name: its name in messages; None: the function's name.
      contract: check the contract.
      compiled: compile it for that and run updates; False only traces it, in a second: structures, shapes and dtypes.
      masks: also check masks of legal actions: it must then support an observation that is a dict with an
        "action_mask".
      meetings: also check combinations of features, by `purerl.testing.meetings`: it must then respect `Rollout.mask`.
      learn: train on the probes of `purerl.testing.probes`, for each kind of actions.
      num_seeds: runs on each probe, most of which must succeed.
      say: a function that is called with a line for each check as it passes.

    Returns:
      The checks it passed.

    Raises:
      InputError: for the first problem, naming the function, field or probe, and the checks that passed before it.
    """
    check_algorithm_kind(algorithm)
    name = name or str(getattr(algorithm, "__name__", "algorithm"))
    key = jax.random.key(0) if key is None else key
    wanted = config_class_of(algorithm)
    settled: Any = wanted() if config is None and wanted is not None else config
    check_config(algorithm, settled)
    env = EXAMPLE.environment(actions[0])
    checks, solo = Checks(say), None
    with _telling(name, checks):
        if contract:
            checks += _check_traced(algorithm, settled, env, key, name)
            if compiled:
                solo = _check_compiled(algorithm, settled, env=env, key=key, name=name, checks=checks)
        if masks and "discrete" in actions:
            checks.append(_check_mask(algorithm, settled, key, name))
        if meetings:
            checks += check_meetings(algorithm, settled, env, _init(algorithm, settled, env, key), name)
        for kind in actions if learn else ():
            of_kind = solo if kind == actions[0] else None
            checks += check_learning(
                algorithm, settled, key=key, kind=kind, name=name, num_seeds=num_seeds, solo=of_kind
            )
    return Report(subject=name, checks=tuple(checks), figures={})


@contextlib.contextmanager
def _telling(name: str, checks: list[Check]) -> Iterator[None]:
    """Report a failure in one line, with the checks that passed before it."""
    try:
        yield
    except Exception as error:
        told, source = str(error), None
        if not isinstance(error, InputError):
            first = (told.strip() or "without a word").splitlines()[0]
            told, source = f"{name}: {type(error).__name__}: {first}{line_of(error)}", error
        passed = ", ".join(check.name for check in checks)
        raise InputError(f"{told}; passed before: {passed or 'nothing'}") from source


def _check_traced(algorithm: AlgorithmFactory, config: Config, env: Probe, key: Key, name: str) -> list[Check]:
    """Check the part of the contract that needs no compilation."""
    trainer = make_trainer(algorithm, env, config)
    _check_acting(trainer.algorithm, env, key, name)
    state, after, metrics = _traced(algorithm, config, env, key, name)
    given = {field: 0.5 for field, value in _numbers(config).items() if value is None}
    if given:  # every optional number is set
        _traced(algorithm, dataclasses.replace(config, **given), env, key, name)
    same_struct(f"{name}.update: agent", after.agent, state.agent, "the agent from init")
    for metric, value in metrics.algorithm.items():
        if describe(value) != "float32[]":
            raise InputError(f"{name}.update: metric '{metric}' is {describe(value)}; it must be float32[]")
    _check_values(trainer, state, config, key, name)
    return [
        Check("init, act and update: structures, shapes and dtypes are static and match the spaces"),
        Check("can be traced, including the numbers of the config and the environment"),
    ]


def _check_compiled(
    algorithm: AlgorithmFactory, config: Config, env: Probe, key: Key, name: str, checks: list[Check]
) -> PyTree:
    """Run the compiled checks and record those that pass; return the agent after three updates as NumPy arrays."""
    states = _run(algorithm, config, env, key, name)
    checks += [Check("state holds arrays only"), Check("metrics are float32 scalars, parameters stay finite")]
    checks.append(_check_resume(algorithm, config, env=env, key=key, states=states, name=name))
    checks.append(_check_settings(algorithm, config, env, states, name))
    checks += _check_eager(algorithm, config, env, states, name)
    return host(states[3].agent)


def _traced(
    algorithm: AlgorithmFactory, config: Config, env: Probe, key: Key, name: str
) -> tuple[PyTree, PyTree, PyTree]:
    """Return (the state from init, the state after an update, its metrics) as shapes and dtypes.

    The programs that run updates later are traced here.
    """
    try:
        state = _init.eval_shape(algorithm, config, env, key)
        return (state, *_step.eval_shape(algorithm, config, env, state))
    except jax.errors.ConcretizationTypeError as error:
        found = re.search(r"the argument (config\S*|env\S*)", str(error))
        what = found.group(1).rstrip(".,") if found else "a traced array"
        raise InputError(
            f"{name} asks for the value of {what} while tracing{line_of(error)}: use jnp.where or jax.lax"
        ) from None


def _check_acting(algo: Algorithm, env: Probe, key: Key, name: str) -> None:
    """Check what `act` returns for a batch of two observations."""
    agent = jax.eval_shape(algo.init, key)
    observation = jax.eval_shape(lambda env: env.observation[:2], env)
    carry = jax.eval_shape(lambda: algo.initial_carry(2))
    for explore in (True, False):
        acted = jax.eval_shape(lambda a, m, k, o, e=explore: algo.act(a, m, k, o, e), agent, carry, key, observation)
        if not isinstance(acted, tuple) or len(acted) != 3:
            raise InputError(f"{name}.act must return (action, carry, extras)")
        wanted = jax.tree.map(lambda x: jax.ShapeDtypeStruct((2, *x.shape), x.dtype), env.action_space.struct)
        same_struct(f"{name}.act: action", acted[0], wanted, "a batch of two of the action space")
        same_struct(f"{name}.act: carry", acted[1], carry, "initial_carry(2)")


def _check_values(trainer: Any, state: PyTree, config: Config, key: Key, name: str) -> None:
    """Check that `Algorithm.values`, if there is one, returns one number per step of a rollout."""
    algo, shape = trainer.algorithm, (config.rollout_length, config.num_envs)
    if algo.values is None:
        return
    rollout = jax.eval_shape(lambda s, k: collect(algo, trainer.vector, s, k, shape[0])[1], state, key)
    values = jax.eval_shape(lambda agent, rollout: algo.values(agent, rollout)[:3], state.agent, rollout)
    for part, value in zip(Values._fields, values, strict=False):
        same_struct(f"{name}.values: {part}", value, jax.ShapeDtypeStruct(shape, jnp.float32), "f32[T, B]")


def _run(algorithm: AlgorithmFactory, config: Config, env: Probe, key: Key, name: str) -> list[PyTree]:
    """Return the states after 0, 1, 2 and 3 updates."""
    states = [_init(algorithm, config, env, key)]
    for path, leaf in paths(states[0]).items():
        if not isinstance(leaf, jax.Array):
            raise InputError(f"{name}: the state's {path} is {kind_of(leaf)}; it must be an array")
    for _ in range(3):
        state, metrics = _step(algorithm, config, env, states[-1])
        states.append(state)
        for metric, value in metrics.algorithm.items():
            if np.isinf(value):
                raise InputError(f"{name}.update: metric '{metric}' is {float(value)} after {len(states) - 1} updates")
        for path, leaf in paths(state.agent).items():
            if jnp.issubdtype(leaf.dtype, jnp.inexact) and not np.isfinite(leaf).all():
                raise InputError(f"{name}.update: agent{path} is not finite after {len(states) - 1} updates")
    return states


def _check_resume(
    algorithm: AlgorithmFactory, config: Config, env: Probe, key: Key, states: list[PyTree], name: str
) -> Check:
    """Check that a run saved as plain arrays and rebuilt from a template continues bit by bit."""
    template = _init(algorithm, config, env, jax.random.fold_in(key, 1))
    leaves = [host(leaf) for leaf in jax.tree.leaves(states[2])]
    loaded = jax.tree.unflatten(jax.tree.structure(template), leaves)
    resumed, _ = _step(algorithm, config, env, device(loaded, template))
    found = difference(host(resumed), host(states[3]))
    if found is not None:
        raise InputError(f"{name}: resumed from its saved arrays it differs in {found}")
    return Check("a resumed run is bit-identical to an uninterrupted one")


def _check_settings(algorithm: AlgorithmFactory, config: Config, env: Probe, states: list[PyTree], name: str) -> Check:
    """Check that another value of any number runs the same program."""
    before, idle = len(TRACES), []
    usual = host(_step(algorithm, config, env, states[2])[0].agent)
    for field, value in _numbers(config).items():
        if value is None:
            continue
        other = dataclasses.replace(config, **{field: _another(config, field, value)})
        agent = _step(algorithm, other, env, states[2])[0].agent
        if len(TRACES) > before:
            raise InputError(f"{name}: another value of config.{field} is traced again; numbers must stay data")
        if difference(host(agent), usual) is None:
            idle.append(field)
    return Check(
        "one trace for all numeric settings", f"no effect within one update: {', '.join(idle)}" if idle else ""
    )


def _numbers(config: Config) -> dict[str, object]:
    return {f.name: getattr(config, f.name) for f in dataclasses.fields(config) if not is_static(f)}


def _another(config: Config, field: str, value: Any) -> Any:
    """Return another value within the field's bounds, of the same type."""
    bounds = type(config).__dataclass_fields__[field].metadata.get("bounds") or {}
    if isinstance(value, int):
        lowest = bounds.get("at_least")
        return value - 1 if value > 2 and (lowest is None or value > lowest) else value + 1
    return 0.8 * value if value else 0.1


def _check_eager(
    algorithm: AlgorithmFactory, config: Config, env: Probe, states: list[PyTree], name: str
) -> list[Check]:
    """Compare acting and a complete update without jit with the same under jit."""
    trainer, state = make_trainer(algorithm, env, config), states[2]
    keys = jax.random.split(fast(jax.random.key(7)))

    def act(key: Key, explore: bool) -> Array:
        return trainer.algorithm.act(state.agent, state.carry, key, state.observation, explore)[0]

    if difference(host(act(keys[0], False)), host(act(keys[1], False))) is not None:
        raise InputError(f"{name}.act with explore=False depends on the key")
    found = difference(host(act(keys[0], True)), host(jax.jit(act, static_argnums=1)(keys[0], True)), 1e-3)
    if found is not None:
        raise InputError(f"{name}.act differs, eager against jit, in action{found}")
    found = difference(host(trainer.step(state)[0].agent), host(states[3].agent), 1e-3)
    if found is not None:
        raise InputError(f"{name}.update differs, eager against jit, in agent{found}")
    return [Check("jit = eager"), Check("greedy actions do not depend on the key")]


def _check_mask(algorithm: AlgorithmFactory, config: Config, key: Key, name: str) -> Check:
    """Check that illegal actions are never chosen, with a float32 mask next to a normalized observation."""
    mask = jax.random.bernoulli(fast(key), 0.3, (64, 5)).at[:, 2].set(True)
    spaces = {"observation": Box(low=-1.0, high=1.0, shape=(3,)), "action_mask": Box(low=0, high=1, shape=(5,))}
    if any(field.name == "normalize_observation" for field in dataclasses.fields(config)):
        config = dataclasses.replace(config, normalize_observation=True)  # type: ignore[call-arg]
    algo = algorithm(EnvironmentSpec(Dict(spaces=spaces), Discrete(n=5)), config)

    @jax.jit
    def act(key: Key) -> list[Array]:
        observation = {"observation": jax.random.normal(fast(key), (64, 3)), "action_mask": mask.astype(jnp.float32)}
        seen = jax.tree.structure(observation)
        of_observations = lambda x: isinstance(x, RunningStatistics) and jax.tree.structure(x.mean) == seen
        learned = lambda x: x.update(observation) if of_observations(x) else x
        agent, carry = jax.tree.map(learned, algo.init(key), is_leaf=of_observations), algo.initial_carry(64)
        return [algo.act(agent, carry, fast(key), observation, explore)[0] for explore in (True, False)]

    for action in act(key):
        if not mask[jnp.arange(64), action].all():
            raise InputError(f"{name}.act chooses actions that the observation's action_mask forbids")
    return Check("illegal actions are never chosen")
