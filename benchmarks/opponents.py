"""Frameworks to compare with purerl, and the command that starts each in a temporary environment of its own."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from purerl.errors import InputError, unknown


class Opponent(NamedTuple):
    """A framework that trains the same tasks, or steps environments on the host."""

    name: str
    worker: str  # script in workers/
    packages: tuple[str, ...]  # packages of the virtual environment that it runs in
    algorithms: tuple[str, ...]  # algorithms that it has, with the same settings
    needs_checkout: bool = False  # it is not a package
    suites: tuple[str, ...] = ("",)  # whose environments it trains on; "": the native ones, which it has as its own
    slow: bool = False  # minutes for what others do in seconds: measured once
    checkout: str | None = None
    uses_jax: bool = True
    python: str | None = None  # an interpreter that has it, instead of a temporary environment
    site: str | None = None  # a folder of packages that come before the interpreter's own


TRAINERS = {
    "rejax": Opponent(
        name="rejax",
        worker="with_rejax.py",
        packages=("rejax==0.1.3", "gymnax<1", "setuptools<81"),
        algorithms=("ppo",),
    ),
    "purejaxrl": Opponent(
        name="purejaxrl",
        worker="with_purejaxrl.py",
        packages=("gymnax>=1", "distrax", "optax", "flax", "flashbax", "six", "evosax>=0.2,<0.3"),
        algorithms=("ppo", "dqn"),
        needs_checkout=True,
    ),
    "purejaxql": Opponent(
        name="purejaxql",
        worker="with_purejaxql.py",
        packages=("gymnax<1", "setuptools<81", "chex", "optax", "flax", "six"),
        algorithms=("pqn",),
        needs_checkout=True,
    ),
    "sb3": Opponent(
        name="sb3",
        worker="with_sb3.py",
        packages=("stable-baselines3", "torch"),
        algorithms=("ppo", "dqn", "sac"),
        slow=True,
        uses_jax=False,
    ),
    "torch": Opponent(  # layers alone
        name="torch", worker="with_torch.py", packages=("torch", "numpy"), algorithms=(), uses_jax=False
    ),
    "brax": Opponent(
        name="brax", worker="with_brax.py", packages=("brax>=0.14,<0.15",), algorithms=("ppo", "sac"), suites=("brax",)
    ),
    "pgx": Opponent(
        name="pgx",
        worker="with_pgx.py",
        packages=("pgx>=2.6", "dm-haiku", "mctx", "optax", "distrax", "pydantic"),
        algorithms=("ppo", "alphazero"),
        suites=("pgx",),
        needs_checkout=True,
    ),
    "jaxmarl": Opponent(
        name="jaxmarl",
        worker="with_jaxmarl.py",
        packages=("jaxmarl==0.2.0", "distrax", "optax", "flax", "flashbax", "safetensors"),
        algorithms=("ppo", "mappo", "qmix"),
        suites=("jaxmarl",),
        needs_checkout=True,
    ),
    "cleanrl": Opponent(
        name="cleanrl",
        worker="with_cleanrl.py",
        packages=(
            "torch",
            "numpy<2",
            "envpool==0.8.4",
            "gym==0.23.1",
            "gymnasium==0.29.1",
            "mujoco==2.3.3",
            "imageio",
            "opencv-python-headless<4.12",
        ),
        algorithms=("ppo", "sac"),
        suites=("envpool", "gymnasium"),
        needs_checkout=True,
        uses_jax=False,
    ),
    "craftax": Opponent(
        name="craftax",
        worker="with_craftax.py",
        packages=("craftax>=1.5", "distrax", "optax", "flax", "orbax-checkpoint"),
        algorithms=("ppo",),
        suites=("craftax",),
        needs_checkout=True,
    ),
}
HOSTS = {  # environments on the host, by the names that Gymnasium gave them
    name: Opponent(
        name=name, worker="with_vector_environments.py", packages=packages, algorithms=(name,), uses_jax=False
    )
    for name, packages in (("gymnasium", ("gymnasium>=1.2,<1.4",)), ("envpool", ("envpool>=1.2.5", "gymnasium<1.4")))
}


def chosen(names: Sequence[str], here: Path | None = None) -> tuple[list[Opponent], list[Opponent], bool]:
    """Return (trainers, hosts of environments, whether gymnax is one) that `--against` names.

    Args:
      names: such as "sb3"; "sb3=PYTHON" for an interpreter that has it; "purejaxrl=FOLDER" for a checkout. gymnax is
        one of purerl's own dependencies and is measured in this process.
      here: a folder. Opponents then run in this Python, without the network; a subfolder of an opponent's name has
        packages that only it uses.

    Raises:
      InputError: if an opponent is unknown, or is not a package and its checkout is missing.
    """
    known = TRAINERS | HOSTS
    found = []
    for text in names:
        name, _, place = text.partition("=")
        if name == "gymnax":
            continue
        if name not in known:
            raise unknown("opponent", name, (*known, "gymnax"))
        opponent = known[name]
        if opponent.needs_checkout and not (place and Path(place).is_dir()):
            raise InputError(f"{name} is not a package: --against {name}=FOLDER names a checkout of it")
        if place and not opponent.needs_checkout and shutil.which(place) is None:
            raise InputError(f"--against {name}={place}: that is no Python interpreter")
        opponent = opponent._replace(**{"checkout" if opponent.needs_checkout else "python": place or None})
        if here is not None and opponent.python is None:
            own = here / name
            opponent = opponent._replace(python=sys.executable, site=str(own) if own.is_dir() else None)
        found.append(opponent)
    trainers = [opponent for opponent in found if opponent.name in TRAINERS]
    return trainers, [opponent for opponent in found if opponent.name in HOSTS], "gymnax" in names


def command(opponent: Opponent, workers: Path) -> list[str]:
    """Return the command that starts an opponent: its own Python, or one that uv makes, with the JAX of here."""
    import jax

    script = str(workers / opponent.worker)
    if opponent.python is not None:
        return [opponent.python, script]
    packages = [*opponent.packages, *([f"jax=={jax.__version__}"] if opponent.uses_jax else [])]
    line = [shutil.which("uv") or "uv", "run", "--quiet", "--no-project", "--isolated"]
    return [*line, *(f"--with={package}" for package in packages), "python", script]


def environment(opponent: Opponent | None) -> dict[str, str]:
    """Return the environment variables of the process of an opponent, or of purerl."""
    if opponent is None or opponent.site is None:
        return dict(os.environ)
    return os.environ | {"PYTHONPATH": os.pathsep.join([opponent.site, os.environ.get("PYTHONPATH", "")])}
