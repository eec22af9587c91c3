"""Names become code in one place only: no other code imports or evaluates a name that it is given."""

import ast

import pytest

from tests.helpers.sources import modules

LOOKUPS = {"__import__", "entry_points", "find_spec", "import_module", "run_module", "run_path"}
NEVER = {"eval", "exec"} | {f"{of}.{name}" for of in ("pickle", "marshal", "dill") for name in ("load", "loads")}
BY_NAME = {  # where a name that is not a literal is imported or looked up: where it comes from
    ("purerl.trust.names", "load"): "the door: it asks first",
    ("purerl.trust.names", "CurrentFolder.find_spec"): "a statement of a module that the user named",
    ("purerl.commands.shield", "_Matplotlib.find_spec"): "matplotlib",
    ("purerl", "__getattr__"): "the table of public names",
    ("purerl", "_hint"): "an attribute in the code of the user",
    ("purerl.registry", "load"): "the catalog",
    ("purerl.registry", "check_id"): "a constant",
    ("purerl.registry", "_adapter"): "the table of suites",
    ("purerl.registry", "installed"): "the table of suites",
    ("purerl.commands.cli", "Commands.get_command"): "the table of commands",
    ("purerl.pool", "make"): "a table",
    ("purerl.planning.search", "__getattr__"): "a table",
    ("purerl.replay.uniform", "__getattr__"): "a table",
    ("purerl.reporting.sinks", "require"): "a table",
    ("purerl.run.export", "check"): "a table",
    ("purerl.run.results", "import_packages"): "a tuple",
    ("purerl.envs.adapters.jaxmarl", "_construct"): "a table",
}


def lookups(tree):
    """Yield (function, called, argument) of each call in a file that may turn a name into code; None: no literal."""

    def visit(node, path):
        for inner in ast.iter_child_nodes(node):
            defines = isinstance(inner, ast.FunctionDef | ast.ClassDef)
            if isinstance(inner, ast.Call):
                first = inner.args[0] if inner.args else None
                literal = first.value if isinstance(first, ast.Constant) else None
                yield ".".join(path), ast.unparse(inner.func), literal
            yield from visit(inner, [*path, inner.name] if defines else path)

    yield from visit(tree, [])


def through_no_door(module, tree):
    """Return the calls of a file that turn a name into code without asking whether it is trusted."""
    return [
        f"{module}.{function}: {called}"
        for function, called, literal in lookups(tree)
        if called in NEVER
        or (called.rpartition(".")[2] in LOOKUPS and literal is None and (module, function) not in BY_NAME)
    ]


def test_names_become_code_behind_one_door():
    assert not [found for module, tree in modules().items() for found in through_no_door(module, tree)]
    used = {(module, function) for module in modules() for function, *_ in lookups(modules()[module])}
    assert BY_NAME.keys() <= used, "an exception that nothing needs"


@pytest.mark.parametrize(
    "code",
    [
        "importlib.import_module(name)",
        "__import__(table['algorithm'])",
        "getattr(importlib.import_module(module), name)",
        "importlib.metadata.entry_points(group=name)",
        "class A:\n    def f(self):\n        eval('1')",
        "pickle.load(file)",
    ],
)
def test_the_rule_sees_what_it_forbids(code):
    assert through_no_door("purerl.x", ast.parse(code))


def test_arrays_are_no_pickles():
    """NumPy loads pickles only where a call allows it."""
    given = [word.arg for tree in modules().values() for word in ast.walk(tree) if isinstance(word, ast.keyword)]
    allowed = [
        word.value
        for tree in modules().values()
        for word in ast.walk(tree)
        if isinstance(word, ast.keyword) and word.arg == "allow_pickle"
    ]
    assert "allow_pickle" in given and not [ast.unparse(value) for value in allowed if ast.unparse(value) != "False"]


SHOWN = {"annotate", "set_title", "set_xlabel", "set_ylabel", "suptitle", "text", "set_xticks", "set_yticks"}
DRAWING = {"purerl.reporting.plot", "purerl.reporting.compare", "purerl.sweeps.plot", "purerl.evolution.plot"}
DRAWING |= {"purerl.extensions.levels.level_picture"}
OWN_TEXTS = {
    'f"A = {advantage:g}"',
    "[]",
    "title",
}  # a number, none, and what was made by literal


def shown_raw(tree):
    """Return the texts that a file gives to Matplotlib as they are: those of a file may be formulas."""
    found = []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        texts = [word.value for word in call.keywords if word.arg == "label"]
        texts += call.args[:1] if name in SHOWN - {"text", "set_xticks", "set_yticks"} else []
        texts += call.args[2:3] if name == "text" else call.args[1:2] if name in ("set_xticks", "set_yticks") else []
        found += [text for text in map(ast.unparse, texts) if "literal" not in text and not text.startswith(("'", '"'))]
    return [text for text in found if text.replace("'", '"') not in OWN_TEXTS]


def test_texts_in_pictures_are_literal():
    """In modules that plot, each text that is not a constant passes through `plot.literal`."""
    uses = {module for module, tree in modules().items() if "matplotlib" in ast.unparse(tree)}
    assert {module for module in uses if "set_title" in ast.unparse(modules()[module])} <= DRAWING
    assert not {module: raw for module in DRAWING if (raw := shown_raw(modules()[module]))}
    assert shown_raw(ast.parse("axes.set_title(name)\naxes.plot(x, label=f'{name}')")) == ["name", "f'{name}'"]


READS = {"loads", "open", "read_bytes", "read_text", "safe_open", "fromfile", "genfromtxt", "loadtxt"}
LOADS = {"json.load", "np.load", "ocp.load", "tomllib.load"}
READERS = {  # functions that open files or parse what they hold, apart from `trust.reading`: what they read
    ("purerl.zoo", "names"): "a list of our own",
    ("purerl.settings.agent_file", "_sorted"): "bytes just made",
    ("purerl.settings.agent_file", "_opened"): "a file that was checked",
    ("purerl.devices.memory", "_available"): "/proc",
    ("purerl.devices.memory", "_group_limits"): "/proc",
    ("purerl.devices.memory", "_limit"): "/sys",
    ("purerl.extensions.host.env_thread", "_new"): "writes",
    ("purerl.extensions.host.replay_failure", "play_again"): "environments",
    ("purerl.extensions.host.trainer", "HostTrainer._open"): "environments",
    ("purerl.extensions.host.trainer", "HostTrainer.evaluate"): "environments",
    ("purerl.testing.host", "check_host_environment"): "environments",
    ("purerl.networks.linear_rnn", "LinearRNN._read"): "a gate",
    ("purerl.run.folders", "lock"): "a file that was checked, for its lock",
    ("purerl.run.checkpoint", "_read"): "a checkpoint that was checked, by Orbax",
    ("purerl.run.checksums", "of_arrays"): "what other processes say",
    ("purerl.run.stop", "_leave_terminal"): "/dev/null",
    ("purerl.reporting.video", "save.write"): "a film just made",
    ("purerl.reporting.files", "write_whole"): "writes",
    ("purerl.reporting.files", "append"): "writes",
}


def test_files_are_read_by_one_reader():
    files = {name: tree for name, tree in modules().items() if not name.startswith(("purerl.envs", "purerl.algos"))}
    found = {
        (module, function)
        for module, tree in files.items()
        for function, called, _ in lookups(tree)
        if (called.rpartition(".")[2] in READS or called in LOADS) and module != "purerl.trust.reading"
    }
    assert not found - READERS.keys()
    assert not READERS.keys() - found, "an exception that nothing needs"
