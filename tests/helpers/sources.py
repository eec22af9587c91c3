"""The package's own files as syntax trees, and what they import; parsed once, by the tests that ask."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[2]


@functools.cache
def parsed(path):
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def modules():
    """Return {dotted name: syntax tree} of the package; envs and algos are linked into it."""
    found = {}
    for folder, package in (("purerl", "purerl"), ("envs", "purerl.envs"), ("algos", "purerl.algos")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if folder == "purerl" and parts[0] in ("envs", "algos"):
                continue
            found[".".join([package, *parts]).removesuffix(".__init__")] = parsed(path)
    return found


def statements(body):
    """Yield the statements of a body at any depth, except for those that only type checkers see."""
    for statement in body:
        yield statement
        for_types = isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            if not (for_types and part == "body"):
                yield from statements(getattr(statement, part, ()))


def imported(tree, within_functions=True):
    """Return the dotted names that a file imports, `from a.b import c` as "a.b.c"; or only those at its top level."""
    names = set()
    for node in statements(tree.body) if within_functions else tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def edges(trees):
    """Return {module: the modules of the package that it imports}; a name in a module counts as that module."""
    found = {}
    for module, tree in trees.items():
        targets = set()
        for name in imported(tree):
            while name not in trees and "." in name:
                name = name.rsplit(".", 1)[0]
            if name in trees and not module.startswith(name + "."):  # not the package that the module is in
                targets.add(name)
        found[module] = targets - {module}
    return found


@functools.cache
def package_edges():
    """Return the edges of the package."""
    return edges(modules())
