"""Scripts as modules."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script(request):
    """The script that a test file is named after; while its tests run, modules next to the script can be imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield importlib.import_module(request.path.stem.removeprefix("test_"))
