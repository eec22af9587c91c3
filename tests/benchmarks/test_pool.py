"""The group `pool`: rates of host programs that run in turn, without a library that this machine may lack."""

import pytest

from benchmarks import groups, pool
from benchmarks.host_programs import Stepper, rates

pytestmark = pytest.mark.publish


def test_programs_run_in_turn():
    order, closed = [], []
    make = lambda name: lambda: Stepper(lambda: order.append(name) or 1, lambda: closed.append(name))
    measured = rates({"a": make("a"), "b": make("b")}, 0.02, rounds=2)
    turns = [name for i, name in enumerate(order) if i == 0 or order[i - 1] != name]
    assert turns == ["a", "b"] * 3 and closed == ["a", "b"]
    assert all(rate.steps_per_second > 0 and rate.cpu_seconds_per_step >= 0 for rate in measured.values())


def test_a_table_of_all_samplers(monkeypatch):
    monkeypatch.setattr(pool, "speeds", lambda makers, seconds, rounds: dict.fromkeys(makers, 100.0) | {"async": 250.0})
    monkeypatch.setattr(pool, "acting_time", lambda: 0.001)
    request = groups.Request(trainers=[], hosts=[], gymnax=False, envs=[], runs=1, size=1.0)
    (table,) = pool.modes(request)
    assert [row[0] for row in table.rows] == list(pool.MODES)
    assert ["async", 250.0, 2.5] in table.rows and ["serial", 100.0, 1.0] in table.rows
