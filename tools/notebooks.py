"""Execute the notebooks in notebooks/ and store their outputs: `python tools/notebooks.py [NAME ...]`.

The metadata of a notebook hold the commit, the device and the versions that made its outputs.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
from exit_code import exit_code
from nbclient import NotebookClient
from result_file import provenance

from purerl.errors import unknown

FOLDER = Path(__file__).parent.parent / "notebooks"
LONGEST = 1_200  # seconds of a cell


def execute(path: Path) -> None:
    """Run a notebook from top to bottom in an empty folder, and write it with the outputs and their origin."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=LONGEST,
            kernel_name="python3",
            coalesce_streams=True,  # else each line of progress is a box of its own
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # the time of day
    notebook.metadata["purerl"] = provenance()
    nbformat.write(notebook, path)


def main(args: Sequence[str] | None = None) -> int:
    """Execute the notebooks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {path.stem: path for path in sorted(FOLDER.glob("*.ipynb"))}
    parser.add_argument("names", nargs="*", help=", ".join(known))
    names = parser.parse_args(args).names or list(known)
    if wrong := next((name for name in names if name not in known), None):
        raise unknown("notebook", wrong, known)
    for name in names:
        began = time.time()
        execute(known[name])
        print(f"{name}: {time.time() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main, "notebooks"))
