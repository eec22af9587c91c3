"""python -m purerl: the command line."""

if __name__ == "__main__":
    from purerl.commands.cli import main

    main()
