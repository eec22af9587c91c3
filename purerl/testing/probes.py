"""Probes: tiny decision processes, each solvable only by an algorithm without a certain fault.

All are tables of one shape, so that one compiled program trains on all of them side by side.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from purerl.types import Array, Environment, Key, PyTree, TimeStep, number, pytree, static

STATES, FEATURES = 6, 4
START, TERMINAL, CUT = 0, -1, -2  # rows of tables; as the next state: the task ends, time runs out


@pytree
class Probe(Environment):
    """A finite decision process with two choices in each state.

    The choice is the action itself if actions are discrete; 1 if both of two are 1 (multi-discrete), or if a switch is
    1 and a dial above 0 (dict). A continuous action a in -1 .. 1 chooses 1 with probability (1 + a) / 2, so that action
    values have a slope everywhere.
    """

    start: Any = number(doc="f32[S], probability of each first state")
    reward: Any = number(doc="f32[S, 2], by state and choice")
    next_state: Any = number(doc="i32[S, 2]")
    terminated: Any = number(doc="bool[S, 2]")
    truncated: Any = number(doc="bool[S, 2]")
    observation: Any = number(doc="f32[S, F]")
    time_limit: int | None = number(default=None)
    actions: str = static(default="discrete", choices=("discrete", "multi-discrete", "continuous", "dict"))

    def reset(self, key: Key) -> tuple[Array, Array]:
        """Sample the first state, i32[]."""
        state = jax.random.categorical(key, jnp.log(self.start)).astype(jnp.int32)
        return state, self.observation[state]

    def step(self, key: Key, state: Array, action: PyTree) -> tuple[Array, TimeStep]:
        """Look up the step in the tables."""
        if self.actions == "continuous":
            choice = jax.random.bernoulli(key, jnp.clip(0.5 * (1.0 + action[0]), 0.0, 1.0)).astype(jnp.int32)
        else:
            choice = self.choice(action)
        at = (state, choice)
        state = self.next_state[at]
        return state, TimeStep.transition(
            self.observation[state], self.reward[at], terminated=self.terminated[at], time_up=self.truncated[at]
        )

    def choice(self, action: PyTree) -> Array:
        """Return which of the two choices an action is, or is more likely to be, i32[...]."""
        match self.actions:
            case "discrete":
                return action
            case "multi-discrete":
                return jnp.all(action == 1, axis=-1).astype(jnp.int32)
            case "dict":
                return ((action["switch"] == 1) & (action["dial"][..., 0] > 0)).astype(jnp.int32)
        return (action[..., 0] > 0).astype(jnp.int32)

    @property
    def observation_space(self) -> Box:
        """f32[F]."""
        return Box(low=-1.0, high=1.0, shape=(FEATURES,))

    @property
    def action_space(self) -> Space:
        """The space for `actions`: Discrete(2), MultiDiscrete(2, 2), a Box of one number in -1 .. 1, a Dict of two."""
        match self.actions:
            case "discrete":
                return Discrete(n=2)
            case "multi-discrete":
                return MultiDiscrete(nvec=(2, 2))
            case "dict":
                return Dict(spaces={"switch": Discrete(n=2), "dial": Box(low=-1.0, high=1.0, shape=(1,))})
        return Box(low=-1.0, high=1.0, shape=(1,))


class Rung(NamedTuple):
    """A probe and its purpose."""

    name: str
    isolates: str  # what an algorithm that fails it gets wrong
    discount: float
    start: dict[int, float]  # probability of each first state
    moves: dict[int, tuple[tuple[float, int, int | None], ...]]
    # state -> per choice (reward, next state, TERMINAL or CUT where the episode ends with it, else None)
    looks: dict[int, int] = {}  # noqa: RUF012  (states that look like another)
    recurrent: bool = False  # whether it needs memory

    def environment(self, actions: str = "discrete") -> Probe:
        """Return the environment; states that the rung does not use exist but are never visited."""
        start, reward = np.zeros(STATES, np.float32), np.zeros((STATES, 2), np.float32)
        next_state, ending = np.zeros((STATES, 2), np.int32), np.full((STATES, 2), TERMINAL)
        observation = np.eye(STATES, FEATURES, dtype=np.float32)
        for state, probability in self.start.items():
            start[state] = probability
        for state, moves in self.moves.items():
            for choice, (gain, successor, end) in enumerate(moves):
                reward[state, choice], next_state[state, choice] = gain, successor
                ending[state, choice] = 0 if end is None else end
        for state, other in self.looks.items():
            observation[state] = np.eye(STATES, FEATURES, dtype=np.float32)[other]
        tables = (start, reward, next_state, ending == TERMINAL, ending == CUT, observation)
        names = ("start", "reward", "next_state", "terminated", "truncated", "observation")
        return Probe(**dict(zip(names, map(jnp.asarray, tables), strict=True)), actions=actions)

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (the better choice in each state i32[S], its advantage f64[S]), by value iteration."""
        env = jax.tree.map(np.asarray, self.environment())
        action_value = np.zeros((STATES, 2))
        for _ in range(1000):
            next_value = action_value.max(axis=1)[env.next_state]
            action_value = env.reward + self.discount * np.where(env.terminated, 0.0, next_value)
        return action_value.argmax(axis=1), np.abs(action_value[:, 1] - action_value[:, 0])


