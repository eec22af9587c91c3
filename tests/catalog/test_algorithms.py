"""Algorithms: every row leads to one whose settings are documented, and whose defaults are promises.

Curves are published with the defaults in tests/golden/defaults.json. After a change that is meant to,

    PURERL_WRITE_GOLDEN=1 uv run pytest -n 0 tests/catalog/test_algorithms.py
"""

import dataclasses

import pytest

from purerl import registry
from purerl.catalog.algorithms import ALGORITHMS
from purerl.types import Config
from tests.helpers import golden


@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_have_documented_configs(name):
    factory, config = registry.algorithm(name)
    row = ALGORITHMS[name]
    assert callable(factory) and issubclass(config, Config) and row.actions and row.summary and row.source
    undocumented = [field.name for field in dataclasses.fields(config) if not field.metadata.get("doc")]
    assert not undocumented
    assert config() == config(), "every field has a default"


@pytest.fixture(scope="module")
def known():
    yield from golden.file("defaults.json")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_defaults_are_what_curves_were_published_with(name, known):
    _, config = registry.algorithm(name)
    defaults = {field.name: repr(getattr(config(), field.name)) for field in dataclasses.fields(config)}
    if golden.WRITE:
        known[name] = defaults
    assert defaults == known[name]
