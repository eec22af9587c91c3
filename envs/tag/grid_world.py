"""Tag on a grid: several taggers chase one runner."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import tiles
from purerl.spaces import Box, Dict, Discrete, Stacked
from purerl.types import Array, Environment, Key, TimeStep, number, pytree, static


class TagGridState(NamedTuple):
    """The positions of the taggers 0 .. n-1, then the runner."""

    x: Array  # i32[n + 1], cells 0 .. size
    y: Array  # i32[n + 1]
    time: Array  # i32[], steps taken


@pytree
class TagGridWorld(Environment):
    """Taggers share `tag_reward` when one of them stands in the runner's cell; until then every step costs them.

    Cells are 0 .. size on both axes. All move at once: 0 stay, 1 and 2 along x, 3 and 4 along y. A move out of range is
    clipped and costs its agent `wall_hit_penalty`. The episode ends when the runner is tagged: every tagger gets
    tag_reward, the runner -tag_penalty. Otherwise a tagger gets -step_cost and the runner +step_cost. Two agents that
    swap cells do not touch.

    Observation of each agent, with N = num_taggers + 1: in full f32[4N + 1], the x of all, the y of all, who is the
    runner, who oneself is, the time; in part f32[6], its own x and y, its target's, whether it is the runner, the
    time. A tagger's target is the runner, the runner's the nearest tagger. Positions are in units of the size.

    Best return of a tagger is below tag_reward.

    Source: Lan et al. (2021), arXiv:2108.13976, WarpDrive's Tag grid world.
    """

    num_taggers: int = static(default=10, doc="taggers", at_least=1)
    size: int = number(default=10, doc="index of the last cell on both axes", at_least=2)
    wall_hit_penalty: float = number(default=0.1, doc="cost of a move out of range", at_least=0)
    tag_reward: float = number(default=10.0, doc="reward of every tagger for a tag")
    tag_penalty: float = number(default=2.0, doc="cost of a tag for the runner")
    step_cost: float = number(default=0.01, doc="cost of a step for the taggers, and its reward for the runner")
    full_observation: bool = static(default=True, doc="observe all agents instead of only the opponents")
    start: str = static(
        default="fixed",
        doc="taggers in the middle, or random at each reset; the runner in a corner",
        choices=("fixed", "drawn"),
    )
    time_limit: int = number(default=100, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[TagGridState, dict[str, Array]]:
        """Put the runner at (0, 0) and the taggers in the middle, or uniformly in the cells 1 .. size-1."""
        shape, low = (2, self.num_taggers), jnp.int32(1)
        middle = jnp.broadcast_to(jnp.asarray(self.size, jnp.int32) // 2, shape)
        taggers = middle if self.start == "fixed" else jax.random.randint(key, shape, low, self.size, jnp.int32)
        # Without the barrier XLA takes seconds to compute in advance what is seen of a fixed start.
        place = jax.lax.optimization_barrier(jnp.concatenate([taggers, jnp.zeros((2, 1), jnp.int32)], axis=1))
        state = TagGridState(x=place[0], y=place[1], time=jnp.int32(0))
        return state, self.observe(state)

    def step(self, key: Key, state: TagGridState, action: dict[str, Array]) -> tuple[TagGridState, TimeStep]:
        """Move everyone, then check whether the runner is tagged."""
        size = jnp.asarray(self.size, jnp.int32)
        taken = jnp.concatenate([action["taggers"], action["runners"]])
        wished_x = state.x + (taken == 1).astype(jnp.int32) - (taken == 2).astype(jnp.int32)
        wished_y = state.y + (taken == 3).astype(jnp.int32) - (taken == 4).astype(jnp.int32)
        x, y = jnp.clip(wished_x, 0, size), jnp.clip(wished_y, 0, size)
        wall = jnp.where((x != wished_x) | (y != wished_y), self.wall_hit_penalty, 0.0)
        state = TagGridState(x=x, y=y, time=state.time + 1)
        tagged = jnp.any((x[:-1] == x[-1]) & (y[:-1] == y[-1]))
        reward = {
            "taggers": jnp.where(tagged, self.tag_reward, -self.step_cost) - wall[:-1],
            "runners": jnp.where(tagged, -self.tag_penalty, self.step_cost) - wall[-1:],
        }
        time_up = state.time >= self.time_limit
        info = {"tags": tagged.astype(jnp.float32)}
        return state, TimeStep.transition(self.observe(state), reward, terminated=tagged, time_up=time_up, info=info)

    def observe(self, state: TagGridState) -> dict[str, Array]:
        """Return the observations of each group's agents."""
        seen = self._features(state)
        return {"taggers": seen[:-1], "runners": seen[-1:]}

    def _features(self, state: TagGridState) -> Array:
        """Return the observation of every agent, f32[N + 1, 4N + 1] or f32[N + 1, 6]."""
        x, y = (part.astype(jnp.float32) / self.size for part in (state.x, state.y))
        is_runner = jnp.arange(self.num_taggers + 1) == self.num_taggers
        kind, time = is_runner.astype(jnp.float32), state.time.astype(jnp.float32) / self.time_limit
        times = jnp.broadcast_to(time, x.shape)
        if self.full_observation:
            shared = jnp.concatenate([x, y, kind])
            everyone = jnp.broadcast_to(shared, (times.shape[0], shared.shape[0]))
            return jnp.concatenate([everyone, jnp.eye(self.num_taggers + 1), times[:, None]], axis=1)
        nearest = jnp.argmin((state.x[:-1] - state.x[-1]) ** 2 + (state.y[:-1] - state.y[-1]) ** 2)
        target_x = jnp.where(is_runner, x[nearest], x[-1])
        target_y = jnp.where(is_runner, y[nearest], y[-1])
        return jnp.stack([x, y, target_x, target_y, kind, times], axis=1)

    def render_text(self, state: TagGridState) -> str:
        """Return the grid as text: o the taggers, @ the runner, H a tagger on the runner."""
        rows = np.full((int(self.size) + 1, int(self.size) + 1), ".")
        for x, y in zip(np.asarray(state.x)[:-1], np.asarray(state.y)[:-1], strict=True):
            rows[-1 - y, x] = "o"
        x, y = int(state.x[-1]), int(state.y[-1])
        rows[-1 - y, x] = "H" if rows[-1 - y, x] == "o" else "@"
        return "\n".join("".join(row) for row in rows)

    def render(self, state: TagGridState) -> np.ndarray:
        """Draw the grid: u8[H, W, 3]."""
        return tiles(self.render_text(state))

    @property
    def observation_space(self) -> Dict:
        """f32[4N + 1] or f32[6] for each agent."""
        size = 4 * (self.num_taggers + 1) + 1 if self.full_observation else 6
        part = Box(low=0.0, high=1.0, shape=(size,))
        return Dict(spaces={"taggers": Stacked(space=part, n=self.num_taggers), "runners": Stacked(space=part, n=1)})

    @property
    def action_space(self) -> Dict:
        """The move of each agent."""
        part = Discrete(n=5)
        return Dict(spaces={"taggers": Stacked(space=part, n=self.num_taggers), "runners": Stacked(space=part, n=1)})