def _both(*move: object) -> tuple:
    return (move, move)


LADDER = (
    Rung(
        name="action",
        isolates="actions and their rewards are not brought together",
        discount=0.9,
        start={0: 1.0},
        moves={0: ((0.0, 0, TERMINAL), (1.0, 0, TERMINAL))},
    ),
    Rung(
        name="observation",
        isolates="the policy does not see the observation, or samples are mixed up",
        discount=0.9,
        start={0: 0.5, 1: 0.5},
        moves={0: ((1.0, 0, TERMINAL), (0.0, 0, TERMINAL)), 1: ((0.0, 0, TERMINAL), (1.0, 0, TERMINAL))},
    ),
    Rung(
        name="delay",
        isolates="later rewards are not credited to earlier actions",
        discount=0.9,
        start={0: 1.0},
        moves={0: ((0.4, 1, None), (0.0, 2, None)), 1: _both(0.0, 0, TERMINAL), 2: _both(1.0, 0, TERMINAL)},
    ),
    Rung(
        name="discount",
        isolates="later rewards are not discounted",
        discount=0.5,
        start={0: 1.0},
        moves={0: ((0.75, 1, None), (0.0, 2, None)), 1: _both(0.0, 0, TERMINAL), 2: _both(1.0, 0, TERMINAL)},
    ),
    Rung(
        name="ending",
        isolates="values are bootstrapped through the end of a task",
        discount=0.9,
        start={0: 1.0},
        moves={0: ((0.6, 0, TERMINAL), (0.0, 1, None)), 1: _both(1.0, 0, TERMINAL)},
    ),
    Rung(
        name="time limit",
        isolates="values are not bootstrapped, or from the next episode, where a time limit cuts an episode off",
        discount=0.9,
        start={0: 0.5, 1: 0.25, 2: 0.25},
        moves={
            0: ((0.4, 0, TERMINAL), (0.0, 1, CUT)),
            1: _both(1.0, 0, TERMINAL),
            2: _both(-1.0, 0, TERMINAL),
        },
    ),
    Rung(
        name="memory",
        isolates="observations are forgotten, or gradients do not flow through time",
        discount=0.9,
        start={0: 0.5, 1: 0.5},
        moves={
            0: _both(0.0, 2, None),
            1: _both(0.0, 3, None),
            2: ((1.0, 0, TERMINAL), (-1.0, 0, TERMINAL)),
            3: ((-1.0, 0, TERMINAL), (1.0, 0, TERMINAL)),
        },
        looks={3: 2},
        recurrent=True,
    ),
    # A cue then a question (1 is right), a cue alone, a question alone (0 is right): without a reset between episodes,
    # the last two in a row look like the first, and are more frequent.
    Rung(
        name="memory reset",
        isolates="memory leaks from one episode into the next",
        discount=0.9,
        start={0: 0.2, 1: 0.4, 2: 0.4},
        moves={
            0: _both(0.0, 3, None),
            1: _both(0.0, 0, TERMINAL),
            2: ((1.0, 0, TERMINAL), (-1.0, 0, TERMINAL)),
            3: ((-1.0, 0, TERMINAL), (1.0, 0, TERMINAL)),
        },
        looks={1: 0, 3: 2},
        recurrent=True,
    ),
)
