"""An environment on the host that can be followed by hand."""

import time

import numpy as np

from purerl.host_environment import HostEnvironment, HostSource, HostStep
from purerl.spaces import Box, Discrete


class Ledger(HostSource):
    """Environment i lasts i + 2 steps and observes (its number, the step of the episode, the sum of its actions)."""

    id, parameters = "test/Ledger", {"answer": 42}
    observation_space = Box(low=0.0, high=1e6, shape=(3,))
    action_space = Discrete(n=1000)

    def __init__(self, delay=0.0, trouble=None):
        self.delay, self.trouble, self.opened = delay, trouble, []

    def open(self, num_envs, seed, parallel, evaluation=False):
        self.opened.append(_LedgerEnvironment(self, num_envs, seed))
        return self.opened[-1]


class _LedgerEnvironment(HostEnvironment):
    def __init__(self, source, num_envs, seed):
        self.source, self.seed, self.closed, self.steps = source, seed, False, 0
        self.state = np.zeros((num_envs, 3), np.float32)
        self.state[:, 0] = np.arange(num_envs)
        self.over = np.zeros(num_envs, bool)

    def reset(self, key):
        self.state[:, 1:] = 0
        self.over = np.zeros_like(self.over)
        return self.state.copy()

    def step(self, action, keys, t):
        time.sleep(self.source.delay)
        self.steps += 1
        if self.source.trouble and self.steps == 5:
            self.source.trouble()
        starting = self.over
        self.state[:, 1] = np.where(starting, 0, self.state[:, 1] + 1)
        self.state[:, 2] = np.where(starting, 0, self.state[:, 2] + action)
        done = self.state[:, 1] >= self.state[:, 0] + 2
        self.over, mask = done, ~starting
        reward = np.where(mask, action, 0).astype(np.float32)
        return HostStep(
            observation=self.state.copy(),
            reward=reward,
            terminated=done,
            truncated=np.zeros_like(done),
            mask=mask,
            next_observation=None,
            score=reward,
            over=done,
        )

    def close(self):
        self.closed = True
