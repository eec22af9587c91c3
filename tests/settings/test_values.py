"""Values of settings: text to a typed value, and back to the same."""

from collections.abc import Callable

import pytest

from purerl import InputError
from purerl.settings.values import coerce, from_text, to_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-2", -2),
        ("500_000", 500_000),
        ("1e6", 1e6),
        ("2.5e-4", 2.5e-4),
        ("inf", float("inf")),
        ("true", True),
        ("False", False),
        ("none", None),
        ("relu", "relu"),
        ("64,32", (64, 32)),
        ("64,", (64,)),
        ("(64, 32)", (64, 32)),
        ("[8]", "[8]"),
    ],
)
def test_from_text(text, value):
    found = from_text(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("value", "hint", "typed"),
    [
        (3, float, 3.0),
        (1e6, int, 1_000_000),
        (3, int | None, 3),
        (None, float | None, None),
        ("none", float | None, None),
        (0, float | None, 0.0),
        (64, tuple[int, ...], (64,)),
        ([64, 32.0], tuple[int, ...], (64, 32)),
        (True, bool, True),
        ("tanh", str, "tanh"),
        (3, str, "3"),
    ],
)
def test_coerce(value, hint, typed):
    found = coerce(value, hint, "x")
    assert found == typed
    assert type(found) is type(typed)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("x", float),
        (True, float),
        (1, bool),
        (1.5, int),
        (float("nan"), int),
        (float("inf"), int),
        (None, float),
        ("none", int),
        ((64, "a"), tuple[int, ...]),
        ((1, 2), float),
        ((1, 2), str),
    ],
)
def test_coerce_refuses_and_says_what_is_allowed(value, hint):
    with pytest.raises(InputError, match=r"^discount is .*; it must be: (number|integer|true or false|text)$"):
        coerce(value, hint, "discount")


@pytest.mark.parametrize("value", [3, -2.5, 1e-7, True, None, "relu", (64, 32), (1.5, True, None)])
def test_to_text_is_the_way_back(value):
    assert from_text(to_text(value)) == value


def test_a_function_stays_one_where_a_field_takes_functions():
    hint = str | Callable[[float], float]
    assert coerce(abs, hint, "x") is abs and coerce("linear", hint, "x") == "linear"
    with pytest.raises(InputError, match="it must be: text"):
        coerce(abs, str, "x")


@pytest.mark.long
def test_none_is_the_text_where_a_field_is_one():
    assert coerce(None, str, "rnn") == "none"
