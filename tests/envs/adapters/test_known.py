"""A wrong name is reported at once, from tables that hold for the versions of the suites they were made from."""

import importlib
import subprocess
import sys
from importlib import metadata

import pytest

from purerl import registry
from purerl.catalog.environments import SUITES
from purerl.envs.adapters import known
from purerl.envs.adapters.known import LEFT_OUT, NAMES, Names, check_name
from purerl.errors import InputError

pytestmark = pytest.mark.suites

SAYS = """
import resource, sys
from purerl import registry
try:
    registry.make(sys.argv[1])
except registry.InputError as error:
    print(error)
print(sorted({"jax", "brax", "navix", "jaxmarl"} & set(sys.modules)))
print(resource.getrusage(resource.RUSAGE_SELF).ru_utime)
"""


def told(env_id):
    """Return what a new process says of an id, which packages it has imported then, and its seconds of CPU time."""
    words = [sys.executable, "-c", SAYS, env_id]
    line, imported, seconds = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    return line, imported, float(seconds)


@pytest.mark.parametrize(
    ("env_id", "words"),
    [
        ("brax/antt", "did you mean 'ant'"),
        ("brxx/ant", "did you mean 'brax'"),
        ("gymnax/Fourrooms-misc", "did you mean 'FourRooms-misc'"),
        ("CartPol-v1", "did you mean 'CartPole-v1'"),
    ],
)
def test_a_wrong_name_is_told_without_an_import(env_id, words):
    suite = env_id.partition("/")[0]
    if suite in NAMES and metadata.version(suite) != NAMES[suite].version:
        pytest.skip(f"{suite} {NAMES[suite].version} is not installed")
    line, imported, seconds = told(env_id)
    assert words in line
    assert imported == "[]"
    assert seconds < 2


@pytest.mark.parametrize("suite", NAMES)
def test_the_tables_are_what_the_suites_say(suite):
    entry = SUITES[suite]
    if not registry.installed(suite) or metadata.version(suite) != NAMES[suite].version:
        pytest.skip(f"{suite} {NAMES[suite].version} is not installed")
    names = importlib.import_module(entry.module).names()
    assert sorted(NAMES[suite].names.split(" ")) == sorted(names), "run python tools/suite_names.py"


def test_a_table_of_another_version_refuses_nothing(monkeypatch):
    monkeypatch.setattr(known, "NAMES", {"pytest": Names("0.0", "one two")})
    check_name("pytest", "nowhere", "three")
    monkeypatch.setattr(known, "NAMES", {"pytest": Names(metadata.version("pytest"), "one two")})
    with pytest.raises(InputError, match="did you mean 'two'"):
        check_name("pytest", "nowhere", "twoo")
    check_name("pytest", "nowhere", "two")


def test_a_suite_that_is_imported_is_asked(monkeypatch):
    """A program may have registered names of its own with it."""
    monkeypatch.setattr(known, "NAMES", {"pytest": Names(metadata.version("pytest"), "one two")})
    check_name("pytest", "pytest", "of_my_own")


@pytest.mark.parametrize("name", ["storm", "storm_2p", "storm_np", "JaxRobotarium_rware", "LearnedPolicyEnemySMAX"])
def test_what_is_left_out_is_told_with_its_reason(name):
    reason = next(reason for start, reason in LEFT_OUT["jaxmarl"].items() if name.startswith(start))
    with pytest.raises(InputError) as error:
        check_name("jaxmarl", "jaxmarl", name)
    assert str(error.value) == f"jaxmarl/{name} is not supported: {reason}"
