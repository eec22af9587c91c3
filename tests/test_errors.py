"""Messages of bad input."""

import pytest

from purerl.errors import InputError, kind_of, printable, unknown


def test_nearest_name_and_what_is_allowed():
    error = unknown("environment", "cartpole-v0", ["CartPole-v1", "Acrobot-v1"])
    assert isinstance(error, InputError) and isinstance(error, ValueError)
    assert str(error) == (
        "unknown environment 'cartpole-v0': did you mean 'CartPole-v1'? allowed: Acrobot-v1, CartPole-v1"
    )


def test_no_hint_where_nothing_is_near():
    assert str(unknown("suite", "xyz", ["brax"])) == "unknown suite 'xyz': allowed: brax"


def test_long_lists_are_cut():
    message = str(unknown("name", "n", [f"name{i:02}" for i in range(30)], limit=2))
    assert message.endswith("allowed: name00, name01, ... (30 in all)")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("int", "an int"),
        ("ndarray", "an ndarray"),
        ("LPG", "an LPG"),
        ("PPOConfig", "a PPOConfig"),
        ("NoneType", "a NoneType"),
    ],
)
def test_a_class_has_its_article(name, kind):
    assert kind_of(type(name, (), {})()) == kind


@pytest.mark.long_for("\\n")
@pytest.mark.parametrize("name", ["", "\n"])
def test_empty_names(name):
    assert "unknown thing" in str(unknown("thing", name, []))


@pytest.mark.long
def test_characters_that_steer_a_terminal_are_written_out():
    assert printable("\x1b]0;title\x07") == r"\x1b]0;title\x07"
    assert printable("a\r\x9bb\u202ec\udcff") == r"a\r\x9bb\u202ec\udcff"
    assert printable("ä 漢 ▁▂\n\tx") == "ä 漢 ▁▂\n\tx"
    assert printable(7) == "7"
