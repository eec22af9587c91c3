"""Marks of parametrized tests."""

import pytest


def rows(names, quick):
    """Mark all but the quick ones as slow."""
    return [pytest.param(name, marks=[] if name in quick else pytest.mark.slow) for name in names]
