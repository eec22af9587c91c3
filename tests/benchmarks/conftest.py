"""Benchmarks as modules."""

import importlib

import pytest


@pytest.fixture(scope="module")
def script(request):
    """The benchmark that a file of tests is named after."""
    return importlib.import_module(f"benchmarks.{request.path.stem.removeprefix('test_')}")
