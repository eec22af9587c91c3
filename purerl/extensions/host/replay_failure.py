"""Reproduces a failure of host environments from the actions that the run recorded."""

from pathlib import Path

import jax

from purerl import registry
from purerl.errors import InputError
from purerl.host_environment import HostSource
from purerl.trust import checked, reading, trusting

EVALUATION = "evaluation"  # the group whose environments play the task itself

NEEDED: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("from_step", "steps", "seed", "num_envs"), int),
    "environment": str,
    "parameters": dict,
    "group": (int, str),
    "resets": list,
}


def play_again(notes: Path | str, trust: bool = False) -> None:
    """Replay the actions that led to a failure, in this thread: the environment raises the same exception again.

    An environment that hung hangs again; Ctrl-C or a debugger shows where.

    Args:
      notes: failure-0.json in the run's folder; the actions are in the .npz file next to it.
      trust: whether to import the module that the file names, if the environment is a module:Class.

    Raises:
      InputError: if there is nothing to replay: no such file, a JAX environment, a history without its beginning, or an
        environment of a module that is not trusted.

    Example:
      >>> import purerl
      >>> purerl.play_again("runs/none/failure-0.json")
      Traceback (most recent call last):
      ...
      purerl.errors.InputError: ...
    """
    path = Path(notes).with_suffix(".json")
    if not path.exists():
        raise InputError(
            f"{path} does not exist; a run records a failure of its environments in its folder as failure-0.json"
        )
    record = reading.json_object(path)
    wrong = next((name for name, kind in NEEDED.items() if not isinstance(record.get(name), kind)), None)
    if wrong is not None:
        raise InputError(f"{path} is damaged: it lacks {wrong}, or it has the wrong type")
    if record["from_step"]:
        raise InputError(f"{path}: only the last {record['steps'] - record['from_step']:,} steps were kept")
    with trusting(trust):
        checked(record["environment"], path)
        source = registry.environment(record["environment"], record["parameters"])
    if not isinstance(source, HostSource):
        raise InputError(f"{path}: {record['environment']} is a JAX environment; play it in JAX")
    structure = jax.tree.structure(source.action_space.struct)
    with reading.arrays(path.with_suffix(".npz"), reading.TABLE) as (_, file):
        leaves = [file[f"actions{i or ''}"] for i in range(structure.num_leaves)]
    env = source.open(record["num_envs"], record["seed"], parallel=False, evaluation=record["group"] == EVALUATION)
    try:
        for t in range(len(leaves[0])):
            if t in record["resets"]:
                env.reset(None)
            env.step(jax.tree.unflatten(structure, [leaf[t] for leaf in leaves]), None, 0)
        if len(leaves[0]) in record["resets"]:
            env.reset(None)
    finally:
        env.close()
