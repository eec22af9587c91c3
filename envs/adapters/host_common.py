"""The shared part of the adapters of host environments: spaces, Atari's settings, and steps from Gymnasium's tuples."""

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError, unknown
from purerl.host_environment import HostEnvironment, HostStep, TracedSteps
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from purerl.types import PyTree


def from_gymnasium(space: Any, what: str) -> Space:
    """Return a Gymnasium space as ours, with 32-bit numbers for 64-bit ones.

    Choices are counted from 0, and the parts of a tuple named "0", "1", ...: `received` and `sent` translate elements.

    Args:
      space: Gymnasium's.
      what: its environment, for messages.

    Raises:
      InputError: for a space that has no counterpart.
    """
    kind = type(space).__name__
    if kind == "Discrete":
        return Discrete(n=int(space.n))
    if kind == "MultiDiscrete" and space.nvec.ndim == 1:
        return MultiDiscrete(nvec=tuple(int(n) for n in space.nvec))
    if kind == "MultiBinary":
        return Box(low=0, high=1, shape=tuple(space.shape), dtype=jnp.int8)
    if kind == "Box":
        dtype = {"float64": "float32", "int64": "int32"}.get(space.dtype.name, space.dtype.name)
        ends = np.iinfo(dtype) if dtype == "int32" else None
        low, high = (x if ends is None else x.clip(ends.min, ends.max) for x in (space.low, space.high))
        low, high = low.astype(dtype), high.astype(dtype)
        return Box(low=low, high=high, shape=tuple(space.shape), dtype=jnp.dtype(dtype))
    if kind == "Dict":
        return Dict(spaces={name: from_gymnasium(part, what) for name, part in space.spaces.items()})
    if kind == "Tuple":
        return Dict(spaces={str(i): from_gymnasium(part, what) for i, part in enumerate(space.spaces)})
    raise InputError(f"{what} has the space {space}; allowed: Discrete, MultiDiscrete, MultiBinary, Box, Dict, Tuple")


def received(space: Any, observation: PyTree) -> PyTree:
    """Return observations [..., *] of a Gymnasium space as elements of ours: pure, of NumPy or JAX arrays."""
    kind = type(space).__name__
    if kind == "Dict":
        return {name: received(part, observation[name]) for name, part in space.spaces.items()}
    if kind == "Tuple":
        parts = observation
        if isinstance(observation, dict):
            parts = [observation[str(i) if str(i) in observation else i] for i in range(len(space.spaces))]
        return {str(i): received(part, of) for i, (part, of) in enumerate(zip(space.spaces, parts, strict=True))}
    if kind in ("Discrete", "MultiDiscrete"):
        start = np.asarray(space.start)
        return (observation - start.astype(observation.dtype) if start.any() else observation).astype(np.int32)
    dtype = np.int8 if kind == "MultiBinary" else {"float64": "float32", "int64": "int32"}.get(space.dtype.name)
    return observation.astype(dtype or space.dtype)


def sent(space: Any, action: PyTree) -> PyTree:
    """Convert actions [B, ...] of our space to a Gymnasium space: its dtype, inside its own bounds."""
    kind = type(space).__name__
    if kind == "Dict":
        return {name: sent(part, action[name]) for name, part in space.spaces.items()}
    if kind == "Tuple":
        return tuple(sent(part, action[str(i)]) for i, part in enumerate(space.spaces))
    action = np.asarray(action).astype(space.dtype)
    if kind in ("Discrete", "MultiDiscrete"):
        return action + np.asarray(space.start, space.dtype)
    return np.clip(action, space.low, space.high) if kind == "Box" else action


