"""Options of the loop on the host that contradict one another."""

import pytest

from purerl.errors import InputError
from purerl.extensions.host.options import HostOptions, check


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": "asink"}, "unknown sampler 'asink': did you mean 'async'"),
        ({"deterministic": True}, "actors and deterministic need --sampler async"),
        ({"sampler": "serial", "actors": 3}, "actors and deterministic need --sampler async"),
    ],
)
def test_options_that_do_not_fit(options, message):
    with pytest.raises(InputError, match=message):
        check(HostOptions(**options))


def test_options_that_fit():
    check(HostOptions())
    check(HostOptions(sampler="async", actors=3, deterministic=True))
