"""Tag on a plane: many taggers chase many runners, who leave the game when they are tagged."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import BLUE, GRAY, INK, ORANGE, PAPER, RED, SILVER, SKY, YELLOW, Canvas
from purerl.envs.trigonometry import sincos
from purerl.spaces import Box, Dict, MultiDiscrete, Stacked
from purerl.types import Array, Environment, Key, TimeStep, number, pytree, static
from purerl.xla.neighbors import nearest

FEATURES = 7  # features of another agent: x, y, speed, acceleration, direction, type, whether it is in the game
OWN = 5  # features of the agent itself, with `observe_own`
TRAIL = 12  # states that a picture shows of the past
SHOWN = 6  # steps for which a tag is to be seen


class TagState(NamedTuple):
    """All agents: the taggers 0 .. n-1, then the runners."""

    x: Array  # f32[N], 0 .. side
    y: Array  # f32[N]
    speed: Array  # f32[N], per step
    acceleration: Array  # f32[N], per step
    direction: Array  # f32[N], radians, 0 .. 2 pi
    present: Array  # bool[N], in the game when it was looked at: before this step's tags
    active: Array  # bool[N], in the game now
    tags: Array  # i32[], in this episode
    time: Array  # i32[], steps taken


@pytree
class TagContinuous(Environment):
    r"""Taggers are rewarded for every runner they touch; the runner pays, and leaves the game if `runner_exits`.

    For an agent in the game whose action changes its acceleration by a and turns it by d:

        direction' = (direction + d) mod 2 pi
        speed' = clip(speed + acceleration + a, 0, max_speed skill)
        acceleration' = acceleration + a, but 0 where speed' is at a bound
        position' = position + speed' (cos, sin)(direction'), clipped to the square [0, side]^2

    Leaving the square costs -edge_hit_penalty. A runner whose nearest tagger is closer than tagging_distance x side is
    tagged by it. The episode ends when no runner is left, or at the time limit, where those left get
    end_of_game_reward.

    An action is two numbers: 0 changes nothing, i >= 1 is the i-th of `linspace(-max, max, levels)` of the acceleration
    and of the turn. Agents see the num_neighbors nearest others in the game, f32[7 K + 1], or all others,
    f32[7 (N - 1) + 1]: feature by feature x, y, speed, acceleration and direction, relative to their own, then type (1:
    tagger) and whether it is in the game; then the time. With `observe_own`, which the original lacks, five more: own
    speed, direction as cosine and sine, x and y. What they see is as of before this step's tags. An agent that
    has left sees zeros, in full the types and who is in the game stay.

    Taggers have the lowest numbers. No bound on the return.

    Source: Lan et al. (2021), arXiv:2108.13976, WarpDrive's Tag continuous.
    """

    num_taggers: int = static(default=1, doc="taggers", at_least=1)
    num_runners: int = static(default=10, doc="runners", at_least=1)
    side: float = number(default=10.0, doc="length of the square's side", above=0)
    time_limit: int = number(default=100, doc="steps after which an episode is truncated", at_least=1)
    max_speed: float = number(default=1.0, doc="highest speed, per step", above=0)
    max_acceleration: float = number(default=1.0, doc="largest change of the acceleration, per step", at_least=0)
    max_turn: float = number(default=math.pi / 2, doc="largest turn, radians", at_least=0)
    acceleration_levels: int = static(default=10, doc="changes of the acceleration to choose from", at_least=2)
    turn_levels: int = static(default=10, doc="turns to choose from", at_least=2)
    tagger_skill: float = number(default=1.0, doc="highest speed of a tagger, as a multiple of max_speed", at_least=0)
    runner_skill: float = number(default=1.0, doc="highest speed of a runner, as a multiple of max_speed", at_least=0)
    tagging_distance: float = number(default=0.01, doc="distance of a tag, as a fraction of the side", at_least=0)
    tag_reward: float = number(default=1.0, doc="reward of a tagger for a tag")
    tag_penalty: float = number(default=-1.0, doc="reward of a runner for being tagged", at_most=0)
    edge_hit_penalty: float = number(default=0.0, doc="reward for leaving the square", at_most=0)
    step_penalty: float = number(default=0.0, doc="reward of a tagger per step", at_most=0)
    step_reward: float = number(default=0.0, doc="reward of a runner per step in the game", at_least=0)
    end_of_game_reward: float = number(default=1.0, doc="reward of a runner that is left at the time limit")
    runner_exits: bool = static(default=True, doc="whether a tagged runner leaves the game")
    full_observation: bool = static(default=False, doc="observe all other agents instead of the nearest ones")
    observe_own: bool = static(default=False, doc="agents also observe their own motion and position")
    num_neighbors: int = static(
        default=2, doc="number of nearest agents that an agent observes, if not all", at_least=1
    )
    chunk: int = static(default=128, doc="agents whose neighbors are searched together", at_least=1)
    start: str = static(default="drawn", doc="random at each reset, or always the same", choices=("drawn", "fixed"))

    def reset(self, key: Key) -> tuple[TagState, dict]:
        """Place everyone at rest at random in the square, facing along an axis."""
        key = jax.random.key(0) if self.start == "fixed" else key
        key_place, key_direction = jax.random.split(key)
        n = self.num_taggers + self.num_runners
        place = jax.random.uniform(key_place, (2, n))
        quarter = jax.random.randint(key_direction, (n,), 0, 4, jnp.int32).astype(jnp.float32)
        # What a loop gives is in memory: elsewhere XLA computes random numbers again wherever they are used, and takes
        # most of the time to compile that.
        units = jnp.asarray([self.side, self.side, jnp.pi / 2], jnp.float32)
        x, y, direction = jax.lax.map(lambda at: at[0] * at[1], (units, jnp.concatenate([place, quarter[None]])))
        zeros, everyone = jnp.zeros(n), jnp.ones(n, jnp.bool_)
        state = TagState(
            x=x,
            y=y,
            speed=zeros,
            acceleration=zeros,
            direction=direction,
            present=everyone,
            active=everyone,
            tags=jnp.int32(0),
            time=jnp.int32(0),
        )
        return state, self._observation(state)

    def step(self, key: Key, state: TagState, action: dict[str, Array]) -> tuple[TagState, TimeStep]:
        """Move everyone, then tag."""
        state, hit = self._move(state, jnp.concatenate([action["taggers"], action["runners"]]))
        tagged, by = self._tags(state)
        left = jnp.concatenate([jnp.zeros(self.num_taggers, jnp.bool_), tagged & self.runner_exits])
        tags = state.tags + jnp.sum(tagged, dtype=jnp.int32)
        state = state._replace(active=state.present & ~left, tags=tags)
        edge = jnp.where(hit, self.edge_hit_penalty, 0.0)
        counts = jnp.sum((by == np.arange(self.num_taggers)[:, None]) & tagged, axis=1, dtype=jnp.float32)
        late, runners = state.time >= self.time_limit, state.active[self.num_taggers :]
        step_reward = jnp.where(state.present[self.num_taggers :], self.step_reward, 0.0)
        reward = {
            "taggers": edge[: self.num_taggers] + self.step_penalty + self.tag_reward * counts,
            "runners": edge[self.num_taggers :]
            + step_reward
            + jnp.where(tagged, self.tag_penalty, 0.0)
            + jnp.where(late & runners, self.end_of_game_reward, 0.0),
        }
        terminated = ~jnp.any(runners)
        info = {
            "tags": tags.astype(jnp.float32),
            "runners_left": jnp.sum(runners, dtype=jnp.float32),
        }
        return state, TimeStep.transition(
            self._observation(state), reward, terminated=terminated, time_up=late, info=info
        )

    def _move(self, state: TagState, action: Array) -> tuple[TagState, Array]:
        """Return (state, who left the square bool[N]) for actions i32[N, 2]."""
        going = state.active
        change = _level(action[:, 0], self.max_acceleration, self.acceleration_levels)
        turned = state.direction + _level(action[:, 1], self.max_turn, self.turn_levels)
        direction = jnp.where(going, turned - 2 * jnp.pi * jnp.floor(turned / (2 * jnp.pi)), 0.0)
        acceleration = state.acceleration + change
        highest = self.max_speed * jnp.where(self._is_tagger, self.tagger_skill, self.runner_skill)
        speed = jnp.where(going, jnp.clip(state.speed + acceleration, 0.0, highest), 0.0)
        acceleration = jnp.where((speed <= 0.0) | (speed >= highest), 0.0, acceleration)
        sine, cosine = sincos(direction)
        wished_x, wished_y = state.x + speed * cosine, state.y + speed * sine
        x, y = jnp.clip(wished_x, 0.0, self.side), jnp.clip(wished_y, 0.0, self.side)
        hit = going & ((x != wished_x) | (y != wished_y))
        return TagState(
            x=x,
            y=y,
            speed=speed,
            acceleration=acceleration,
            direction=direction,
            present=going,
            active=going,
            tags=state.tags,
            time=state.time + 1,
        ), hit

    def _tags(self, state: TagState) -> tuple[Array, Array]:
        """Return (which runners are tagged bool[R], the number of each one's nearest tagger i32[R])."""
        taggers, runners = (state.x[: self.num_taggers], state.y[: self.num_taggers]), slice(self.num_taggers, None)
        square = (state.x[runners] - taggers[0][:, None]) ** 2 + (state.y[runners] - taggers[1][:, None]) ** 2
        nearest = jnp.min(square, axis=0)
        # An argmin of this, which takes pairs along, is ten times slower.
        number = np.arange(self.num_taggers, dtype=np.int32)[:, None]
        by = jnp.min(jnp.where(square == nearest, number, self.num_taggers), axis=0)
        return (nearest < (self.tagging_distance * self.side) ** 2) & state.present[runners], by

    def _observation(self, state: TagState) -> dict:
        """Return the observation of each group's agents, and who is in the game."""
        seen = self._features(state)
        taggers, runners = slice(None, self.num_taggers), slice(self.num_taggers, None)
        active = {"taggers": state.active[taggers], "runners": state.active[runners]}
        return {"taggers": seen[taggers], "runners": seen[runners], "active": active}

    def _features(self, state: TagState) -> Array:
        """Return the observation of every agent, f32[N, 7 K + 1] or as the space defines it."""
        time = state.time.astype(jnp.float32) / self.time_limit
        scale, speed = math.sqrt(2.0) * self.side, self.max_speed + 1e-10
        known = jnp.stack(
            [
                state.x / scale,
                state.y / scale,
                state.speed / speed,
                state.acceleration / speed,
                state.direction / (2 * jnp.pi),
            ],
            axis=1,
        )
        if self.full_observation:
            others, found = self._others, state.present[:, None]
            flags = (others < self.num_taggers, state.present[others])
        else:
            others, found = nearest(state.x, state.y, state.present, rows=None, k=self.num_neighbors, chunk=self.chunk)
            flags = (found & (others < self.num_taggers), found)
        # All of an agent at once: faster than feature by feature.
        relative = known.at[others].get(mode="promise_in_bounds") - known[:, None]
        features = list(jnp.moveaxis(jnp.where(found[..., None], relative, 0.0), 2, 0))
        features += [jnp.asarray(flag, jnp.float32) for flag in flags]
        last = [jnp.broadcast_to(time, state.x.shape)]
        if self.observe_own:
            sine, cosine = sincos(state.direction)
            last += [state.speed / speed, cosine, sine, state.x / self.side, state.y / self.side]
        last = jnp.where(state.present[:, None], jnp.stack(last, axis=1), 0.0)
        return jnp.concatenate([*features, last], axis=1)

    @property
    def _is_tagger(self) -> np.ndarray:
        return np.arange(self.num_taggers + self.num_runners) < self.num_taggers

    @property
    def _others(self) -> Array:
        """Return for every agent the numbers of all others in order, i32[N, N - 1]."""
        n = self.num_taggers + self.num_runners
        column = np.arange(n - 1)[None, :]
        return jnp.asarray((column + (column >= np.arange(n)[:, None])).astype(np.int32))

    def render(self, state: TagState) -> np.ndarray:
        """Draw the square: orange taggers, blue runners, gray at tags; u8[H, W, 3]."""
        return self.render_episode([state])[0]

    def render_episode(self, states: list[TagState]) -> list[np.ndarray]:
        """Draw every state with the agents' trails and a line from each tagger to the runner that it tags."""
        return [self._draw(states[max(0, t - TRAIL) : t + 1]) for t in range(len(states))]

    def _draw(self, past: list[TagState]) -> np.ndarray:
        now, side = past[-1], float(self.side)
        canvas = Canvas((-0.03 * side, 1.03 * side), (-0.03 * side, 1.03 * side), width=400)
        canvas.rectangle((0, 0), (side, side), PAPER)
        x, y = (np.stack([getattr(state, name) for state in past]) for name in ("x", "y"))
        for i in np.flatnonzero(now.present) if len(past) > 1 else ():
            color = YELLOW if self._is_tagger[i] else SKY
            canvas.line(list(zip(x[:, i], y[:, i], strict=True)), color, 0.005 * side)
        for t in range(max(1, len(past) - SHOWN), len(past)):
            for runner, tagger in _who_tagged_whom(self, past[t]):
                ends = [(x[t, runner], y[t, runner]), (x[t, tagger], y[t, tagger])]
                canvas.circle(ends[0], 0.022 * side, RED)
                canvas.line(ends, INK, 0.006 * side)
        for i in np.flatnonzero(~np.asarray(now.active)):
            canvas.circle((x[-1, i], y[-1, i]), 0.008 * side, SILVER)
        for i in np.flatnonzero(np.asarray(now.active)):
            size = 0.018 if self._is_tagger[i] else 0.012
            canvas.circle((x[-1, i], y[-1, i]), size * side, ORANGE if self._is_tagger[i] else BLUE)
        progress = side * float(now.time) / float(self.time_limit)
        canvas.rectangle((0, -0.02 * side), (progress, -0.01 * side), GRAY)
        return canvas.pixels()

    @property
    def observation_space(self) -> Dict:
        """f32[7 K + 1] or f32[7 (N - 1) + 1] for each agent, 5 more with `observe_own`, and who is in the game."""
        others = self.num_taggers + self.num_runners - 1 if self.full_observation else self.num_neighbors
        part = Box(low=-jnp.inf, high=jnp.inf, shape=(FEATURES * others + 1 + OWN * self.observe_own,))
        flag = lambda n: Box(low=0, high=1, shape=(n,), dtype=jnp.bool_)
        groups = {"taggers": self.num_taggers, "runners": self.num_runners}
        active = Dict(spaces={name: flag(n) for name, n in groups.items()})
        return Dict(spaces={name: Stacked(space=part, n=n) for name, n in groups.items()} | {"active": active})

    @property
    def action_space(self) -> Dict:
        """The change of acceleration and the turn of each agent."""
        part = MultiDiscrete(nvec=(self.acceleration_levels + 1, self.turn_levels + 1))
        groups = {"taggers": self.num_taggers, "runners": self.num_runners}
        return Dict(spaces={name: Stacked(space=part, n=n) for name, n in groups.items()})


def _level(index: Array, most: Array | float, levels: int) -> Array:
    """Return f32[n]: 0 for index 0, otherwise the index-th of `levels` numbers from -most to most."""
    share = (index.astype(jnp.float32) - 1.0) * (2.0 / (levels - 1)) - 1.0
    return jnp.where(index == 0, 0.0, most * jnp.clip(share, -1.0, 1.0))


def _who_tagged_whom(env: TagContinuous, now: TagState) -> list[tuple[int, int]]:
    """Return the pairs (runner, tagger) of the tags in the last step."""
    x, y = np.asarray(now.x), np.asarray(now.y)
    pairs = []
    for i in np.flatnonzero(np.asarray(now.present)[env.num_taggers :]) + env.num_taggers:
        square = (x[: env.num_taggers] - x[i]) ** 2 + (y[: env.num_taggers] - y[i]) ** 2
        if square.min() < float(env.tagging_distance * env.side) ** 2:
            pairs.append((int(i), int(square.argmin())))
    return pairs
