"""A run before it runs: intervals, and what is refused."""

import pytest

from purerl.errors import InputError
from purerl.run import plan
from purerl.settings.runs import settings

SMALL = {"num_envs": 4, "rollout_length": 8, "hidden_sizes": (4,), "devices": 1}


def planned(**flags):
    return plan.make_plan(settings("a2c", "CartPole-v1", SMALL | flags))


@pytest.mark.long
def test_intervals():
    """About 150 rows; evaluations fall on rows, and at most every row has one."""
    made = planned(total_timesteps=32 * 1500 + 31, evaluations=10)
    assert (made.num_updates, made.log_interval, made.eval_interval) == (1500, 10, 150)
    assert planned(total_timesteps=32 * 1501).log_interval == 11
    few = planned(total_timesteps=32 * 7, evaluations=100)
    assert (few.num_updates, few.log_interval, few.eval_interval) == (7, 1, 1)
    asked = planned(total_timesteps=32 * 100, evaluations=7, log_interval=4)
    assert asked.log_interval == 4 and asked.eval_interval == 16, "the multiple of 4 nearest to 100 / 7"
    assert planned(total_timesteps=32 * 100, evaluations=0).eval_interval == 100


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"total_timesteps": 31}, "total_timesteps 31 is less than one rollout: num_envs x rollout_length = 32"),
        ({"num_envs": 10**12}, "num_envs 1000000000000 x rollout_length is 8,000,000,000,000 steps for each update"),
        (
            {"seed": 2**32 - 2, "seeds": 3},
            "seed is 4294967294; it must be an integer from 0 to 4294967293, with 3 seeds",
        ),
        ({"sampler": "serial", "seeds": 2}, "CartPole-v1 runs on the host and cannot be vmapped over 2 seeds"),
        ({"sampler": "asink"}, "sampler is 'asink'; allowed: auto, serial"),
        ({"actors": 3}, "actors is an option of host"),
    ],
)
def test_what_cannot_be(flags, message):
    with pytest.raises(InputError, match=message):
        planned(**flags)


def test_a_board_too_large_for_an_int32_is_planned_without_warnings(recwarn):
    """`sizing` refuses it in a line."""
    plan.make_plan(settings("a2c", "Catch", SMALL, {"rows": 10**9}))
    assert not recwarn.list, recwarn.list[0].message


@pytest.mark.long
def test_a_runs_folder_gives_its_settings(run_folder):
    found = plan.saved_settings(run_folder)
    assert (found.algorithm, found.environment, found.options.seeds) == ("a2c", "Catch", 2)
    assert found.parameters["rows"] == 5 and found.config.hidden_sizes == (4,)
