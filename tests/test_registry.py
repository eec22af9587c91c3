"""Lookup by name: rows of the catalog and the user's own objects; wrong names are reported."""

import sys

import pytest

from purerl import registry
from purerl.catalog.environments import ENVIRONMENTS, SUITES
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import InputError


def test_parameters_are_passed_on():
    assert registry.make("CartPole-v1", gravity=3.0) == CartPole(gravity=3.0)
    assert registry.make(f"{CartPole.__module__}:CartPole", gravity=3.0) == CartPole(gravity=3.0)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("CartPol-v1", {}, "unknown environment 'CartPol-v1': did you mean 'CartPole-v1'"),
        ("CartPole-v1", {"gravit": 1.0}, "unknown parameter of CartPole-v1 'gravit': did you mean 'gravity'"),
        ("Breakout", {}, "did you mean 'Breakout-MinAtar'"),
        ("Craftax-Symbolic-v1", {}, "did you mean 'craftax/Craftax-Symbolic-v1'"),
        ("HalfCheetah-v4", {}, "did you mean 'brax/halfcheetah'"),
        ("nowhere/Thing", {}, "unknown suite 'nowhere'"),
        ("no_such_module:Thing", {}, "no module 'no_such_module'"),
        ("purerl.envs.classic.cartpole:CartPol", {}, "did you mean 'CartPole'"),
    ],
)
def test_wrong_names_are_told_in_a_line(name, parameters, message):
    with pytest.raises(InputError, match=message) as caught:
        registry.make(name, **parameters)
    assert "\n" not in str(caught.value)


def test_a_suite_that_is_not_installed_names_its_extra(monkeypatch):
    suite = next(name for name, row in SUITES.items() if row.extra == "craftax")
    monkeypatch.setitem(sys.modules, SUITES[suite].package, None)
    with pytest.raises(InputError, match=r"pip install 'purerl\[craftax\]'"):
        registry.make("craftax/Craftax-Symbolic-v1")


@pytest.mark.long
def test_names_of_algorithms_and_objectives():
    with pytest.raises(InputError, match="did you mean 'ppo'"):
        registry.algorithm("pppo")
    with pytest.raises(InputError, match="did you mean 'lpo'"):
        registry.objective("lpoo")
    assert set(registry.names()) == set(ENVIRONMENTS)
    assert registry.is_own("a.b:C") and not registry.is_own("CartPole-v1")


@pytest.mark.long
def test_an_own_algorithm_by_its_path():
    factory, config = registry.algorithm("tests.helpers.reinforce:reinforce")
    assert (factory.__name__, config.__name__) == ("reinforce", "ReinforceConfig")
    assert registry.algorithm("tests.helpers.reinforce:flat")[1] is config
    with pytest.raises(InputError, match=r"untold has no annotation of its config"):
        registry.algorithm("tests.helpers.reinforce:untold")


def test_names_that_no_file_can_have():
    for name in ("1" * 5000, "\0", "a/" * 3000):
        assert "unknown environment" in str(registry.unknown_environment(name))
