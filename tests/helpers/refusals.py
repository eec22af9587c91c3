"""What tests of spaces share."""

import pytest

from purerl.errors import InputError


def refused(make, message):
    """A space that is made from nonsense raises one line."""
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
