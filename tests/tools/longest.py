"""Writes tests/long.txt, the tests that the default run leaves to `-m long`, from a report of all of them.

    uv run pytest -m "not slow" --junitxml report.xml && uv run python tests/tools/longest.py report.xml

The contract half of the conformance battery is never among them.
"""

import sys
from pathlib import Path
from xml.etree import ElementTree

LONG = Path(__file__).resolve().parents[1] / "long.txt"
SECONDS = 4
ALWAYS = ("test_contract[", "test_environment[", "test_algorithm[", "test_learning[")


def longest(report):
    """The ids of the tests in `report`, a path, that take more than SECONDS."""
    cases = ElementTree.parse(report).iter("testcase")
    ids = [
        f"{case.get('classname').replace('.', '/')}.py::{case.get('name')}"
        for case in cases
        if float(case.get("time")) > SECONDS
    ]
    return sorted(name for name in ids if not any(words in name for words in ALWAYS))


if __name__ == "__main__":
    LONG.write_text("".join(f"{name}\n" for name in longest(sys.argv[1])), encoding="utf-8")
