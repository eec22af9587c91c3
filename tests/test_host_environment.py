"""The contract of host environments: optional methods, and the error where only JAX environments work."""

import pytest

from purerl.host_environment import HostEnvironment, HostSource, not_inside_jit
from tests.extensions.host.ledger import Ledger


@pytest.mark.long
def test_what_may_be_left_out():
    env, source = HostEnvironment(), HostSource()
    assert env.traced() is None and env.snapshot() == () and source.snapshot_struct(3) == ()
    env.close()
    env.abandon()
    seen = object()
    assert source.prepare(seen) is seen
    with pytest.raises(NotImplementedError):
        env.reset(None)
    with pytest.raises(NotImplementedError):
        env.step(None, None, 0)


@pytest.mark.long
def test_the_error_says_what_to_do_instead():
    text = str(not_inside_jit(Ledger(), "vmap"))
    assert text.startswith("test/Ledger runs on the host, so vmap cannot hold it: ") and "\n" not in text
    assert "make_trainer" in text and "purerl train" in text
