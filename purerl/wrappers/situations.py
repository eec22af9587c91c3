"""Situations: the environment as planning algorithms see it, and a turn-based game against an opponent."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import KeyPath

from purerl import agent_groups
from purerl.errors import InputError
from purerl.fields import pytree, static
from purerl.spaces import Dict, Space, Stacked
from purerl.types import Array, Environment, Key, PyTree, TimeStep
from purerl.wrappers.base import Wrapped, Wrapper
from purerl.xla.trees import where

KEYS = ("key", "rng", "rng_key", "_rng_key")  # fields in which states keep a raw random key


class Situation(NamedTuple):
    """The input of an algorithm that plans in the environment: an observation, and the state behind it."""

    observation: PyTree  # observation of the side that acts next
    state: PyTree  # the environment's; () in rollouts, which are learned from
    side: Array  # i32[], the side that acts next: 0 or 1 in a turn-based game, otherwise 0


class Model(Protocol):
    """The environment's step for an algorithm that plans."""

    def __call__(self, key: Key, situation: Situation, action: PyTree, /) -> TimeStep:
        """Return the step of the player to move: its reward, and the next situation as the observation."""
        ...


@pytree
class Situations(Wrapper):
    """Adds the state to the observation, as a `Situation`; a turn-based game becomes one of a single agent.

    In a turn-based game of two agents this agent makes every move: the observation, the action and the reward of a step
    belong to the side that moves, and `Situation.side` is the side that moves next. The spaces describe the observation
    and the action.
    """

    def reset(self, key: Key) -> tuple[Situation, Situation]:
        """Start an episode."""
        situation = self._situation(*self.env.reset(key))
        return situation, situation

    def step(self, key: Key, state: Situation, action: PyTree) -> tuple[Situation, TimeStep]:
        """Step by the action of the player to move."""
        situation, timestep = self.advance(key, state, action)
        reward = timestep.reward[state.side] if sides(self.env) else timestep.reward
        return situation, timestep._replace(reward=reward)

    def advance(self, key: Key, state: Situation, action: PyTree) -> tuple[Situation, TimeStep]:
        """Step the same way; in a turn-based game the reward is f32[2], one per side."""
        names = sides(self.env)
        actions = {name: jax.tree.map(lambda x: x[None], action) for name in names} if names else action
        inner, timestep = self.env.step(key, state.state, actions)
        situation = self._situation(inner, timestep.observation)
        reward = jnp.concatenate([timestep.reward[name] for name in names]) if names else timestep.reward
        return situation, timestep._replace(observation=situation, reward=reward)

    def model(self, key: Key, situation: Situation, action: PyTree) -> TimeStep:
        """Step as planning does: randomness comes from `key`, even if the state holds a random key."""
        key_step, key_state = jax.random.split(key)
        state = without_future(key_state, situation.state)
        return self.step(key_step, situation._replace(state=state), action)[1]

    def observe(self, state: Situation) -> Situation:
        """Return the situation, which includes the state."""
        return state

    def _situation(self, state: PyTree, observation: PyTree) -> Situation:
        names = sides(self.env)
        if not names:
            return Situation(observation=observation, state=state, side=jnp.int32(0))
        side = observation["turn"][names[1]][0].astype(jnp.int32)
        first, second = (jax.tree.map(lambda x: x[0], observation[name]) for name in names)
        return Situation(observation=where(side == 0, first, second), state=state, side=side)

    def render(self, state: Situation) -> np.ndarray:
        """Draw the state."""
        return self.env.render(state.state)

    def render_episode(self, states: list[Situation]) -> list[np.ndarray]:
        """Draw the states."""
        return self.env.render_episode([state.state for state in states])

    def render_text(self, state: Situation) -> str:
        """Return the state as text."""
        return self.env.render_text(state.state)

    @property
    def observation_space(self) -> Space:
        """The space of `Situation.observation`."""
        return _of_one(self.env.observation_space, sides(self.env))

    @property
    def action_space(self) -> Space:
        """The space of the action of the player to move."""
        return _of_one(self.env.action_space, sides(self.env))


Player = Callable[[Situations, Key, Situation], Array]  # chooses an action, i32[], of legal ones


def at_random(game: Situations, key: Key, situation: Situation) -> Array:
    """Sample an action uniformly, among the legal ones if a mask is observed."""
    return agent_groups.draw(game.action_space, key, situation.observation)


def lookahead(game: Situations, key: Key, situation: Situation) -> Array:
    r"""Look one move and each reply ahead: win if a move wins; otherwise prevent an immediate win of the other side.

        argmax_a r(a) - max_b r(b | a)

    with r the rewards of the moves and b the replies of the other side; ties are broken at random. The game has n
    discrete actions, and this takes n + n^2 of its steps.
    """
    key_draw, key_move, key_reply = jax.random.split(key, 3)
    actions = jnp.arange(game.action_space.n, dtype=jnp.int32)  # type: ignore[attr-defined]
    moved = jax.vmap(lambda action: game.model(key_move, situation, action))(actions)
    replies = jax.vmap(lambda after: jax.vmap(lambda reply: game.model(key_reply, after, reply).reward)(actions))
    reply = jnp.max(jnp.where(legal_actions(moved.observation), replies(moved.observation), -jnp.inf), axis=1)
    sign = jnp.where(moved.observation.side == situation.side, 1.0, -1.0)
    worth = moved.reward + jnp.where(moved.done, 0.0, sign * reply)
    worth = jnp.where(legal_actions(situation), worth, -jnp.inf)
    best = jnp.where(worth >= jnp.max(worth), 0.0, -jnp.inf)
    return jax.random.categorical(key_draw, best).astype(jnp.int32)


