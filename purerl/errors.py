"""Bad input, told in one line."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """What the user gave cannot be used: one line that names the wrong thing and what would be right.

    The command line prints the line and exits with code 2; from Python it is an ordinary `ValueError`.
    """


def printable(text: object) -> str:
    """Return a text whose characters that steer a terminal are written out, such as \\x1b; line ends stay.

    What comes from files and environments passes here before it is printed.
    """
    return "".join(c if c.isprintable() or c in "\n\t" else _written_out(c) for c in str(text))


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def unknown(kind: str, name: str, allowed: Iterable[str], limit: int = 12) -> InputError:
    """Return the error for a name that does not exist.

    Args:
      kind: what the name should have named, such as "environment".
      name: what was given.
      allowed: the names that exist.
      limit: at most so many of them are listed.

    Returns:
      An `InputError` that names the nearest match, if there is one, and the names allowed.
    """
    names = sorted(allowed)
    folded = {candidate.casefold(): candidate for candidate in names}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    hint = f"did you mean '{folded[near[0]]}'? " if near else ""
    listed = ", ".join(names[:limit]) + (f", ... ({len(names)} in all)" if len(names) > limit else "")
    return InputError(f"unknown {kind} '{name}': {hint}allowed: {listed}")
