"""Every notebook is kept with its outputs, and runs from top to bottom with smaller numbers in its first cell."""

import json
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.helpers.marks import rows
from tests.helpers.processes import own_devices

pytestmark = pytest.mark.publish

NOTEBOOKS = {path.stem: path for path in sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))}
SMALL = {  # what replaces the first cell of code
    "discover_an_objective": "POPULATION, GENERATIONS, STEPS, SEEDS, MINUTES = 4, 2, 1_024, 3, 8.0\n"
    "HELD_OUT, UNSEEN = [], ['FourRooms']",
    "first_steps": "STEPS, SEEDS = 4_096, 2",
    "seeds_and_gravity": "STEPS, SEEDS = 20_480, 2",
    "self_play": "STEPS, VERSIONS = 16_384, 2",
    "sweep": "TRIALS, SEEDS, STEPS = 9, 2, 6_000",
    "your_own_algorithm": "STEPS, SEEDS = 76_800, 2",
}


def code_of(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def pictures_of(notebook):
    return [output for cell in code_of(notebook) for output in cell.outputs if "image/png" in output.get("data", {})]


@pytest.mark.parametrize("path", NOTEBOOKS.values(), ids=lambda path: path.stem)
def test_a_notebook_is_kept_with_its_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    code = code_of(notebook)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "execute it from top to bottom"
    assert notebook.metadata["purerl"]["commit"], "python tools/notebooks.py executes it"
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]
    assert pictures_of(notebook)
    assert path.stat().st_size < 1_000_000
    assert not re.search(r"/(?:home|root|tmp|work|Users)/", json.dumps(notebook)), "a path of somebody's machine"


@pytest.mark.parametrize("stem", rows(NOTEBOOKS, {"first_steps"}))
def test_notebook(stem, tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("XLA_FLAGS", own_devices()["XLA_FLAGS"])
    monkeypatch.chdir(tmp_path)
    notebook = nbformat.read(NOTEBOOKS[stem], as_version=4)
    code, kept = code_of(notebook), len(pictures_of(notebook))
    assert code[0].source.split(" = ")[0] == SMALL[stem].split(" = ")[0]
    code[0].source = SMALL[stem]
    NotebookClient(notebook, timeout=250, kernel_name="python3").execute()
    assert pictures_of(notebook)
    assert len(pictures_of(notebook)) == kept