@pytree
class Against(Wrapper):
    """A turn-based game against an opponent. The agent's side and the first player are random in each game.

    A step is the agent's move and the opponent's replies, until it is the agent's turn again or the game is over; the
    reward is the agent's.
    """

    keeps_state: ClassVar[bool] = True
    env: Any = dataclasses.field(kw_only=False)
    opponent: Any = static(default=lookahead, doc="(game, key, situation) -> action")

    def reset(self, key: Key) -> tuple[Wrapped, Situation]:
        """Start a game; if the opponent moves first, it makes its moves."""
        key_game, key_side, key_reply = jax.random.split(key, 3)
        situation, _ = self.env.reset(key_game)
        side = jax.random.bernoulli(key_side).astype(jnp.int32)
        first = TimeStep.transition(situation, jnp.zeros(2))
        situation = self._reply(key_reply, side, first).observation
        return Wrapped(inner=situation, outer=side), situation

    def step(self, key: Key, state: Wrapped, action: PyTree) -> tuple[Wrapped, TimeStep]:
        """Make a move, and let the opponent reply."""
        key_step, key_reply = jax.random.split(key)
        timestep = self.env.advance(key_step, state.inner, action)[1]
        timestep = self._reply(key_reply, state.outer, timestep)
        after = Wrapped(inner=timestep.observation, outer=state.outer)
        return after, timestep._replace(reward=timestep.reward[state.outer])

    def _reply(self, key: Key, side: Array, timestep: TimeStep) -> TimeStep:
        """Return the step after the opponent's moves, with the rewards of both sides summed."""

        def waits(carry: tuple[Key, TimeStep]) -> Array:
            return ~carry[1].done & (carry[1].observation.side != side)

        def move(carry: tuple[Key, TimeStep]) -> tuple[Key, TimeStep]:
            key_act, key_step, key = jax.random.split(carry[0], 3)
            action = self.opponent(self.env, key_act, carry[1].observation)
            timestep = self.env.advance(key_step, carry[1].observation, action)[1]
            return key, timestep._replace(reward=timestep.reward + carry[1].reward, info=carry[1].info)

        return jax.lax.while_loop(waits, move, (key, timestep._replace(info={})))[1]


def sides(env: Environment) -> tuple[str, ...]:
    """Return the names of the two groups of a turn-based game; () for an environment of one agent.

    Raises:
      InputError: unless the groups are two of one agent each, with equal spaces, that take turns.
    """
    sizes = agent_groups.sizes(env)
    wrong = no_sides(env) if sizes else ""
    if wrong:
        raise InputError(f"planning needs one agent, or two that take turns and have the same spaces; {wrong}")
    return tuple(sizes)


def no_sides(env: Environment) -> str:
    """Return the reason that an environment is not a turn-based game of two; "" if it is."""
    sizes, name = agent_groups.sizes(env), type(env).__name__
    if not sizes:
        return "it has one agent"
    assert isinstance(env.observation_space, Dict) and isinstance(env.action_space, Dict)
    seen, acts = env.observation_space.spaces, env.action_space.spaces
    if "turn" not in seen:
        return f"the agents of {name} act at the same time"
    if list(sizes.values()) != [1, 1]:
        return f"{name} has {sum(sizes.values())} agents"
    if len({(str(seen[side].struct), repr(acts[side])) for side in sizes}) > 1:
        return f"the sides of {name} have different observation or action spaces"
    return ""


def without_future(key: Key, state: PyTree) -> PyTree:
    """Return a state with new random keys, typed or raw, so that future random events are unknown."""

    def renewed(path: KeyPath, leaf: Array) -> Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            words = jax.eval_shape(jax.random.key_data, leaf)
            bits = jax.random.bits(key, words.shape, jnp.uint32)
            return jax.random.wrap_key_data(bits, impl=jax.random.key_impl(leaf))
        name = jax.tree_util.keystr(path[-1:], simple=True) if path else ""
        raw = name in KEYS and leaf.dtype == jnp.uint32 and leaf.ndim >= 1
        return jax.random.bits(key, leaf.shape, jnp.uint32) if raw else leaf

    return jax.tree_util.tree_map_with_path(renewed, state)


def legal_actions(situation: Situation) -> Array | bool:
    """Return which actions are legal, bool[..., n]; all of them without a mask."""
    observation = situation.observation
    masked = isinstance(observation, Mapping) and "action_mask" in observation
    return observation["action_mask"].astype(bool) if masked else True


def _of_one(space: Space, names: tuple[str, ...]) -> Space:
    """Return the space of a group's single agent."""
    if not names:
        return space
    assert isinstance(space, Dict)
    part = space.spaces[names[0]]
    assert isinstance(part, Stacked)
    return part.space
