"""Trained agents and discovered objectives by name.

The objectives and the smallest agents ship in this package; the other agents are in the top-level `zoo/` of a clone.
"""

from pathlib import Path

from purerl.errors import InputError, unknown

PACKAGE = Path(__file__).parent
CLONE = PACKAGE.parent.parent / "zoo"
OBJECTIVES = PACKAGE / "objectives"
NAMES = PACKAGE / "repository.txt"  # names of the agents in the clone's folder, for packages without it


def names() -> list[str]:
    """Return the names of all published agents, such as dqn-Asterix-MinAtar, sorted."""
    return sorted({*_found(PACKAGE), *NAMES.read_text(encoding="utf-8").split()})


def here() -> list[str]:
    """Return the names of the agents whose files are on this machine, sorted."""
    return sorted({*_found(PACKAGE), *_found(CLONE)})


def path_of(name: str) -> Path:
    """Return the file of an agent.

    Raises:
      InputError: if no agent has this name, or if its file is only in the repository and this is not a clone.
    """
    for folder in (PACKAGE, CLONE):
        if name in _found(folder):
            return folder / f"{name}.safetensors"
    if name in names():
        raise InputError(f"zoo/{name} is not in the package: its file is in the zoo/ folder of purerl's repository")
    raise unknown("agent of the zoo", name, names())


def objectives() -> list[str]:
    """Return the names of the published objectives, sorted."""
    return sorted(_found(OBJECTIVES))


def objective_path(name: str) -> Path:
    """Return the file of an objective.

    Raises:
      InputError: if no objective has this name.
    """
    if name not in objectives():
        raise unknown("objective of the zoo", name, objectives())
    return OBJECTIVES / f"{name}.safetensors"


def _found(folder: Path) -> list[str]:
    return [path.stem for path in folder.glob("*.safetensors")]
