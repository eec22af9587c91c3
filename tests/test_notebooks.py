"""Every notebook runs from top to bottom, with the numbers of its first cell made small."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.helpers.processes import own_devices

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
SMALL = {  # what replaces the first cell of code
    "discover_an_objective": "POPULATION, GENERATIONS, STEPS, SEEDS, MINUTES, HELD_OUT = 4, 2, 1_024, 3, 8.0, []",
    "sweep": "TRIALS, SEEDS, STEPS = 9, 2, 6_000",
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("XLA_FLAGS", own_devices()["XLA_FLAGS"])
    monkeypatch.chdir(tmp_path)
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "notebooks are kept without outputs"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code[0].source.split(" = ")[0] == SMALL[path.stem].split(" = ")[0]
    code[0].source = SMALL[path.stem]
    NotebookClient(notebook, timeout=250, kernel_name="python3").execute()
    pictures = [output for cell in code for output in cell.outputs if "image/png" in output.get("data", {})]
    shown = [cell for cell in code if re.search(r"^(Image\()?\w+_plot\.", cell.source, re.MULTILINE)]
    assert len(pictures) == len(shown)
