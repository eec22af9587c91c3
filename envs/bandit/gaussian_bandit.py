"""Gaussian bandit: find the arm with the highest mean under noise, within an episode with fixed arms."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import bars
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree, static


class GaussianBanditState(NamedTuple):
    """The arms of this episode."""

    means: Array  # f32[num_arms]
    arm: Array  # i32[], the arm pulled last, -1 before the first pull
    time: Array  # i32[], steps taken


@pytree
class GaussianBandit(Environment):
    """Each pull pays the arm's mean plus `noise` times a standard normal; each episode has new standard normal means.

    An episode is `length` pulls long. Knowing the best arm would give length E[max of num_arms standard normals]
    (1.5388 length for ten arms) in expectation; no policy reaches that, and one without memory gets 0.

    Observation f32[num_arms + 1]: the arm pulled last, one-hot, and its reward; initially all 0. Action: an arm.

    Source: the ten-armed testbed of Sutton and Barto (2018), section 2.3, with the reward shown.
    """

    num_arms: int = static(default=10, doc="arms", at_least=1)
    noise: float = number(default=1.0, doc="standard deviation of a reward around its arm's mean", at_least=0)
    length: int = number(default=100, doc="pulls in an episode", at_least=1)

    def reset(self, key: Key) -> tuple[GaussianBanditState, Array]:
        """Sample the arms."""
        state = GaussianBanditState(
            means=jax.random.normal(key, (self.num_arms,)), arm=jnp.int32(-1), time=jnp.int32(0)
        )
        return state, jnp.zeros(self.num_arms + 1)

    def step(self, key: Key, state: GaussianBanditState, action: Array) -> tuple[GaussianBanditState, TimeStep]:
        """Pull an arm."""
        pulled = jnp.arange(self.num_arms, dtype=jnp.int32) == action
        reward = jnp.where(pulled, state.means, 0.0).sum() + self.noise * jax.random.normal(key)
        state = GaussianBanditState(means=state.means, arm=action.astype(jnp.int32), time=state.time + 1)
        observation = jnp.concatenate([pulled.astype(jnp.float32), reward[None]])
        terminated = state.time >= self.length
        return state, TimeStep.transition(observation, reward, terminated=terminated)

    def render(self, state: GaussianBanditState) -> np.ndarray:
        """Draw the means as bars, with the last arm highlighted: u8[H, W, 3]."""
        return bars(np.asarray(state.means), -3.0, 3.0, int(state.arm))

    def render_text(self, state: GaussianBanditState) -> str:
        """Return the means as text."""
        return " ".join(f"{float(mean):5.2f}" for mean in state.means)

    @property
    def observation_space(self) -> Box:
        """f32[num_arms + 1]."""
        return Box(low=-jnp.inf, high=jnp.inf, shape=(self.num_arms + 1,))

    @property
    def action_space(self) -> Discrete:
        """The arms."""
        return Discrete(n=self.num_arms)
