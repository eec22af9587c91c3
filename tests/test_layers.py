"""Who may import whom, read from the source."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONTRACTS = {"errors", "fields", "host_environment", "spaces", "types"}
LOOPS = {"evaluate", "host", "rebuild", "starts", "train", "vector", "wrappers"}
TOOLS = {  # may import anything
    "__init__",
    "__main__",
    "benchmark",
    "cache",
    "checkpoint",
    "cli",
    "commands",
    "compare",
    "config",
    "devices",
    "display",
    "distributed",
    "evolution",
    "explain",
    "failures",
    "host_program",
    "kernels",
    "lanes",
    "log",
    "named",
    "plan",
    "plot",
    "policies",
    "pool",
    "program",
    "registry",
    "render",
    "run",
    "sizing",
    "summary",
    "sweeps",
    "tensorboard",
    "threads",
    "testing",
    "tournament",
    "trained",
}
HEAVY = {
    "ale_py",
    "brax",
    "craftax",
    "distrax",
    "evosax",
    "dm_env",
    "envpool",
    "gymnasium",
    "gymnax",
    "jaxmarl",
    "jumanji",
    "matplotlib",
    "mujoco",
    "mujoco_playground",
    "orbax",
    "pgx",
    "PIL",
    "scipy",
    "tensorboardX",
}
ITS_OWN = {  # files that are one package's side, imported where it is used
    "envs/adapters/gymnasium.py": {"gymnasium"},
    "purerl/pool/dm_pool.py": {"dm_env"},
    "purerl/pool/gymnasium_pool.py": {"gymnasium"},
}


def modules():
    files = [*ROOT.glob("purerl/*.py"), *ROOT.glob("purerl/wrappers/*.py"), *ROOT.glob("purerl/testing/*.py")]
    files += [*ROOT.glob("purerl/commands/*.py"), *ROOT.glob("purerl/pool/*.py"), *ROOT.glob("purerl/host/*.py")]
    files += [*ROOT.glob("purerl/sweeps/*.py"), *ROOT.glob("purerl/evolution/*.py")]
    files += [*ROOT.glob("purerl/benchmark/**/*.py")]
    files += [*ROOT.glob("envs/**/*.py"), *ROOT.glob("algos/**/*.py")]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in files}


MODULES = modules()


def imported(tree, everywhere=True):
    """Return the dotted names that a file imports, `from a.b import c` as "a.b.c"; or only those at its top level."""
    names = set()
    for node in ast.walk(tree) if everywhere else tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def own(tree):
    """Return the parts of purerl that a file imports: "types", "vector", "envs", ..."""
    return {name.split(".")[1] for name in imported(tree) if name.startswith("purerl.")}


def kind(path):
    if path.startswith("purerl/wrappers/"):
        return "loops"
    if not path.startswith("purerl/"):
        return path.split("/")[0]
    name = path.split("/")[1].removesuffix(".py")
    for label, names in (("contracts", CONTRACTS), ("loops", LOOPS), ("tools", TOOLS)):
        if name in names:
            return label
    return "maths"


MATHS = {path.split("/")[1].removesuffix(".py") for path in MODULES if kind(path) == "maths"}
ALLOWED = {
    "contracts": CONTRACTS,
    "maths": CONTRACTS | MATHS,
    "loops": CONTRACTS | MATHS | LOOPS,
    "algos": CONTRACTS | MATHS,
    "envs": CONTRACTS | {"envs"},
}


@pytest.mark.parametrize("path", [path for path in MODULES if kind(path) in ALLOWED])
def test_layers(path):
    assert own(MODULES[path]) <= ALLOWED[kind(path)]


@pytest.mark.parametrize("path", [path for path in MODULES if kind(path) == "contracts"])
def test_contracts_import_jax_only(path):
    libraries = {name.split(".")[0] for name in imported(MODULES[path])} - {"purerl", "jax", "numpy"}
    standard = {"collections", "dataclasses", "difflib", "math", "typing"}
    assert libraries <= standard


@pytest.mark.parametrize("path", MODULES)
def test_heavy_packages_are_imported_where_they_are_used(path):
    names = imported(MODULES[path], everywhere=False)
    assert not {name.split(".")[0] for name in names} & (HEAVY - ITS_OWN.get(path, set()))


def test_the_rules_see_what_they_forbid():
    assert {"types", "fields"} <= own(MODULES["purerl/vector.py"]) | own(MODULES["purerl/types.py"])
    assert own(ast.parse("def f():\n    from purerl import train\n    import purerl.envs.classic")) == {"train", "envs"}
    assert len(MODULES) > 40 and {"gae", "returns"} & MATHS
