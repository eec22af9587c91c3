"""A report as text."""

import pytest

from purerl.testing.report import Check, Checks, Report


@pytest.mark.long
def test_a_report_is_a_line_per_check_and_figure():
    checks = (Check("shapes hold"), Check("jit = eager", "20 steps"))
    report = Report("Walk", checks, {"bytes": "8", "mean length": 1234.5678})
    assert str(report).splitlines() == [
        "Walk: 2 checks passed",
        "  ok  shapes hold",
        "  ok  jit = eager: 20 steps",
        "      bytes: 8",
        "      mean length: 1,235",
    ]


def test_checks_are_told_as_they_pass():
    said = []
    checks = Checks(said.append)
    checks += [Check("one"), Check("two", "fine")]
    checks.append(Check("three"))
    assert said == ["  ok  one", "  ok  two: fine", "  ok  three"] and len(tuple(checks)) == 3
