"""Simple bandit: eleven arms with fixed rewards; find the best one."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import bars
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree


class SimpleBanditState(NamedTuple):
    """The state, which never changes."""

    time: Array  # i32[], steps taken


@pytree
class SimpleBandit(Environment):
    """One pull per episode, of an arm with a fixed reward. Best possible return: the largest of `rewards`.

    Observation f32[1]: always 1. Action: an arm.

    Source: bsuite (Osband et al. 2020, arXiv:1908.03568), whose rules these are, with the order of its mapping seed 0;
    there the observation is f32[1, 1].
    """

    rewards: Any = number(
        default=(0.4, 0.9, 0.2, 1.0, 0.6, 0.1, 0.7, 0.8, 0.3, 0.0, 0.5), doc="f32[arms], the reward of each arm"
    )

    def reset(self, key: Key) -> tuple[SimpleBanditState, Array]:
        """Start."""
        return SimpleBanditState(jnp.int32(0)), jnp.ones(1)

    def step(self, key: Key, state: SimpleBanditState, action: Array) -> tuple[SimpleBanditState, TimeStep]:
        """Pull an arm, which ends the episode."""
        rewards = jnp.asarray(self.rewards, jnp.float32)
        pulled = jnp.arange(rewards.shape[0], dtype=jnp.int32) == action
        reward = jnp.where(pulled, rewards, 0.0).sum()
        return SimpleBanditState(state.time + 1), TimeStep.transition(jnp.ones(1), reward, terminated=True)

    def render(self, state: SimpleBanditState) -> np.ndarray:
        """Draw the rewards as bars: u8[H, W, 3]."""
        rewards = np.asarray(self.rewards, np.float32)
        return bars(rewards, min(0.0, rewards.min()), max(1.0, rewards.max()))

    def render_text(self, state: SimpleBanditState) -> str:
        """Return the rewards as text."""
        return " ".join(f"{float(x):5.2f}" for x in self.rewards)

    @property
    def observation_space(self) -> Box:
        """f32[1]."""
        return Box(low=1.0, high=1.0, shape=(1,))

    @property
    def action_space(self) -> Discrete:
        """The arms."""
        return Discrete(n=len(self.rewards))
