"""A failure of host environments, played again from what the run wrote down."""

import json
from pathlib import Path

import numpy as np

from purerl import registry
from purerl.errors import InputError
from purerl.host_environment import HostSource

EVALUATION = "evaluation"  # the group whose environments play the task itself


def play_again(notes: Path | str) -> None:
    """Take the steps that led to a failure again, in this thread: what an environment raised, it raises again.

    One that hung hangs again; Ctrl-C or a debugger shows where.

    Args:
      notes: failure-0.json in the run's folder; the actions are in the .npz beside it.

    Raises:
      InputError: if there is nothing to play: no such file, a JAX environment, or a history whose beginning was let go.
    """
    path = Path(notes).with_suffix(".json")
    if not path.exists():
        raise InputError(f"{path} is not there; a failure of a run's environments is in its folder as failure-0.json")
    told = json.loads(path.read_text(encoding="utf-8"))
    if told["from_step"]:
        raise InputError(f"{path}: only the last {told['steps'] - told['from_step']:,} steps were kept")
    source = registry.make(told["environment"], **told["parameters"])
    if not isinstance(source, HostSource):
        raise InputError(f"{path}: {told['environment']} is a JAX environment; play it in JAX")
    env = source.open(told["num_envs"], told["seed"], parallel=False, evaluation=told["group"] == EVALUATION)
    try:
        for t, action in enumerate(np.load(path.with_suffix(".npz"), allow_pickle=False)["actions"]):
            if t in told["resets"]:
                env.reset(None)
            env.step(action, None, 0)
    finally:
        env.close()
