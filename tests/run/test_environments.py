"""The environment of a run: what is refused, and in which words."""

import pytest

from purerl.errors import InputError
from purerl.run.environments import check_actions, environment_of, make_environment, told_in_a_line
from purerl.settings.runs import settings


def test_what_a_users_part_raises_is_told_in_a_line():
    told = "training on my:Env fails: ValueError: no such wall"
    with pytest.raises(InputError, match=told), told_in_a_line("my:Env"):
        raise ValueError("no such wall\nand more")
    with pytest.raises(ValueError, match="ours"), told_in_a_line("CartPole-v1"):  # a fault of ours keeps its traceback
        raise ValueError("ours")
    with pytest.raises(InputError, match="known"), told_in_a_line("my:Env"):
        raise InputError("known")


@pytest.mark.long
def test_an_algorithm_of_other_actions_is_refused():
    run = settings("sac", "CartPole-v1", {})
    env = environment_of(run)
    assert env == make_environment("CartPole-v1", {})
    check_actions(settings("ppo", "CartPole-v1", {}), env)
    with pytest.raises(InputError, match=r"td3 needs continuous actions, and those of CartPole-v1 are discrete"):
        check_actions(settings("td3", "CartPole-v1", {}), env)
