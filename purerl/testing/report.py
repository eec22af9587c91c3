"""The report of a conformance suite."""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Check(NamedTuple):
    """A check that passed."""

    name: str
    detail: str = ""

    def line(self) -> str:
        """Return the check as a line."""
        return f"  ok  {self.name}" + (f": {self.detail}" if self.detail else "")


class Checks(list[Check]):
    """The checks that passed so far; `say` is called with a line for each."""

    def __init__(self, say: Callable[[str], None]):
        """Start without checks."""
        super().__init__()
        self._say = say

    def append(self, check: Check, /) -> None:
        """Add a check."""
        super().append(check)
        self._say(check.line())

    def extend(self, checks: Iterable[Check], /) -> None:
        """Add checks."""
        for check in checks:
            self.append(check)

    def __iadd__(self, checks: Iterable[Check], /) -> "Checks":
        """Add checks."""
        self.extend(checks)
        return self


class Report(NamedTuple):
    """The checks that one environment or algorithm passed; a check that fails raises instead."""

    subject: str
    checks: tuple[Check, ...]
    figures: dict[str, float | str]  # what was measured

    def __str__(self) -> str:
        """Return one line per check and per figure."""
        lines = [f"{self.subject}: {len(self.checks)} checks passed"]
        lines += [check.line() for check in self.checks]
        lines += [
            f"      {name}: {value:,.4g}" if isinstance(value, float) else f"      {name}: {value}"
            for name, value in self.figures.items()
        ]
        return "\n".join(lines)
