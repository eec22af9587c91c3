"""python -m purerl: the command line."""

import sys
from pathlib import Path

if __name__ == "__main__":
    if sys.path[0] == str(Path.cwd()) != str(Path(__file__).parent.parent):
        del sys.path[0]  # Python puts the current folder first: a file there must not stand for a module
    from purerl.commands.cli import main

    main()
