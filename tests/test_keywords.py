"""Long calls name their arguments, so that swapped arguments cannot go unnoticed.

Records with three or more fields are built by keyword, and no call has six positional arguments or more.
"""

import ast
from pathlib import Path

from tests.helpers.sources import parsed

ROOT = Path(__file__).parent.parent
FOLDERS = ("purerl", "algos", "envs", "benchmarks", "scripts", "tools")
MOST = 5  # positional arguments of a call
POSITIONAL = {  # names of functions that take arguments by position only
    *("reshape", "transpose", "partial"),  # take any number of arguments
    *("act", "train", "_advance", "traced"),  # compiled or vmapped: their arguments' axes go by position
    "cond",  # JAX's: its operands
    "auto_detect_unset_distributed_params",  # JAX's
}


def trees():
    """Return the syntax tree of every file of the project, by its path."""
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    mounted = lambda path: path.parts[:2] in {("purerl", "envs"), ("purerl", "algos"), ("purerl", "configs")}
    names = (path.relative_to(ROOT) for path in paths)
    return {path: parsed(ROOT / path) for path in names if not mounted(path)}


def is_record(node):
    """Whether a class is a NamedTuple or a dataclass."""
    marks = [*node.bases, *node.decorator_list]
    names = {getattr(mark.func if isinstance(mark, ast.Call) else mark, "attr", None) for mark in marks}
    names |= {getattr(mark.func if isinstance(mark, ast.Call) else mark, "id", None) for mark in marks}
    return bool(names & {"NamedTuple", "dataclass", "pytree"})


def records(found):
    """Return the names of the records with three or more fields."""
    classes = [node for tree in found.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = lambda node: sum(isinstance(statement, ast.AnnAssign) for statement in node.body)
    return {node.name for node in classes if is_record(node) and fields(node) >= 3}


def of_others(tree):
    """Return the names that a file imports from other packages, such as `gymnasium.spaces`."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    others = [node for node in imports if (node.module or "").split(".")[0] not in (*FOLDERS, "tests")]
    return {alias.asname or alias.name for node in others for alias in node.names}


def by_position(tree, names):
    """Yield (line, class) where a record is built from three or more positions, or from a sequence of them."""
    others = of_others(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", None))
            if getattr(getattr(node.func, "value", None), "id", name) in others:
                continue
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            if name in names and (len(node.args) >= 3 or starred):
                yield node.lineno, name


def long_calls(tree):
    """Yield (line, function) of calls with more positional arguments than `MOST`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and len(node.args) > MOST:
            name = getattr(node.func, "id", getattr(node.func, "attr", None))
            if name not in POSITIONAL:
                yield node.lineno, name


def test_records_are_built_by_keyword():
    found = trees()
    names = records(found)
    assert {"Rollout", "Samples", "Algorithm", "TimeStep", "GradientPlan"} <= names
    wrong = {path: list(by_position(tree, names)) for path, tree in found.items()}
    places = [f"{path}:{line} {name}" for path, lines in wrong.items() for line, name in lines]
    assert not places, "\n".join(places)


def test_long_calls_name_their_arguments():
    product = {path: tree for path, tree in trees().items() if path.parts[0] in ("purerl", "algos", "envs")}
    long = {path: found for path, tree in product.items() if (found := list(long_calls(tree)))}
    assert not long, "\n".join(f"{path}:{line} {name}" for path, found in long.items() for line, name in found)


def test_the_rules_see_what_they_forbid():
    long = lambda code: list(long_calls(ast.parse(code)))
    assert long("f(1, 2, 3, 4, 5, 6)") == long("m.f(1, 2, 3, 4, 5, *rest)") == [(1, "f")]
    assert not long("f(1, 2, 3, 4, 5, sixth=6)") and not long("x.reshape(1, 2, 3, 4, 5, 6)")
    names = {"Rollout"}
    seen = lambda code: list(by_position(ast.parse(code), names))
    assert seen("Rollout(a, b, c)") == seen("types.Rollout(*columns)") == [(1, "Rollout")]
    assert not seen("Rollout(a, b, mask=c)") and not seen("Other(a, b, c)")
