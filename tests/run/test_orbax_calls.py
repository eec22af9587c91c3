"""What surrounds the calls of Orbax; tests/run/test_checkpoint.py makes them."""

import sys
import warnings
from types import SimpleNamespace

import pytest

from purerl.run import orbax_calls


@pytest.mark.parametrize(("file", "shown"), [("/lib/orbax/checkpoint/layout.py", 0), ("/home/me/own.py", 1)])
def test_what_orbax_leaves_unrun_after_a_failure_is_silent(file, shown, monkeypatch):
    """A coroutine that is collected after `save` raised; other code's are shown as ever."""
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with warnings.catch_warnings():
        orbax_calls.drop_late_callbacks.__wrapped__()
        late = SimpleNamespace(object=SimpleNamespace(cr_code=SimpleNamespace(co_filename=file)), exc_value=KeyError())
        sys.unraisablehook(late)
    assert len(told) == shown


@pytest.mark.long
def test_the_reason_is_what_the_system_said():
    inner = OSError(28, "No space left on device")
    outer = ValueError("a long text\nof a library")
    outer.__cause__ = inner
    assert orbax_calls.disk_reason(outer) == "No space left on device"
    assert orbax_calls.disk_reason(RuntimeError("Permission denied, said the library")) == "Permission denied"
    assert orbax_calls.disk_reason(ValueError("first\nsecond")) == "first"
    assert orbax_calls.reason(KeyError("x")) == "its metadata cannot be read"


def test_the_json_of_a_place_is_made_once(monkeypatch):
    """Each time leaks the texts of the result: a save of 60 arrays would leak 17 KB."""
    tensorstore = pytest.importorskip("tensorstore")
    made, own = [], tensorstore.KvStore.Spec.to_json
    monkeypatch.setattr(tensorstore.KvStore.Spec, "to_json", lambda *args: made.append(1) or own(*args))
    orbax_calls.convert_once.__wrapped__()
    place = {"driver": "file", "path": "/checkpoints/"}
    found = [tensorstore.KvStore.Spec(place).to_json() for _ in range(3)]
    found[0]["path"] = "changed by its owner"
    assert len(made) == 1 and found[1:] == [place, place]
    assert tensorstore.KvStore.Spec(place).to_json(include_defaults=True) != place
    assert tensorstore.KvStore.Spec(place | {"path": "/others/"}).to_json()["path"] == "/others/"
