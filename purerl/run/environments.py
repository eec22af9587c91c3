"""The environment of a run, made by id or given as an object, and checked against the algorithm and the contract."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from purerl import registry
from purerl.catalog.algorithms import ALGORITHMS, WITH_FOLLOWERS
from purerl.errors import InputError, line_of
from purerl.host_environment import HostSource
from purerl.settings.runs import Settings
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from purerl.types import Environment


@contextlib.contextmanager
def told_in_a_line(name: str, what: str = "training on") -> Iterator[None]:
    """Report in one line an exception of a user's own environment that occurs in this context."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if not registry.is_own(name):
            raise
        first = (str(error).strip() or "without a word").splitlines()[0]
        raise InputError(f"{what} {name} fails: {type(error).__name__}: {first}{line_of(error)}") from None


def environment_of(run: Settings) -> Any:
    """Return a run's environment; see `make_environment`."""
    if run.env is None:
        return make_environment(run.environment, run.parameters)
    users = registry.is_own(run.environment) and not run.environment.startswith("purerl.")
    return _held(run.env, run.environment) if users else run.env


def make_environment(name: str, parameters: Mapping[str, object]) -> Any:
    """Return an environment by id; first check the shapes of a user's environment, module:Class.

    Raises:
      InputError: if there is none, or it breaks the contract.
    """
    try:
        env = registry.environment(name, parameters)
    except InputError:
        raise
    except Exception as error:  # whatever a user's module raises
        if not registry.is_own(name):
            raise
        raise InputError(f"{name} cannot be made: {type(error).__name__}: {error}") from None
    return _held(env, name) if registry.is_own(name) else env


def _held(env: Any, name: str) -> Any:
    """Check the shapes of a user's environment against the contract, and return it."""
    from purerl.testing.environments import check_contract

    if not isinstance(env, HostSource):
        check_contract(env, name, jax.random.key(0))
    return env


def check_actions(run: Settings, env: Environment) -> None:
    """Raise an `InputError` if the algorithm does not support a single agent's actions; name those that do."""
    entry, kind = WITH_FOLLOWERS.get(run.algorithm), _kind_of(env.action_space)
    if entry is None or kind is None or entry.teams or kind in entry.actions:
        return
    fitting = [name for name, other in sorted(ALGORITHMS.items()) if kind in other.actions and not other.teams]
    raise InputError(
        f"{run.algorithm} needs {' or '.join(entry.actions)} actions, and those of {run.environment} are {kind}, "
        f"{env.action_space}; {', '.join(fitting)} support them"
    )


def _kind_of(space: Space) -> str | None:
    """Return the word for an action space in the table of algorithms; None if it has none."""
    match space:
        case Discrete():
            return "discrete"
        case MultiDiscrete():
            return "multi-discrete"
        case Box() if len(space.shape) == 1 and np.issubdtype(np.dtype(space.dtype), np.floating):
            return "continuous"
        case Dict():
            return "dict"
    return None