def step_of(xp: ModuleType, values: tuple[object, ...], began: PyTree) -> HostStep:
    """Return a step from (observation, reward, terminated, truncated, info) of environments that reset a step later.

    Args:
      xp: NumPy, or JAX's NumPy inside jit.
      values: the five values.
      began: bool[B], whether the step only started an episode, because the previous one was over.
    """
    observation, reward, terminated, truncated, _ = values
    terminated = xp.array(terminated, xp.bool_)
    truncated = xp.asarray(truncated, xp.bool_) & ~terminated
    reward = xp.where(began, xp.float32(0), xp.asarray(reward, xp.float32))
    return HostStep(
        observation=observation,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        mask=~began,
        next_observation=None,
        score=reward,
        over=terminated | truncated,
    )


class Followed(HostEnvironment):
    """A library's environments that reset one step later, tracked by one rule on the host and inside jit."""

    def __init__(self, vector: Any, begin: Callable[[], PyTree], send: Callable[[PyTree], PyTree] = lambda x: x):
        """Hold the library's environments, their tracked state after a reset, and a function that sends actions."""
        self._vector, self._begin, self._followed, self._send = vector, begin, begin(), send

    def step(self, action: np.ndarray, keys: PyTree, t: int) -> HostStep:
        """Step the environments."""
        action = self._send(jax.tree.map(np.asarray, action))
        self._followed, step = self._follow(np, self._followed, self._vector.step(action))
        return step

    def traced(self) -> TracedSteps | None:
        """Return the steps by the library's XLA interface, if there is one."""
        inside = self._xla()
        if inside is None:
            return None
        handle, move = inside

        def step(carry: PyTree, action: PyTree) -> tuple[PyTree, HostStep]:
            handle, values = move(carry[0], action)
            followed, step = self._follow(jnp, carry[1], values)
            return (handle, followed), step

        return TracedSteps((handle, self._followed), step)

    def close(self) -> None:
        """Close the library's environments."""
        self._vector.close()

    def _follow(self, xp: ModuleType, followed: PyTree, values: tuple[object, ...]) -> tuple[PyTree, HostStep]:
        """Return the next tracked state (here: who begins an episode) and the step."""
        step = step_of(xp, values, followed)
        return step.over, step

    def _xla(self) -> tuple[Any, Any] | None:
        """Return the interface's (handle, step), or None."""
        return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class AtariSettings:
    """Settings that turn a game into a task. A frame is square and gray, the pixelwise maximum of the last two."""

    preprocessing: str = "2018"
    repeat_action_probability: float = 0.25  # "sticky" actions
    full_action_space: bool = True  # all 18 actions, rather than only the ones that the game uses
    episodic_life: bool = False  # in training, a lost life ends an episode
    noop_max: int = 0  # up to so many idle actions at the start of an episode
    use_fire_reset: bool = False  # press fire at the start of an episode
    frame_skip: int = 5
    stack_num: int = 4
    screen_size: int = 84  # pixels of a frame's side
    reward_clip: bool = True  # learn from the reward's sign; scores are reported unclipped
    max_frames: int = 108_000  # longest episode: half an hour


PRESETS = {
    # Machado et al. (2018), arXiv:1709.06009, section 5
    "2018": AtariSettings(),
    # Mnih et al. (2015), doi:10.1038/nature14236, methods
    "2015": AtariSettings(
        preprocessing="2015",
        repeat_action_probability=0.0,
        full_action_space=False,
        episodic_life=True,
        noop_max=30,
        frame_skip=4,
    ),
}


def atari_settings(given: dict[str, object], what: str) -> AtariSettings:
    """Return the settings of a preset, with changes.

    Raises:
      InputError: for a name that no setting or preset has.
    """
    preset = str(given.get("preprocessing", "2018"))
    if preset not in PRESETS:
        raise unknown(f"preprocessing of {what}", preset, PRESETS)
    known = [field.name for field in dataclasses.fields(AtariSettings)]
    for name in given:
        if name not in known:
            raise unknown(f"parameter of {what}", name, known)
    settings = dataclasses.replace(PRESETS[preset], **given | {"preprocessing": preset})
    for name, least in {"frame_skip": 1, "stack_num": 1, "screen_size": 1, "max_frames": 1, "noop_max": 0}.items():
        if getattr(settings, name) < least:
            raise InputError(f"{what}: {name} is {getattr(settings, name)}; it must be at least {least}")
    if not 0 <= settings.repeat_action_probability <= 1:
        raise InputError(f"{what}: repeat_action_probability is {settings.repeat_action_probability}; allowed: 0 to 1")
    return settings


