"""A sweep before it runs: groups of shapes, points of curves, and its file."""

import numpy as np
import pytest

from purerl import LogUniform
from purerl.algos.ppo import PPOConfig
from purerl.errors import InputError
from purerl.settings.options import RunOptions
from purerl.settings.runs import Settings
from purerl.sweeps.plan import (
    SearchOptions,
    description,
    dump_sweep,
    make_sweep_plan,
    rungs,
    saved_plan,
)

CONFIG = PPOConfig(num_envs=2, rollout_length=16, num_minibatches=2, hidden_sizes=(8,), total_timesteps=64 * 40)
RATES = {"learning_rate": LogUniform(1e-4, 1e-1)}


def planned(over=RATES, method="random", trials=6, **more):
    run = Settings(
        algorithm="ppo", environment="CartPole-v1", options=RunOptions(seeds=2, seed=3), config=CONFIG, parameters={}
    )
    return make_sweep_plan(run, SearchOptions(method=method, trials=trials, **more), over)


def test_a_group_per_shape():
    plan = planned({**RATES, "num_envs": [2, 4], "env.gravity": [9.8, 3.0]}, "grid", 12)
    assert len(plan.trials) == 12 and [len(group.members) for group in plan.groups] == [6, 6]
    assert [group.shapes for group in plan.groups] == [{"num_envs": 2}, {"num_envs": 4}]
    assert [group.num_updates for group in plan.groups] == [80, 40]
    for group in plan.groups:
        assert set(group.values) == {"learning_rate", "env.gravity"}
        for i, trial in enumerate(group.members):
            assert group.values["env.gravity"][i] == np.float32(plan.trials[trial]["env.gravity"])
    assert plan.seeds.tolist() == [3, 4]
    lines = description(plan)
    assert lines == ["12 trials x 2 seeds of 2,560 steps, in 2 programs", "  6 with num_envs 2", "  6 with num_envs 4"]


def test_points_are_where_updates_are():
    plan = planned({"num_envs": [2, 4]}, "grid", 2, points=7)
    spans = [plan.spans(group) for group in plan.groups]
    assert [span.sum() for span in spans] == [80, 40] and all(span.min() >= 5 for span in spans)
    steps = plan.env_steps()
    assert steps.shape == (2, 7) and steps[:, -1].tolist() == [80 * 32, 40 * 64]
    np.testing.assert_array_equal(np.diff(steps[0], prepend=0), spans[0] * 32)
    assert planned(points=100).num_points == 80, "at most one per update"


def test_rungs_by_hand():
    assert rungs(50, 3, 3) == [6, 17, 50] and rungs(8, 2, 4) == [1, 2, 4, 8]
    with pytest.raises(InputError, match="3 rungs with eta 3 need at least 9 points"):
        rungs(4, 3, 3)
    assert planned(method="halving", trials=9, points=20).ladder() == (4, [2, 7, 20])


def test_its_file_gives_the_same_plan(tmp_path):
    plan = planned({**RATES, "num_envs": [2, 4]}, trials=5, points=9)
    (tmp_path / "sweep.toml").write_text(dump_sweep(plan))
    again = saved_plan(tmp_path, devices=1)
    assert (again.trials, again.options, again.dimensions) == (plan.trials, plan.options, plan.dimensions)
    assert again.settings.config == plan.settings.config and again.mesh.size == 1
    assert dump_sweep(saved_plan(tmp_path)) == dump_sweep(plan)


@pytest.mark.long_for("change4-generations is 81; it must be at most the 80 updates")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "gird"}, "unknown method 'gird': did you mean 'grid'"),
        ({"trials": 0}, "trials is 0; it must be at least 1"),
        ({"over": {"num_envs": [2, 4]}, "method": "halving"}, "num_envs are shapes"),
        ({"over": {"learning_rate": [1e-3, 1e-2]}, "method": "pbt"}, "learning_rate must be a range, not a list"),
        ({"method": "pbt", "generations": 81}, "generations is 81; it must be at most the 80 updates"),
    ],
)
def test_what_cannot_be(change, message):
    with pytest.raises(InputError, match=message):
        planned(**change)
