"""The checks of algorithms in groups pass for ours, and find what is wrong."""

import pytest

from purerl.algos.a2c import A2CConfig, a2c
from purerl.errors import InputError
from purerl.settings.extensions import rows
from purerl.testing.algorithms import EXAMPLE

CONFIG = A2CConfig(num_envs=4, rollout_length=4, hidden_sizes=(4,), total_timesteps=640)


def unmasked(spec, config: A2CConfig):
    """Learns from steps that do not count."""
    plain = a2c(spec, config)
    return plain._replace(update=lambda agent, key, rollout: plain.update(agent, key, rollout._replace(mask=None)))


@pytest.mark.long
def test_ours_pass_and_one_that_learns_from_agents_that_left_does_not():
    (checks,) = (row.checks for row in rows() if row.name == "groups")  # as `check_algorithm` finds them
    env = EXAMPLE.environment("discrete")
    names = [check.name for check in checks(a2c, CONFIG, env, "a2c")]
    assert "agents that left do not change what is learned" in names and "in turns, rollouts of 3" in names
    with pytest.raises(InputError, match="what an agent does after it left changes agent"):
        checks(unmasked, CONFIG, env, "unmasked")
