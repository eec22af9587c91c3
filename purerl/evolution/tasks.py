"""The tasks of an evolution by name: an environment, a config, and the fields that are sampled for each run."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.errors import hints, unknown
from purerl.evolution.inner_loop import Task
from purerl.loop.extension import Setup
from purerl.run.environments import make_environment
from purerl.settings.env_parameters import environment_class
from purerl.settings.ranges import Range, bind, parse
from purerl.settings.runs import RETIRED, settings
from purerl.types import Key


class RedrawFields(NamedTuple):
    """A function that samples environment fields for each lifetime: (key, env) -> env."""

    ranges: dict[str, Range]

    def __call__(self, key: Key, env: Any) -> Any:
        """Sample the fields."""
        keys = jax.random.split(key, len(self.ranges))
        drawn = {}
        for of, (name, over) in zip(keys, self.ranges.items(), strict=True):
            value = over.at(jax.random.uniform(of), jnp)
            drawn[name] = value.astype(jnp.int32 if over.whole else jnp.float32)
        return dataclasses.replace(env, **drawn)


def share_parameters(tasks: Sequence[str], parameters: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """Give each task those parameters that its environment has."""
    classes = {name: environment_class(name) for name in tasks}
    known = {
        name: hints(cls) if cls is not None and dataclasses.is_dataclass(cls) else None for name, cls in classes.items()
    }
    for parameter in parameters:
        having = [name for name in tasks if (fields := known[name]) is None or parameter in fields]
        if not having:
            allowed = {field for fields in known.values() for field in fields or ()}
            raise unknown(f"parameter of {' and '.join(tasks)}", parameter, allowed)
    has = lambda name, parameter: (fields := known[name]) is None or parameter in fields
    return {name: {key: value for key, value in parameters.items() if has(name, key)} for name in tasks}


def make_task(algorithm: str, name: str, flags: Mapping[str, object], parameters: Mapping[str, object]) -> Task:
    """Return a task by name; arguments as for `make_plan`."""
    ranges = {key: value for key, value in parameters.items() if isinstance(value, str) and ":" in value}
    fixed = {key: value for key, value in parameters.items() if key not in ranges}
    run = settings(algorithm, name, flags, fixed)
    known = hints(type(run.config))
    for setting in flags:
        if setting not in known and setting not in RETIRED:
            raise unknown(f"setting of the task {name}", setting, known)
    env = make_environment(name, run.parameters)
    over = {f"env.{key}": parse(f"env.{key}={text}", flag="task parameter")[1] for key, text in ranges.items()}
    over = bind(over, Setup(config=run.config, env=env, options={})) if over else {}
    drawn = {key.removeprefix("env."): value for key, value in over.items() if isinstance(value, Range)}
    redraw = RedrawFields(drawn) if drawn else None
    return Task(name=name, env=env, config=run.config, total_timesteps=int(run.config.total_timesteps), redraw=redraw)
