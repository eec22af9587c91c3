"""An environment of your own: walk to the end of a line. `purerl train ppo walk:Walk --env.goal 8`."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl import Box, Discrete, Environment, TimeStep, number, pytree, static


@pytree
class Walk(Environment):
    """Walk to the right end of a line; the state is (position, time)."""

    goal: float = number(default=5.0, doc="where the line ends", above=0)
    slip: float = number(default=0.1, doc="probability that a step goes the other way", at_least=0, at_most=1)
    time_limit: int = number(default=30, doc="steps after which an episode is truncated", at_least=1)
    history: int = static(default=1, doc="copies of the position in the observation: a shape, so static", at_least=1)

    def reset(self, key):
        """Start at 0."""
        return (jnp.float32(0), jnp.int32(0)), self.observation(jnp.float32(0))

    def step(self, key, state, action):
        """Go one step; the time step holds the state after it."""
        position, time = state
        right = (action == 1) ^ jax.random.bernoulli(key, self.slip)
        position, time = position + jnp.where(right, 1.0, -1.0), time + 1
        arrived = position >= self.goal
        return (position, time), TimeStep.transition(
            self.observation(position),
            jnp.where(arrived, 1.0, -0.01),
            terminated=arrived,
            time_up=time >= self.time_limit,
            info={"farthest": position},  # a column of metrics.csv
        )

    def observation(self, position):
        """Return what the agent sees."""
        return jnp.full(self.history, position / self.goal)

    def render(self, state):
        """Draw the line, the goal and the walker: u8[height, width, 3]."""
        picture = np.full((20, 220, 3), 255, np.uint8)
        picture[:, 210:] = (0, 158, 115)
        x = int(np.clip(100 + 100 * float(state[0]) / float(self.goal), 0, 210))
        picture[5:15, x : x + 10] = (0, 114, 178)
        return picture

    @property
    def observation_space(self):
        """The position as a fraction of the way."""
        return Box(low=-jnp.inf, high=jnp.inf, shape=(self.history,))

    @property
    def action_space(self):
        """Left or right."""
        return Discrete(n=2)
