"""How a script with a command line ends."""

from collections.abc import Callable

from purerl.errors import InputError


def exit_code(main: Callable[[], int], name: str) -> int | str:
    """Run a script's main and return what `sys.exit` takes: bad input is one line of text, Ctrl-C is 130."""
    try:
        return main()
    except InputError as error:
        return f"{name}: error: {error}"
    except KeyboardInterrupt:
        return 130
