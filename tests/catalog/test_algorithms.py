"""Algorithms: every row leads to one with documented settings and pinned defaults.

Curves are published with the defaults in tests/golden/defaults.json. If you change a default on purpose, run

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


@pytest.mark.parametrize(
    ("name", "setting", "words"),
    [
        ("c51", "num_atoms", "paper: 51; CleanRL: 101"),
        ("c51", "v_min", "lower returns are clipped"),
        ("d4pg", "v_max", "higher returns are clipped"),
        ("d4pg", "learning_rate", "paper: 1e-4"),
        ("mpo", "kl_epsilon", "acme: 0.0025"),
        ("vmpo", "normalize_advantage", "paper: no"),
        ("awr", "temperature", "paper: 0.05"),
        ("spo", "temperature_epsilon", "Stoix: 0.01"),
        ("redq", "learning_starts", "paper: 5,000"),
        ("crossq", "renorm_warmup", "paper's code"),
        ("r2d2", "batch_size", "paper: 64"),
        ("impala", "max_grad_norm", "paper: 40"),
        ("ppo", "curiosity_coefficient", "RND's paper"),
        ("ppo", "learning_rate_schedule", "updates that learn"),
    ],
)
def test_help_says_what_others_have_or_when_a_default_must_change(name, setting, words):
    (field,) = (field for field in dataclasses.fields(registry.algorithm(name)[1]) if field.name == setting)
    assert words in field.metadata["doc"]
