"""Environment parameters get their fields' types, and errors name their location."""

import pytest

import purerl
from purerl.errors import InputError
from purerl.settings import env_parameters


def test_values_take_the_types_of_the_fields():
    assert env_parameters.of_name("CartPole-v1", {"gravity": 11}) == {"gravity": 11.0}
    assert env_parameters.of_object(purerl.make("CartPole-v1"), {"gravity": 11}) == {"gravity": 11.0}
    assert env_parameters.of_name("gymnax/CartPole-v1", {"anything": "3"}) == {"anything": "3"}  # the suite knows


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"gravitas": 1}, "unknown parameter of CartPole-v1 'gravitas'"),
        ({"gravity": "x"}, "c.toml: env.gravity"),
        ("gravity", "c.toml: env is 'gravity'; it must be a table"),
    ],
)
def test_an_error_names_the_parameter(table, message):
    with pytest.raises(InputError, match=message):
        env_parameters.of_name("CartPole-v1", table, "c.toml: ")


def test_environments_are_checked_by_name():
    assert env_parameters.environment_class("CartPole-v1") is type(purerl.make("CartPole-v1"))
    assert env_parameters.environment_class("gymnax/CartPole-v1") is None
    env_parameters.check_known("gymnax/CartPole-v1")
    with pytest.raises(InputError, match="CartPole-v1"):
        env_parameters.check_known("CartPole")
