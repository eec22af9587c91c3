"""Marks of parametrized tests."""

import pytest


def rows(names, quick, mark=pytest.mark.slow):
    """Mark all but the quick ones, as slow if nothing else is said."""
    return [pytest.param(name, marks=[] if name in quick else mark) for name in names]
