"""python -m purerl: the command line."""

from purerl.commands.cli import main

if __name__ == "__main__":
    main()
