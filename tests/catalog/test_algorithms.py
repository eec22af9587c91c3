"""Algorithms: every row leads to one whose settings are documented."""

import dataclasses

import pytest

from purerl import registry
from purerl.catalog.algorithms import ALGORITHMS
from purerl.types import Config


@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_have_documented_configs(name):
    factory, config = registry.algorithm(name)
    row = ALGORITHMS[name]
    assert callable(factory) and issubclass(config, Config) and row.actions and row.summary and row.source
    undocumented = [field.name for field in dataclasses.fields(config) if not field.metadata.get("doc")]
    assert not undocumented
    assert config() == config(), "every field has a default"
