"""Environments and suites: every row loads, and its description is right."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

from purerl import registry
from purerl.catalog.environments import ENVIRONMENTS, FAMILIAR, SUITES
from purerl.types import Environment


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_environments_have_documented_parameters(name):
    env = registry.make(name)
    assert isinstance(env, Environment) and type(env).__doc__
    assert type(env).__module__ == ENVIRONMENTS[name].split(":")[0]


@pytest.mark.parametrize("suite", SUITES)
def test_suites_have_a_module_and_an_example_of_theirs(suite):
    row = SUITES[suite]
    assert importlib.util.find_spec(row.module) and row.example.startswith(f"{suite}/")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert row.extra is None or row.extra in project["optional-dependencies"]


def test_familiar_names_are_of_suites():
    assert {pattern.partition("/")[0] for pattern in FAMILIAR} <= set(SUITES)
