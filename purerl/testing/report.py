"""The report of a conformance suite."""

from typing import NamedTuple


class Check(NamedTuple):
    """A check that passed."""

    name: str
    detail: str = ""


class Report(NamedTuple):
    """The checks that one environment or algorithm passed; a check that fails raises instead."""

    subject: str
    checks: tuple[Check, ...]
    figures: dict[str, float | str]  # what was measured

    def __str__(self) -> str:
        """Return one line per check and per figure."""
        lines = [f"{self.subject}: {len(self.checks)} checks passed"]
        lines += [f"  ok  {check.name}" + (f": {check.detail}" if check.detail else "") for check in self.checks]
        lines += [
            f"      {name}: {value:,.4g}" if isinstance(value, float) else f"      {name}: {value}"
            for name, value in self.figures.items()
        ]
        return "\n".join(lines)
