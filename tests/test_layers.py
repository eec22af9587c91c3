"""Who may import whom, read from the source. Imports within functions count; those only for type checkers do not.

Every folder and every flat file of `purerl` has a list of its own. A list that allows what nothing uses fails too.
"""

import ast
import functools
import sys

from tests.helpers.sources import ROOT, edges, imported, modules, package_edges

CONTRACTS = {
    "errors": set(),
    "fields": {"errors"},
    "spaces": {"errors", "fields"},
    "types": {"errors", "fields", "spaces"},
    "prng": {"errors"},
    "catalog": set(),
    "trust": {"catalog", "errors"},
    "registry": {"catalog", "errors", "fields", "host_environment", "trust", "types"},
    "agent_groups": {"errors", "spaces", "types"},
    "host_environment": {"errors", "fields", "spaces"},
}
ROOMS = {
    "xla": {"errors", "prng", "types"},
    "devices": {"catalog", "errors", "registry", "types", "xla"},
    "functional": {"errors", "prng", "spaces", "types", "xla"},
    "networks": {"errors", "functional", "spaces", "trust", "types", "xla"},
    "replay": {"devices", "errors", "functional", "spaces", "types"},
    "optim": {"devices", "errors", "fields", "functional", "types", "xla"},
    "planning": {"agent_groups", "functional", "networks", "optim", "spaces", "types", "wrappers", "xla"},
    "algos": {
        "errors",
        "fields",
        "functional",
        "networks",
        "optim",
        "planning",
        "replay",
        "spaces",
        "types",
        "wrappers",
        "xla",
    },
    "envs": {"errors", "fields", "host_environment", "spaces", "trust", "types", "xla"},
    "wrappers": {"agent_groups", "errors", "fields", "host_environment", "spaces", "types", "xla"},
    "loop": {
        "agent_groups",
        "devices",
        "errors",
        "fields",
        "host_environment",
        "prng",
        "registry",
        "spaces",
        "types",
        "wrappers",
        "xla",
    },
    "training": {"errors", "host_environment", "loop", "registry", "settings", "trust", "types"},
    "pool": {"agent_groups", "errors", "loop", "prng", "registry", "spaces", "types", "wrappers", "xla"},
    "testing": {
        "agent_groups",
        "errors",
        "fields",
        "functional",
        "host_environment",
        "loop",
        "networks",
        "prng",
        "registry",
        "settings",
        "spaces",
        "types",
        "xla",
    },
    "settings": {"catalog", "errors", "fields", "host_environment", "loop", "registry", "trust", "types", "zoo"},
    "reporting": {
        "agent_groups",
        "catalog",
        "devices",
        "errors",
        "functional",
        "host_environment",
        "prng",
        "settings",
        "trust",
        "types",
    },
    "run": {
        "agent_groups",
        "catalog",
        "devices",
        "errors",
        "host_environment",
        "loop",
        "prng",
        "registry",
        "replay",
        "reporting",
        "settings",
        "spaces",
        "testing",
        "trust",
        "types",
        "xla",
    },
    "stats": {"functional", "reporting"},
    "profiling": {"devices", "errors", "loop", "prng", "run", "settings", "types", "xla"},
    "sweeps": {
        "devices",
        "errors",
        "host_environment",
        "loop",
        "prng",
        "reporting",
        "run",
        "settings",
        "trust",
        "types",
        "xla",
    },
    "evolution": {
        "agent_groups",
        "catalog",
        "devices",
        "errors",
        "fields",
        "functional",
        "loop",
        "networks",
        "optim",
        "prng",
        "registry",
        "reporting",
        "run",
        "settings",
        "spaces",
        "trust",
        "types",
        "xla",
    },
    "commands": {
        "agent_groups",
        "catalog",
        "devices",
        "errors",
        "evolution",
        "extensions.levels",
        "extensions.self_play",
        "host_environment",
        "profiling",
        "registry",
        "reporting",
        "run",
        "settings",
        "sweeps",
        "testing",
        "trust",
        "zoo",
    },
    "extensions": set(),
    "extensions.groups": {
        "agent_groups",
        "catalog",
        "errors",
        "fields",
        "functional",
        "loop",
        "registry",
        "run",
        "settings",
        "spaces",
        "testing",
        "trust",
        "types",
        "xla",
    },
    "extensions.host": {
        "agent_groups",
        "errors",
        "fields",
        "host_environment",
        "loop",
        "prng",
        "registry",
        "spaces",
        "trust",
        "types",
        "xla",
    },
    "extensions.levels": {
        "errors",
        "fields",
        "functional",
        "host_environment",
        "loop",
        "prng",
        "reporting",
        "run",
        "settings",
        "types",
        "wrappers",
        "xla",
    },
    "extensions.objectives": {"catalog", "errors", "fields", "loop", "registry", "settings", "types"},
    "extensions.planning": {"errors", "fields", "loop", "registry", "types", "wrappers"},
    "extensions.self_tuning": {
        "errors",
        "fields",
        "functional",
        "host_environment",
        "loop",
        "optim",
        "registry",
        "types",
        "xla",
    },
    "extensions.self_play": {
        "agent_groups",
        "errors",
        "extensions.groups",
        "extensions.planning",
        "fields",
        "functional",
        "host_environment",
        "loop",
        "networks",
        "prng",
        "reporting",
        "run",
        "settings",
        "spaces",
        "types",
        "wrappers",
        "xla",
    },
}
ALLOWED = CONTRACTS | ROOMS | {"__main__": {"commands"}, "__init__": {"catalog"}, "zoo": {"errors"}}

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
    "imageio",
    "jax2onnx",
    "matplotlib",
    "mlflow",
    "mujoco",
    "mujoco_playground",
    "orbax",
    "pgx",
    "PIL",
    "scipy",
    "tensorboardX",
    "wandb",
}
SIDE_OF = {  # files that are one package's side, imported where it is used
    "purerl.envs.adapters.gymnasium": {"gymnasium"},
    "purerl.pool.dm_pool": {"dm_env"},
    "purerl.pool.gymnasium_pool": {"gymnasium"},
}


