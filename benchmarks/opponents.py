"""Who can be measured beside purerl, and how each is started in a throw-away environment of its own."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from purerl.errors import InputError, unknown


class Opponent(NamedTuple):
    """A framework that trains the same tasks."""

    name: str
    worker: str  # its script in workers/
    packages: tuple[str, ...]  # what the environment it runs in is made of
    algorithms: tuple[str, ...]  # that it has, with the same settings
    needs_checkout: bool = False  # it is no package
    slow: bool = False  # minutes for what others do in seconds: measured once
    checkout: str | None = None
    uses_jax: bool = True
    python: str | None = None  # an interpreter that has it, in place of a throw-away environment


TRAINERS = {
    entry.name: entry
    for entry in (
        Opponent("rejax", "with_rejax.py", ("rejax==0.1.3", "gymnax<1", "setuptools<81"), ("ppo",)),
        Opponent(
            "purejaxrl",
            "with_purejaxrl.py",
            ("gymnax>=1", "distrax", "optax", "flax", "flashbax", "six"),
            ("ppo", "dqn"),
            needs_checkout=True,
        ),
        Opponent(
            "purejaxql",
            "with_purejaxql.py",
            ("gymnax<1", "setuptools<81", "chex", "optax", "flax", "six"),
            ("pqn",),
            needs_checkout=True,
        ),
        Opponent(
            "sb3", "with_sb3.py", ("stable-baselines3", "torch"), ("ppo", "dqn", "sac"), slow=True, uses_jax=False
        ),
    )
}
HOSTS = {  # whose environments are stepped on the host, by the names that Gymnasium gave them
    name: Opponent(name, "with_vector_environments.py", packages, (name,), uses_jax=False)
    for name, packages in (("gymnasium", ("gymnasium>=1.2,<1.4",)), ("envpool", ("envpool>=1.2.5", "gymnasium<1.4")))
}
ENVIRONMENTS = ("gymnax", *HOSTS)  # gymnax's are measured in this process: it is one of our own dependencies


def chosen(names: Sequence[str]) -> tuple[list[Opponent], list[str]]:
    """Return (trainers, suites of environments) that `--against` names.

    Args:
      names: such as "sb3"; "sb3=PYTHON" for an interpreter that has it; "purejaxrl=FOLDER" for a checkout. What steps
        environments on the host counts as a trainer, of an algorithm by its own name.

    Raises:
      InputError: if one is unknown, or is no package and its checkout is not there.
    """
    trainers, suites = [], []
    for text in names:
        name, _, place = text.partition("=")
        if name not in TRAINERS and name not in ENVIRONMENTS:
            raise unknown("opponent", name, (*TRAINERS, *ENVIRONMENTS))
        if name == "gymnax":
            suites.append(name)
            continue
        opponent = TRAINERS.get(name) or HOSTS[name]
        if opponent.needs_checkout and not (place and Path(place).is_dir()):
            raise InputError(f"{name} is not a package: --against {name}=FOLDER names a checkout of it")
        if place and not opponent.needs_checkout and shutil.which(place) is None:
            raise InputError(f"--against {name}={place}: that is no Python interpreter")
        trainers.append(opponent._replace(**{"checkout" if opponent.needs_checkout else "python": place or None}))
    return trainers, suites


def command(opponent: Opponent, workers: Path) -> list[str]:
    """Return the command that starts it: its own Python, or one that uv makes, with the JAX that runs here."""
    import jax

    if opponent.python is not None:
        return [opponent.python, str(workers / opponent.worker)]

    packages = list(opponent.packages)
    if opponent.uses_jax:
        packages.append(f"jax=={jax.__version__}")
    uv = shutil.which("uv") or "uv"
    line = [uv, "run", "--quiet", "--no-project", "--isolated"]
    return [*line, *(f"--with={package}" for package in packages), "python", str(workers / opponent.worker)]
