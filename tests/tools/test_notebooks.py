"""The script that executes the notebooks."""

import nbformat
import pytest

from purerl.errors import InputError

pytestmark = pytest.mark.publish


def test_a_notebook_gets_its_outputs_and_their_origin(script, tmp_path):
    path = tmp_path / "some.ipynb"
    lines = 'print("one", flush=True)\nimport time; time.sleep(0.1)\nprint("two")\nopen("made.txt", "w").close()'
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(lines)]), path)
    script.execute(path)
    (cell,) = nbformat.read(path, as_version=4).cells
    assert [output.text for output in cell.outputs] == ["one\ntwo\n"]  # in one box
    assert cell.execution_count == 1 and "execution" not in cell.metadata
    assert {"commit", "jax", "purerl"} <= set(nbformat.read(path, as_version=4).metadata["purerl"])
    assert list(tmp_path.iterdir()) == [path]  # its folder is removed


def test_an_unknown_notebook_is_named(script):
    with pytest.raises(InputError, match="first_steps"):
        script.main(["first_step"])