def room(module):
    """Return the folder or flat file of purerl that a module is in: "loop", "types", "extensions.levels", ..."""
    parts = module.split(".")[1:] or ["__init__"]
    return ".".join(parts[:2]) if parts[0] == "extensions" else parts[0]


def circle(graph):
    """Return a circle of a graph {node: successors} as a list of nodes, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node) :]
        if node in done:
            return None
        path.append(node)
        found = next(filter(None, map(visit, sorted(graph.get(node, ())))), None)
        path.pop()
        done.add(node)
        return found

    return next(filter(None, map(visit, sorted(graph))), None)


def longest_chain(graph):
    """Return the longest path in a graph without circles."""

    @functools.cache
    def chain(node):
        return [node, *max(map(chain, sorted(graph.get(node, ()))), key=len, default=[])]

    return max(map(chain, sorted(graph)), key=len)


def room_edges():
    """Return {room: the other rooms that it imports}."""
    found = {room(module): set() for module in modules()}
    for module, targets in package_edges().items():
        found[room(module)] |= {room(target) for target in targets} - {room(module), "__init__"}
    return found


def test_a_room_imports_what_its_list_allows_and_uses_all_of_it():
    used = room_edges()
    assert set(ALLOWED) == set(used), "each folder and each flat file has a list"
    assert not {name: used[name] - ALLOWED[name] for name in used if used[name] - ALLOWED[name]}, "imports not allowed"
    assert not {name: ALLOWED[name] - used[name] for name in used if ALLOWED[name] - used[name]}, "allowances not used"


def test_the_package_itself_is_not_imported():
    """Its public names are for users; the package imports them from where they are defined."""
    names = {name for tree in modules().values() for name in imported(tree) if name.count(".") <= 1}
    assert not {name for name in names if name.startswith("purerl") and name not in modules()}


def test_no_circle_among_files():
    assert circle(package_edges()) is None


def test_storeys():
    """The contracts are the ground floor; at most ten storeys stand on one another."""
    ground = lambda name: "contracts" if name in CONTRACTS else name
    rooms = {}
    for name, used in room_edges().items():
        rooms.setdefault(ground(name), set()).update(ground(other) for other in used)
    rooms["contracts"].discard("contracts")
    assert circle(rooms) is None
    chain = longest_chain({name: used for name, used in rooms.items() if name != "__main__"})
    assert len(chain) <= 10, " > ".join(chain)


def test_flat_files_are_few():
    assert len([path for path in ROOT.glob("purerl/*.py") if not path.stem.startswith("__")]) <= 9


def test_the_loop_reaches_contracts_and_what_runs_programs():
    """Neither networks nor mathematics nor the host: a change there cannot break the loop."""
    reached, todo = set(), [module for module in modules() if room(module) == "loop"]
    while todo:
        new = package_edges()[todo.pop()] - reached
        reached |= new
        todo += new
    assert {room(module) for module in reached} <= {*CONTRACTS, "__init__", "devices", "loop", "wrappers", "xla"}


def libraries(module, **where):
    return {name.split(".")[0] for name in imported(modules()[module], **where)} - sys.stdlib_module_names


def test_contracts_import_jax_and_numpy_only():
    for name in CONTRACTS:
        allowed = {"purerl", "jax", "numpy"}
        assert libraries(f"purerl.{name}") <= allowed, name


def test_heavy_packages_are_imported_where_they_are_used():
    heavy = {name: libraries(name, within_functions=False) & (HEAVY - SIDE_OF.get(name, set())) for name in modules()}
    assert not {name: found for name, found in heavy.items() if found}


def test_a_row_loads_its_extension_where_it_is_used():
    """Every command reads the rows; a run that uses none of them loads none."""
    light = {"options", "tuning"}
    for name, tree in modules().items():
        if name.startswith("purerl.extensions.") and name.endswith(".extension"):
            package = name.removesuffix("extension")
            loaded = {other for other in imported(tree, within_functions=False) if other.startswith(package)}
            assert {other.removeprefix(package).partition(".")[0] for other in loaded} <= light, name
        if name.startswith("purerl.extensions.") and name.count(".") == 2:
            loaded = imported(tree, within_functions=False)
            assert not [other for other in loaded if other.startswith("purerl")], "a package's __init__ loads all of it"


def test_the_rules_see_what_they_forbid():
    lines = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import purerl.algos\n"
    lines += "def f():\n    from purerl.loop import train\n    import purerl.envs.classic"
    names = imported(ast.parse(lines))
    assert names == {"typing.TYPE_CHECKING", "purerl.loop.train", "purerl.envs.classic"}
    trees = {"purerl": ast.parse(""), "purerl.a.b": ast.parse("from purerl.c import d"), "purerl.c": ast.parse("")}
    assert edges(trees) == {"purerl": set(), "purerl.a.b": {"purerl.c"}, "purerl.c": set()}
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"] and circle({"a": {"b", "c"}, "b": {"c"}}) is None
    assert longest_chain({"a": {"b", "c"}, "b": {"c"}}) == ["a", "b", "c"]
    assert len(modules()) > 200 and "purerl.types" in package_edges()["purerl.loop.vector"]
