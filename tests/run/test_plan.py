"""A run before it runs: intervals, folders and locks."""

import pytest

from purerl.errors import InputError
from purerl.run import plan
from purerl.run.config import settings

SMALL = {"num_envs": 4, "rollout_length": 8, "hidden_sizes": (4,), "devices": 1}


def planned(**flags):
    return plan.make_plan(settings("a2c", "CartPole-v1", SMALL | flags))


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
        ({"seed": 2**32 - 2, "seeds": 3}, "seed is 4294967294; seeds must be below 2\\^32"),
        ({"sampler": "serial", "seeds": 2}, "CartPole-v1 runs on the host and cannot be vmapped over 2 seeds"),
        ({"sampler": "asink"}, "sampler is 'asink'; allowed: auto, serial"),
        ({"actors": 3}, "actors and deterministic are for sampler async alone"),
    ],
)
def test_what_cannot_be(flags, message):
    with pytest.raises(InputError, match=message):
        planned(**flags)


def test_folders_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [str(plan.new_folder(None, "ppo", "gymnax/Thing:1")) for _ in range(3)]
    assert names == [f"runs/ppo-gymnax-Thing-1-{n}" for n in (1, 2, 3)]
    assert plan.new_folder(tmp_path / "mine" / "run", "ppo").is_dir()
    with pytest.raises(InputError, match=r"mine.run exists; name another --out, or go on there with --resume"):
        plan.new_folder(tmp_path / "mine" / "run", "ppo")


def test_a_folder_has_one_writer(tmp_path):
    (tmp_path / "config.toml").write_text("")
    held = plan.lock(tmp_path)
    with pytest.raises(InputError, match="is in use: another process is training there"):
        plan.lock(tmp_path)
    held.close()
    plan.lock(tmp_path).close()


def test_a_folder_is_held_to_what_it_is_to_say(tmp_path):
    file = tmp_path / "sweep.toml"
    with pytest.raises(InputError, match=r"there is no sweep in .*: it has no sweep\.toml"):
        plan.check_same(file, "a = 1\n", "sweep")
    file.write_text("a = 1\ndevices = 2\nb = 2\n")
    plan.check_same(file, "a = 1\nb = 2\ndevices = 8\n", "sweep")
    with pytest.raises(InputError, match="holds another sweep: it has 'b = 2' where this one has 'b = 3'"):
        plan.check_same(file, "a = 1\nb = 3\n", "sweep")
    with pytest.raises(InputError, match="holds another sweep"):
        plan.check_same(file, "a = 1\nb = 2\nc = 3\n", "sweep")


def test_a_runs_folder_gives_its_settings(run_folder):
    found = plan.saved_settings(run_folder)
    assert (found.algorithm, found.environment, found.options.seeds) == ("a2c", "Catch", 2)
    assert found.parameters["rows"] == 5 and found.config.hidden_sizes == (4,)
