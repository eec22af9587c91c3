"""Bernoulli bandit: find the arm that pays most often, within an episode with fixed arms."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import bars
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree, static


class BernoulliBanditState(NamedTuple):
    """The arms of this episode."""

    probabilities: Array  # f32[num_arms], with which each arm pays 1
    arm: Array  # i32[], the arm pulled last, -1 before the first pull
    time: Array  # i32[], steps taken


@pytree
class BernoulliBandit(Environment):
    """Each pull pays 1 with the arm's probability, else 0; each episode has new probabilities, uniform in 0 .. 1.

    An episode is `length` pulls long. Knowing the best arm would give length num_arms / (num_arms + 1) in expectation;
    no policy reaches that, and one without memory gets length / 2.

    Observation f32[num_arms + 1]: the arm pulled last, one-hot, and its reward; initially all 0. Action: an arm.

    Source: Duan et al. (2016), arXiv:1611.02779, section 3.1.
    """

    num_arms: int = static(default=10, doc="arms", at_least=1)
    length: int = number(default=100, doc="pulls in an episode", at_least=1)

    def reset(self, key: Key) -> tuple[BernoulliBanditState, Array]:
        """Sample the arms."""
        state = BernoulliBanditState(
            probabilities=jax.random.uniform(key, (self.num_arms,)), arm=jnp.int32(-1), time=jnp.int32(0)
        )
        return state, jnp.zeros(self.num_arms + 1)

    def step(self, key: Key, state: BernoulliBanditState, action: Array) -> tuple[BernoulliBanditState, TimeStep]:
        """Pull an arm."""
        pulled = jnp.arange(self.num_arms, dtype=jnp.int32) == action
        probability = jnp.where(pulled, state.probabilities, 0.0).sum()
        reward = (jax.random.uniform(key) < probability).astype(jnp.float32)
        state = BernoulliBanditState(
            probabilities=state.probabilities, arm=action.astype(jnp.int32), time=state.time + 1
        )
        observation = jnp.concatenate([pulled.astype(jnp.float32), reward[None]])
        terminated = state.time >= self.length
        return state, TimeStep.transition(observation, reward, terminated=terminated)

    def render(self, state: BernoulliBanditState) -> np.ndarray:
        """Draw the probabilities as bars, with the last arm highlighted: u8[H, W, 3]."""
        return bars(np.asarray(state.probabilities), 0.0, 1.0, int(state.arm))

    def render_text(self, state: BernoulliBanditState) -> str:
        """Return the probabilities as text."""
        return " ".join(f"{float(p):5.2f}" for p in state.probabilities)

    @property
    def observation_space(self) -> Box:
        """f32[num_arms + 1]."""
        return Box(low=0.0, high=1.0, shape=(self.num_arms + 1,))

    @property
    def action_space(self) -> Discrete:
        """The arms."""
        return Discrete(n=self.num_arms)
