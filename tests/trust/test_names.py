"""Crafted folders: whatever a file names, nothing of it runs, and the command says so in one line."""

import contextlib
import importlib
import json
import os
import shutil
import sys

import pytest

import purerl
from purerl import registry, trust
from purerl.errors import InputError
from purerl.evolution import evolve
from purerl.extensions.host import replay_failure
from purerl.settings import agent_file
from purerl.settings.runs import settings
from tests.helpers import cli

MODULE = """
import pathlib
pathlib.Path({mark!r}).write_text("it ran")
from tests.helpers.walk import Walk as Env
def start(key):
    pathlib.Path({mark!r}).write_text("it ran")
"""
SWEEP = """format = 1
algorithm = "{algorithm}"
environment = "{environment}"
num_envs = 2
rollout_length = 4
total_timesteps = 80
seeds = 1

[search]
trials = 2

[over]
learning_rate = "0.001:0.01"

# end
"""
EVOLUTION = """format = 1
objective = "{objective}"

[evolution]
strategy = "{strategy}"
population = 2
generations = 1

[task."{task}"]
num_envs = 2

# end
"""


@pytest.fixture
def mark(tmp_path, monkeypatch):
    """A file that the module `crafted` writes when it is imported; the module can be found, here and on the path."""
    (tmp_path / "crafted.py").write_text(MODULE.format(mark=str(tmp_path / "mark")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "mark"
    sys.modules.pop("crafted", None)


@pytest.fixture
def run_of(run_folder, tmp_path):
    """(environment) -> the folder of a run that names it."""

    def make(environment, name="run"):
        folder = tmp_path / name
        shutil.copytree(run_folder, folder)
        (folder / "config.toml").chmod(0o644)
        text = (folder / "config.toml").read_text()
        (folder / "config.toml").write_text(text.replace('environment = "Catch"', f'environment = "{environment}"'))
        return folder

    return make


def refused(capsys, mark, words, *told):
    code, err = cli.told(capsys, *map(str, words))
    assert code == 2 and err.startswith("purerl: error: ") and err.count("\n") == 1, err
    assert all(part in err for part in told), err
    assert not mark.exists(), "code of the folder ran"


READERS = {  # commands that make the environment of a run's folder
    "resume": ("train", "--resume", "run", "--plain"),
    "config": ("train", "--config", "run/config.toml", "--plain"),
    "evaluate": ("evaluate", "run"),
    "play": ("play", "Catch", "--policy", "run", "--terminal"),
    "explain": ("explain", "--config", "run/config.toml"),
    "sweep": ("sweep", "--config", "run/config.toml", "--over", "learning_rate=1e-3:1e-2"),
}


@pytest.mark.parametrize("words", READERS.values(), ids=READERS)
@pytest.mark.parametrize("environment", ["crafted:Env", "gymnasium/crafted:Env-v0"])
def test_a_run_folder_names_a_module(words, environment, run_of, mark, capsys):
    run_of(environment)
    refused(capsys, mark, words, "--trust crafted", environment)


@pytest.mark.parametrize("words", READERS.values(), ids=READERS)
def test_a_function_is_not_called_even_where_its_module_is_trusted(words, run_of, mark, capsys):
    run_of("os:abort")
    refused(capsys, mark, words, "--trust os")
    refused(capsys, mark, (*words, "--trust", "os"), "os:abort is not an environment")


@pytest.mark.parametrize("words", [("train", "ppo"), ("check",), ("explain", "ppo"), ("play", "--terminal")])
def test_a_function_that_the_user_types_is_not_called(words, mark, capsys):
    refused(capsys, mark, (*words, "os:abort"), "os:abort is not an environment")
    refused(capsys, mark, (*words, "crafty:Env"), "no module 'crafty'")


def test_a_run_folder_names_an_algorithm(run_of, mark, capsys):
    folder = run_of("Catch")
    text = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(text.replace('algorithm = "a2c"', 'algorithm = "crafted:start"'))
    for words in READERS.values():
        refused(capsys, mark, words, "--trust crafted", "crafted:start")
    (folder / "config.toml").write_text(text.replace('algorithm = "a2c"', 'algorithm = "os:abort"'))
    for words in READERS.values():
        refused(capsys, mark, (*words, "--trust", "os"), "os:abort has no annotation of its config")


@pytest.mark.parametrize("word", ["start", "frozen", "algorithm", "policy"])
def test_a_group_names_a_crafted_run(word, run_of, mark, capsys):
    run_of("crafted:Env")
    setting = f'[groups.red]\n{word} = "{"run" if word in ("start", "frozen") else "crafted:start"}"\n'
    (mark.parent / "groups.toml").write_text(f'algorithm = "ppo"\nenvironment = "CoinGame"\n\n{setting}')
    words = ("train", "--config", "groups.toml", "--plain")
    refused(capsys, mark, words, "--trust crafted" if word in ("start", "frozen") else "crafted:start")


START = {  # what a run to start from may hold, as a folder or an agent's file
    "algorithm": 'algorithm = "crafted:start"\nenvironment = "CoinGame"\n',
    "environment": 'algorithm = "ppo"\nenvironment = "crafted:Env"\n',
    "group": 'algorithm = "ppo"\nenvironment = "CoinGame"\n[groups.red]\nalgorithm = "crafted:start"\n',
    "extension": 'algorithm = "ppo"\nenvironment = "CoinGame"\nextension = ["crafted:start"]\n',
}


@pytest.mark.parametrize("names", START.values(), ids=START)
def test_a_run_to_start_from_names_a_module(names, mark, capsys):
    """Also where the command names another module, and from Python."""
    text = f"format = 1\n{names}\n# end\n"
    (mark.parent / "one.safetensors").write_bytes(agent_file.pack({}, {"settings": text}))
    (mark.parent / "run").mkdir()
    (mark.parent / "run" / "config.toml").write_text(text)
    for start in ("run", "one.safetensors"):
        words = ("train", "ppo", "CoinGame", "--start", start, "--plain")
        refused(capsys, mark, words)
        refused(capsys, mark, (*words, "--trust", "json"))
        with pytest.raises(InputError):
            purerl.train("ppo", "CoinGame", start=start, out=mark.parent / "new", display="none")
    assert not mark.exists() and not (mark.parent / "new").exists()


def test_a_task_of_an_evolution_names_a_module(mark, capsys):
    (mark.parent / "evolve").mkdir()
    text = EVOLUTION.format(objective="ppo", task="Catch", strategy="openes")
    (mark.parent / "evolve" / "evolve.toml").write_text(text.replace("# end", 'extension = "crafted:start"\n\n# end'))
    refused(capsys, mark, ("evolve", "--resume", "evolve", "--plain"), "crafted")
    refused(capsys, mark, ("meta-evaluate", "evolve"), "crafted")


def test_the_door_asks_whoever_comes(mark):
    """A name that reaches it without having been checked is refused as well."""
    for ask in (
        registry.load,
        registry.algorithm,
        registry.environment,
        lambda name: settings("ppo", name, {}, {"rows": 3}),
    ):
        with pytest.raises(InputError, match="add --trust crafted to import it"):
            ask("crafted:Env")
    assert not mark.exists()
    with pytest.raises(InputError, match="crafted:start is not an environment"):
        purerl.make("crafted:start")
    assert mark.exists()


def test_a_parameter_of_a_suite_names_a_module(mark, run_of, capsys):
    """Some environments of suites make others by name."""
    pytest.importorskip("gymnasium")
    folder = run_of("gymnasium/CartPole-v1")
    text = (
        (folder / "config.toml").read_text().replace("[env]", "[env]\nenv_id = 'crafted:Env'").replace("rows = 5", "")
    )
    (folder / "config.toml").write_text(text)
    refused(
        capsys, mark, ("train", "--config", "run", "--plain"), "--trust crafted", "a parameter of gymnasium/CartPole-v1"
    )
    assert not trust.names_module("5:15") and not trust.names_module("a b:c") and trust.names_module("a.b:c")


def test_modules_of_the_current_folder(tmp_path, monkeypatch):
    """Those that are named and what they import are found, after everything else; what a library looks for is not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    folder = tmp_path / "elsewhere"
    for path in (tmp_path / "ours.py", tmp_path / "ours_too.py", tmp_path / "plugin.py", tmp_path / "spread.py"):
        path.write_text("value = 'here'")
    (tmp_path / "ours.py").write_text("import ours_too, spread.part\nvalue = ours_too.value")
    (folder / "spread").mkdir(parents=True)
    (folder / "spread" / "part.py").write_text("value = 'elsewhere'")
    (folder / "library.py").write_text("try:\n    import plugin\nexcept ImportError:\n    plugin = None")
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    try:
        trust.name_modules(["ours"])
        assert importlib.import_module("ours").value == "here"
        assert importlib.import_module("spread.part").value == "elsewhere"
        assert importlib.import_module("library").plugin is None
        assert str(tmp_path) not in sys.path
    finally:
        for name in set(sys.modules) - before:
            del sys.modules[name]


def test_a_run_that_starts_from_itself(mark, capsys):
    folder = mark.parent / "run"
    folder.mkdir()
    head = 'format = 1\nalgorithm = "ppo"\nenvironment = "CoinGame"\n\n[groups.red]\n'
    (folder / "config.toml").write_text(f'{head}start = "{folder}"\n\n# end\n')
    refused(capsys, mark, ("evaluate", folder), "start from themselves")


@pytest.mark.parametrize(
    "values, told",
    [
        ({"environment": "crafted:Env"}, "--trust crafted"),
        ({"environment": "gymnasium/crafted:Env"}, "--trust crafted"),
        ({"algorithm": "crafted:start"}, "--trust crafted"),
    ],
)
def test_a_sweep_folder(values, told, mark, capsys):
    folder = mark.parent / "sweep"
    folder.mkdir()
    (folder / "sweep.toml").write_text(SWEEP.format(**{"algorithm": "a2c", "environment": "Catch"} | values))
    refused(capsys, mark, ("sweep", "--resume", folder, "--plain"), told)


@pytest.mark.parametrize(
    "values, told",
    [
        ({"objective": "crafted:start"}, "--trust crafted"),
        ({"objective": "logging.config:dictConfig"}, "--trust logging.config"),
        ({"task": "crafted:Env"}, "--trust crafted"),
        ({"task": "gymnasium/crafted:Env"}, "--trust crafted"),
        ({"strategy": "evosax:crafted"}, "unknown strategy"),
        ({"strategy": "evosax:os"}, "unknown strategy"),
        ({"strategy": "crafted:start"}, "unknown strategy"),
    ],
)
def test_an_evolution_folder(values, told, mark, capsys):
    folder = mark.parent / "evolve"
    folder.mkdir()
    defaults = {"objective": "ppo", "task": "Catch", "strategy": "openes"}
    (folder / "evolve.toml").write_text(EVOLUTION.format(**defaults | values))
    refused(capsys, mark, ("evolve", "--resume", folder, "--plain"), told)
    refused(capsys, mark, ("meta-evaluate", folder), told)


@pytest.mark.long
def test_commands_that_read_only_numbers_import_nothing(run_of, mark, capsys):
    run_of("crafted:Env"), run_of("crafted:Env", "other")
    for words in (("plot", "run"), ("plot", "run", "other"), ("compare", "run", "other")):
        assert cli.told(capsys, *words)[0] == 0
        assert not mark.exists()


@pytest.mark.long
def test_a_module_that_the_command_names_is_imported(run_of, mark, capsys):
    """The control: the crafted module can be found, and what it holds is an environment."""
    code, err = cli.told(capsys, "check", "crafted:Env", "--steps", "8")
    assert code == 0 and mark.exists(), err
    run_of("crafted:Env")
    for words in (("--trust", "crafted"), ("a2c", "crafted:Env")):
        config = ("train", "--config", "run/config.toml", "--plain", "--out", f"out{words[0]}")
        code, err = cli.told(capsys, *config, *words)
        assert code == 2 and "unknown parameter of crafted:Env 'rows'" in err  # those of Catch


def test_what_one_command_may_import_the_next_may_not(run_of, mark, capsys):
    run_of("crafted:Env")
    assert "unknown parameter" in cli.told(capsys, "evaluate", "run", "--trust", "crafted")[1]
    mark.unlink()
    sys.modules.pop("crafted")
    refused(capsys, mark, ("evaluate", "run"), "--trust crafted")


@pytest.mark.long
def test_a_process_in_a_crafted_folder(run_of, mark):
    """Files next to a run are never imported, not even as JAX's plugins, which JAX looks for on the whole path."""
    folder = run_of("Catch")
    for name in ("click.py", "numpy.py", "jax_plugins/crafted/__init__.py", "sitecustomize.py", "orbax.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(MODULE.format(mark=str(mark)))
    path = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p and p != str(mark.parent))}
    for words in ((), ("--trust", "json")):
        done = cli.purerl("evaluate", ".", "--episodes", "4", *words, cwd=folder, env=os.environ | path)
        assert done.returncode == 0, done.stderr
        assert "a2c on Catch" in done.stdout and not mark.exists()


def test_from_python(run_of, mark):
    folder = run_of("crafted:Env")
    with pytest.raises(InputError, match="trust=True"):
        purerl.load_run(folder)
    (mark.parent / "evolve.toml").write_text(EVOLUTION.format(objective="ppo", task="crafted:Env", strategy="openes"))
    with pytest.raises(InputError, match="trust=True"):
        evolve.load(mark.parent)
    record = {"from_step": 0, "steps": 1, "environment": "crafted:Env", "parameters": {}}
    record |= {"seed": 0, "num_envs": 1, "group": 0, "resets": [0]}
    (mark.parent / "failure-0.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="trust=True"):
        replay_failure.play_again(mark.parent / "failure-0.json")
    assert not mark.exists()
    with pytest.raises(InputError, match="unknown parameter"):
        purerl.load_run(folder, trust=True)
    assert mark.exists()


def test_an_agent_in_a_file(run_of, mark, tmp_path, capsys):
    """Its settings name what a run's config.toml may name, and no more."""
    text = (run_of("crafted:Env") / "config.toml").read_text()
    (mark.parent / "one.safetensors").write_bytes(agent_file.pack({}, {"settings": text}))
    with pytest.raises(InputError, match="trust=True"):
        purerl.load_run(mark.parent / "one.safetensors")
    for words in (("evaluate", "one.safetensors"), ("play", "one.safetensors", "--terminal")):
        refused(capsys, mark, words, "--trust crafted")


@pytest.mark.long
def test_words():
    assert trust.flags("Catch", "a.b:C", "gymnasium/a.b:C", "d:E") == " --trust a.b --trust d"
    assert trust.checked("ale/Pong-v5", "f") == "ale/Pong-v5"
    with trust.trusting(True):
        assert trust.checked("a.b:C", "f") == "a.b:C"
    with contextlib.suppress(KeyError), trust.trusting(True):
        raise KeyError
    with pytest.raises(InputError, match=r"^f names a.c:D, which is code in the module a.c: add --trust a.c"):
        trust.checked("a.c:D", "f")
