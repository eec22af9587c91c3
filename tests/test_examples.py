"""The examples in the docstrings of the public names, as a reader would type them."""

import doctest
import importlib
import inspect
import re

import pytest

import purerl

NAMES = sorted(set(purerl.__all__) - {"__version__"})
OBJECTS = {  # what is made by a package that may not be installed
    "from_brax": "brax.envs",
    "from_gymnax": "gymnax",
    "from_jumanji": "jumanji",
    "from_navix": "navix",
    "from_pgx": "pgx",
}
TRAINED = {"evaluate", "evolve", "load_run", "make_train", "make_trainer", "play", "resume", "sweep", "train"}


def marked(name):
    """Return a name with its marks: those that train or need other packages are long."""
    marks = [pytest.mark.suites] if name in OBJECTS else [pytest.mark.long] if name in TRAINED else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [marked(name) for name in NAMES])
def test_the_example_of_a_public_name_runs(name, tmp_path, monkeypatch):
    if name in OBJECTS:
        pytest.importorskip(OBJECTS[name])
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(getattr(purerl, name)), {}, name, None, 0)
    assert test.examples, "it has no example"
    said = []
    options = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    failed = doctest.DocTestRunner(optionflags=options, verbose=False).run(test, out=said.append).failed
    assert not failed, "".join(said)


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isfunction(getattr(purerl, name))])
def test_the_docstring_of_a_public_function_is_complete(name):
    """It has its arguments, its result unless that is None, and an example."""
    function = getattr(purerl, name)
    text, signature = inspect.getdoc(function), inspect.signature(function)
    arguments = [name for name in signature.parameters if name not in ("low", "high", "cls")]
    assert not arguments or "\nArgs:\n" in text
    assert signature.return_annotation in (None, "None") or "\nReturns:\n" in text
    assert "\nExample:\n" in text


@pytest.mark.parametrize("name", NAMES)
def test_the_names_in_a_public_docstring_resolve(name):
    text = inspect.getdoc(getattr(purerl, name))
    for found in re.findall(r"`(purerl(?:\.\w+)+)", text):
        assert resolves(found), found


def resolves(path):
    """Return whether a dotted name leads to a module or to something in one."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            if not hasattr(thing, part):
                return False
            thing = getattr(thing, part)
        return True
    return False


def test_a_name_that_does_not_exist_does_not_resolve():
    assert resolves("purerl.run.callbacks.View") and not resolves("purerl.run.callbacks.Nothing")
