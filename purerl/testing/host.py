"""The conformance suite of environments that run on the host, such as Gymnasium's."""

from collections.abc import Callable

import jax
import numpy as np

from purerl import agent_groups
from purerl.errors import InputError, line_of
from purerl.host_environment import HostSource
from purerl.prng import fast
from purerl.spaces import Space
from purerl.testing.play import parts
from purerl.testing.report import Check, Report
from purerl.testing.spaces import check_spaces, notes_of_bytes
from purerl.testing.trees import same_struct
from purerl.types import PyTree

NUM_PLAYED = 2  # environments stepped one after the other


def check_host_environment(source: HostSource, num_steps: int = 128, *, name: str | None = None) -> Report:
    """Check a host environment against its spaces in random play, with the actions that training sends.

    Args:
      source: the environments.
      num_steps: steps of random play in each of two copies.
      name: its name in messages; None: its id.

    Raises:
      InputError: for the first problem, or for an exception of the environment itself, in one line.
    """
    name = source.id if name is None else name
    checks = check_spaces(source, name)
    draw = jax.jit(jax.vmap(lambda key, seen: agent_groups.draw(source.action_space, key, seen)))
    most: dict[str, tuple[Space, int]] = {}
    keys, ended = jax.random.split(fast(jax.random.key(0)), (num_steps, NUM_PLAYED)), 0
    env = _told(f"{name} cannot be opened", lambda: source.open(NUM_PLAYED, seed=0, parallel=False))
    try:
        seen = _seen(source, _told(f"{name}.reset fails", lambda: env.reset(keys[0, 0])), f"{name}.reset")
        for t in range(num_steps):
            action = jax.device_get(draw(keys[t], seen))
            step = _told(f"{name}.step fails", lambda action=action, t=t: env.step(action, None, t))
            seen = _seen(source, step.observation, f"{name}.step")
            for path, part, values in parts(source.observation_space, seen):
                most[path] = part, max(values.max(initial=0), most.get(path, (part, 0))[1])
            if not np.isfinite(step.reward).all():
                raise InputError(f"{name}.step: the reward became {step.reward[~np.isfinite(step.reward)][0]}")
            ended += int(np.sum(step.over))
    finally:
        env.close()
    checks += [
        Check("observations have the shapes and lie inside their space"),
        Check("actions are accepted as training sends them"),
        Check("rewards are finite"),
        *notes_of_bytes(most),
    ]
    return Report(subject=name, checks=tuple(checks), figures={"episodes that ended": float(ended)})


def _told(what: str, call: Callable[[], PyTree]) -> PyTree:
    try:
        return call()
    except InputError:
        raise
    except Exception as error:  # whatever a user's environment raises
        first = (str(error).strip() or "without a word").splitlines()[0]
        raise InputError(f"{what}: {type(error).__name__}: {first}{line_of(error)}") from None


def _seen(source: HostSource, observation: PyTree, what: str) -> PyTree:
    """Return observations [B, ...] as the agent sees them, after checking that they are inside their space."""
    space = source.observation_space
    seen = jax.tree.map(np.asarray, _told(f"{what}: the observation", lambda: source.prepare(observation)))
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), seen)
    same_struct(f"{what}: observation", one, space.struct, "observation_space")
    for path, part, values in parts(space, seen):
        if not all(bool(part.contains(value)) for value in values):
            raise InputError(
                f"{what}: observation{path} reached {values.min()} .. {values.max()}, outside its space {part}"
            )
    return seen
