"""A run's result in numbers, from a table by hand."""

import json

import numpy as np
import pytest

from purerl.errors import InputError
from purerl.reporting import compare, summary
from purerl.settings.runs import settings

NAN = float("nan")


def columns(rows):
    """Return the columns of (seed, update, evaluation) rows."""
    seed, update, evaluation = (np.array(x, float) for x in zip(*rows, strict=True))
    return {"seed": seed, "update": update, "env_steps": 10 * update, "evaluation_return": evaluation}


def test_final_and_best_returns_per_seed():
    """Seed 5 is complete, seed 6 stopped at update 2, seed 7 was never evaluated."""
    run = settings("ppo", "CartPole-v1", {"seed": 5, "seeds": 3})
    rows = [(5, 1, 8.0), (5, 2, NAN), (5, 3, 4.0), (6, 1, 1.0), (6, 2, 2.0), (7, 1, NAN)]
    found = summary.summarize(run, columns(rows), last_update=3)
    assert found["seeds"] == [5, 6, 7] and found["env_steps"] == 30
    assert found["final_return"]["per_seed"] == [4.0, None, None]
    assert found["best_return"]["per_seed"] == [8.0, 2.0, None]
    worst = found["final_return"]["failed_counted_as"]
    assert worst == summary.lowest(columns(rows)) and found["final_return"]["failed"] == 2
    np.testing.assert_allclose(found["final_return"]["mean"], (4.0 + 2 * worst) / 3)
    np.testing.assert_allclose(found["best_return"]["mean"], (8.0 + 2.0 + worst) / 3)
    json.dumps(found, allow_nan=False)


def test_over_seeds():
    many = summary.over_seeds([1.0, 2.0, 3.0, 4.0, 100.0])
    assert many["mean"] == 22.0 and many["iqm"] == 3.0 and many["range"] == [1.0, 100.0], "of five, the three inside"
    low, high = many["iqm_interval_95"]
    assert 1.0 <= low <= 3.0 <= high <= 100.0
    assert summary.center(many) == f"22, IQM 3 (95% interval {low:.5g} .. {high:.5g})"
    diverging = summary.over_seeds([500.0, NAN, NAN, NAN], worst=20.0)
    assert (diverging["mean"], diverging["iqm"], diverging["failed"]) == (140.0, 20.0, 3)
    assert diverging["per_seed"] == [500.0, None, None, None]
    assert summary.failures(diverging) == " (3 of 4 seeds failed, counted as 20, the lowest return of the run)"
    assert summary.center(summary.over_seeds([7.0])) == "7"
    few = summary.over_seeds([1.0, 2.0, 6.0, 7.0])
    assert few["iqm_interval_95"] is None and summary.center(few) == "4 (range of 4 seeds 1 .. 7)"
    none = {"per_seed": [None], "failed": 1, "failed_counted_as": None}
    assert summary.over_seeds([NAN]) == none | {"mean": None, "iqm": None, "iqm_interval_95": None, "range": None}


def test_written_whole_or_not_at_all(tmp_path):
    file = tmp_path / "summary.json"
    summary.write(file, {"final_return": 1.0})
    with pytest.raises(ValueError, match="JSON compliant"):
        summary.write(file, {"final_return": NAN})
    assert summary.read(file) == {"final_return": 1.0}
    file.write_text("{")
    with pytest.raises(InputError, match=r"cannot read .*summary\.json"):
        summary.read(file)


def test_in_one_line(tmp_path):
    result = {"failed": 0, "mean": 12.345678, "iqm": 12.0, "iqm_interval_95": [11.0, 13.0]}
    summary.write(tmp_path / "summary.json", {"final_return": result, "env_steps_per_second": 1e6})
    assert summary.line(tmp_path) == "final return 12.346, IQM 12 (95% interval 11 .. 13), 1,000,000 steps/s"
    summary.write(tmp_path / "summary.json", {"final_return": summary.over_seeds([NAN]), "env_steps_per_second": 1.0})
    assert summary.line(tmp_path) == "no seed finished"


def test_versions_name_what_numbers_depend_on():
    found = summary.versions("click", "no-such-package")
    assert {"purerl", "python", "jax", "jaxlib", "flax", "optax", "numpy", "click"} == set(found)


@pytest.mark.long_for("\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00")
@pytest.mark.parametrize("text", ["[]", "{}", '{"final_return": 1}', '{"final_return": {"mean": "x"}}', "{", "\0" * 9])
def test_a_damaged_summary_is_told_in_a_line(text, tmp_path):
    (tmp_path / "summary.json").write_text(text)
    (tmp_path / "config.toml").write_text("format = 1\n")
    for use in (summary.line, compare.load):
        with pytest.raises(InputError, match=r"summary.json") as caught:
            use(tmp_path)
        assert "\n" not in str(caught.value)
