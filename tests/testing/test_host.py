"""The conformance suite of environments on the host, by environments that break it."""

import numpy as np
import pytest

from purerl.errors import InputError
from purerl.host_environment import HostEnvironment, HostSource, HostStep
from purerl.spaces import Box, MultiDiscrete
from purerl.testing import check_environment


class Source(HostSource):
    """Counts up to 1; `broken` says what goes wrong in its third step."""

    id = "suite/Count-v0"
    observation_space = Box(0, 1, (2,))
    action_space = MultiDiscrete((2, 3))

    def __init__(self, broken=""):
        self.broken = broken

    def open(self, num_envs, seed, parallel, evaluation=False):
        return Count(num_envs, self.broken)


class Count(HostEnvironment):
    def __init__(self, num_envs, broken):
        self.num, self.broken, self.time = num_envs, broken, 0

    def reset(self, key):
        return np.zeros((self.num, 2), np.float32)

    def step(self, action, keys, t):
        assert action.shape == (self.num, 2) and (action < [2, 3]).all()
        self.time += 1
        if self.time == 3 and self.broken == "raises":
            raise KeyError("joint")
        wrong = self.broken if self.time == 3 else ""
        seen = np.full((self.num, 3 if wrong == "shape" else 2), 2.0 if wrong == "bounds" else 0.5, np.float32)
        reward, done = np.full(self.num, np.nan if wrong == "reward" else 1.0, np.float32), np.zeros(self.num, bool)
        return HostStep(
            observation=seen,
            reward=reward,
            terminated=done,
            truncated=done,
            mask=None,
            next_observation=None,
            score=reward,
            over=np.full(self.num, self.time % 4 == 0),
        )


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("raises", r"suite/Count-v0\.step fails: KeyError: 'joint' \(test_host\.py:\d+\)"),
        ("shape", r"suite/Count-v0\.step: observation is float32\[3\]; in observation_space it is float32\[2\]"),
        ("bounds", r"suite/Count-v0\.step: observation reached 2\.0 \.\. 2\.0, outside its space Box float32\[2\]"),
        ("reward", r"suite/Count-v0\.step: the reward became nan"),
    ],
)
def test_what_is_wrong_is_named(broken, message):
    with pytest.raises(InputError, match=message) as caught:
        check_environment(Source(broken), num_steps=8)
    assert "\n" not in str(caught.value)


def test_a_sound_one_passes():
    report = check_environment(Source(), num_steps=8)
    assert report.subject == "suite/Count-v0" and report.figures == {"episodes that ended": 4.0}
    assert "actions are accepted as training sends them" in str(report)
