"""Tools as modules."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script(request):
    """The tool that a test file is named after; while its tests run, modules next to the tool can be imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")
        yield importlib.import_module(request.path.stem.removeprefix("test_"))


@pytest.fixture(scope="module")
def files(script):
    """The tool that reads and writes files of results."""
    return importlib.import_module("result_file")
