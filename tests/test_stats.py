"""The statistics that users import are those of `functional`, and they compare loaded runs."""

import inspect

from purerl import stats
from purerl.functional import statistics


def test_all_statistics_are_there():
    own = {name for name, thing in vars(statistics).items() if getattr(thing, "__module__", "") == statistics.__name__}
    public = {name for name in own if not name.startswith("_")}
    assert public | {"load"} == set(stats.__all__)
    assert all(getattr(stats, name) is getattr(statistics, name) for name in public)
    assert "folders" in inspect.signature(stats.load).parameters
