"""How scripts end."""

import pytest

from purerl.errors import InputError

pytestmark = pytest.mark.publish


def raising(error):
    def main():
        raise error

    return main


@pytest.mark.parametrize(
    "main, wanted",
    [
        (lambda: 3, 3),
        (raising(InputError("no such game")), "games: error: no such game"),
        (raising(KeyboardInterrupt()), 130),
    ],
)
def test_codes(script, main, wanted):
    assert script.exit_code(main, "games") == wanted


def test_other_errors_are_shown_whole(script):
    with pytest.raises(ZeroDivisionError):
        script.exit_code(raising(ZeroDivisionError()), "games")