def atari_space(settings: AtariSettings) -> Box:
    """Return the space of stacked frames, u8[screen_size, screen_size, stack_num]."""
    shape = (settings.screen_size, settings.screen_size, settings.stack_num)
    return Box(low=0, high=255, shape=shape, dtype=jnp.uint8, stack=settings.stack_num)


def frames_last(observation: PyTree) -> PyTree:
    """Return stacked frames [..., frames, height, width] as [..., height, width, frames]."""
    return jnp.moveaxis(observation, -3, -1)


class Games(NamedTuple):
    """The tracked state of B games."""

    over: Any  # bool[B], whether the next step begins one
    lives: Any  # i32[B]
    age: Any  # i32[B], steps since the episode began, or a life was lost that ends one

    @staticmethod
    def begin(num_envs: int) -> "Games":
        """Return the state of games that have just begun."""
        return Games(
            over=np.zeros(num_envs, np.bool_), lives=np.zeros(num_envs, np.int32), age=np.zeros(num_envs, np.int32)
        )


@dataclasses.dataclass(frozen=True)
class AtariRules:
    """Lives, scores and first frames, on the host and inside jit, for which the two libraries differ."""

    clip: bool
    episodic: bool  # a lost life ends an episode for learning, while the game continues

    @staticmethod
    def of(settings: AtariSettings, evaluation: bool) -> "AtariRules":
        """Return the settings' rules; in evaluation an episode is a complete game."""
        return AtariRules(settings.reward_clip, settings.episodic_life and not evaluation)

    def step(
        self, xp: ModuleType, games: Games, observation: PyTree, told: tuple[PyTree, PyTree, PyTree, PyTree]
    ) -> tuple[Games, HostStep]:
        """Return the next state and the step.

        Args:
          xp: NumPy, or JAX's NumPy inside jit.
          games: what was followed before.
          observation: u8[B, frames, 84, 84].
          told: (reward, game over, truncated, lives), [B] each.
        """
        reward, game_over, truncated, lives = told
        truncated = truncated & ~game_over
        over, mask = game_over | truncated, ~games.over
        lives = xp.asarray(lives, xp.int32)
        lost = mask & (lives < games.lives) & ~over & self.episodic
        age = xp.where(lost | ~mask, xp.int32(0), games.age + xp.int32(1))
        score = xp.where(mask, xp.asarray(reward, xp.float32), xp.float32(0))
        learned = xp.sign(score) if self.clip else score
        seen = filled(observation, age) if xp is np else filled_inside(observation, age)
        return Games(over=over, lives=lives, age=age), HostStep(
            observation=seen,
            reward=learned,
            terminated=game_over | lost,
            truncated=truncated,
            mask=mask,
            next_observation=None,
            score=score,
            over=over,
        )


def filled(observation: np.ndarray, age: np.ndarray) -> np.ndarray:
    """Return a copy of u8[B, frames, ...] in which an episode's first frame replaces the frames before it."""
    copy, last = observation.copy(), observation.shape[1] - 1
    for i in np.flatnonzero(age < last):
        first = last - age[i]
        copy[i, :first] = copy[i, first]
    return copy


def filled_inside(observation: jax.Array, age: jax.Array) -> jax.Array:
    """Return the same inside jit, at a cost only in steps that need it."""
    frames = observation.shape[1]
    first = jnp.maximum(frames - 1 - age, 0)[:, None]
    frame = jnp.maximum(jnp.arange(frames, dtype=jnp.int32)[None], first)[:, :, None, None]
    take = lambda seen: jnp.take_along_axis(seen, frame, axis=1)
    return jax.lax.cond(jnp.any(first > 0), take, lambda seen: seen, observation)
