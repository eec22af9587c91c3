"""python -m purerl: the command line."""

import contextlib
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    with contextlib.suppress(FileNotFoundError):  # the current folder is gone
        if sys.path[0] == os.getcwd() != str(Path(__file__).parent.parent):
            del sys.path[0]  # Python puts the current folder first: a file there must not stand for a module
    from purerl.commands.cli import main

    main()
