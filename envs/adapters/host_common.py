"""What the adapters of host environments share: spaces, Atari's settings, and steps from Gymnasium's five values."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError, unknown
from purerl.host_environment import HostStep, NextStep
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Space

PyTree = Any


def from_gymnasium(space: Any, what: str) -> Space:
    """Return a Gymnasium space as ours, with 32-bit numbers for 64-bit ones.

    Raises:
      InputError: for a space that has no counterpart.
    """
    kind = type(space).__name__
    if kind == "Discrete" and space.start == 0:
        return Discrete(n=int(space.n))
    if kind == "MultiDiscrete" and space.nvec.ndim == 1:
        return MultiDiscrete(nvec=tuple(int(n) for n in space.nvec))
    if kind == "MultiBinary":
        return Box(low=0, high=1, shape=tuple(space.shape), dtype=jnp.int8)
    if kind == "Box":
        dtype = {"float64": "float32", "int64": "int32"}.get(space.dtype.name, space.dtype.name)
        low, high = space.low.astype(dtype), space.high.astype(dtype)
        return Box(low=low, high=high, shape=tuple(space.shape), dtype=jnp.dtype(dtype))
    if kind == "Dict":
        return Dict(spaces={name: from_gymnasium(part, what) for name, part in space.spaces.items()})
    raise InputError(f"{what} has the space {space}; allowed: Discrete from 0, MultiDiscrete, MultiBinary, Box, Dict")


def step_of(values: tuple[Any, ...], resets: NextStep) -> HostStep:
    """Return a step from (observation, reward, terminated, truncated, info) of environments that reset a step later.

    Args:
      values: those.
      resets: remembers which environments are over.
    """
    observation, reward, terminated, truncated, _ = values
    terminated = np.array(terminated, np.bool_)
    truncated = np.asarray(truncated, np.bool_) & ~terminated
    over = terminated | truncated
    mask = resets.mask(over)
    reward = np.where(mask, np.asarray(reward, np.float32), np.float32(0))
    return HostStep(observation, reward, terminated, truncated, mask, None, reward, over)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AtariSettings:
    """How a game becomes a task. Every frame is 84 x 84, grey, the larger of the last two."""

    preprocessing: str = "2018"
    repeat_action_probability: float = 0.25  # "sticky" actions
    full_action_space: bool = True  # all 18 actions, rather than those that the game knows
    episodic_life: bool = False  # in training, a lost life ends an episode
    noop_max: int = 0  # up to so many idle actions at the start of an episode
    use_fire_reset: bool = False  # press fire at the start of an episode
    frame_skip: int = 5
    stack_num: int = 4
    reward_clip: bool = True  # learn from the reward's sign; scores are reported unclipped
    max_frames: int = 108_000  # of an episode: half an hour


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


def atari_settings(given: dict[str, Any], what: str) -> AtariSettings:
    """Return the settings that a preset and changes to it make.

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
    if settings.frame_skip < 1 or settings.stack_num < 1 or settings.noop_max < 0 or settings.max_frames < 1:
        raise InputError(f"{what}: frame_skip, stack_num and max_frames must be at least 1, and noop_max at least 0")
    if not 0 <= settings.repeat_action_probability <= 1:
        raise InputError(f"{what}: repeat_action_probability is {settings.repeat_action_probability}; allowed: 0 to 1")
    return settings


def atari_space(settings: AtariSettings) -> Box:
    """Return the space of stacked frames, u8[84, 84, stack_num]."""
    return Box(low=0, high=255, shape=(84, 84, settings.stack_num), dtype=jnp.uint8, stack=settings.stack_num)


def frames_last(observation: Any) -> Any:
    """Return stacked frames [..., frames, height, width] as [..., height, width, frames]."""
    return jnp.moveaxis(observation, -3, -1)


class AtariSteps:
    """Follows lives, and how many frames an episode has: what the two libraries do differently is done here."""

    def __init__(self, num_envs: int, settings: AtariSettings, evaluation: bool):
        """Begin; in evaluation an episode is a whole game."""
        self._resets, self._clip = NextStep(num_envs), settings.reward_clip
        self._episodic = settings.episodic_life and not evaluation
        self._lives, self._age = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int64)

    def begin(self, observation: np.ndarray) -> np.ndarray:
        """Return the first observations after a reset everywhere."""
        self._resets.over[:] = False
        self._lives[:], self._age[:] = 0, 0
        return self._filled(observation)

    def step(
        self,
        observation: np.ndarray,
        reward: np.ndarray,
        game_over: np.ndarray,
        truncated: np.ndarray,
        lives: np.ndarray,
    ) -> HostStep:
        """Return a step; with a lost life the game goes on, but for learning an episode ends and another begins."""
        truncated = truncated & ~game_over
        over = game_over | truncated
        mask = self._resets.mask(over)
        lost = mask & (lives < self._lives) & ~over if self._episodic else np.zeros_like(over)
        self._lives = np.array(lives, np.int64)
        self._age = np.where(lost | ~mask, 0, self._age + 1)
        score = np.where(mask, np.asarray(reward, np.float32), np.float32(0))
        learned = np.sign(score) if self._clip else score
        return HostStep(self._filled(observation), learned, game_over | lost, truncated, mask, None, score, over)

    def _filled(self, observation: np.ndarray) -> np.ndarray:
        """Return a copy in which an episode's first frame stands for the frames before it."""
        filled, last = observation.copy(), observation.shape[1] - 1
        for i in np.flatnonzero(self._age < last):
            first = last - self._age[i]
            filled[i, :first] = filled[i, first]
        return filled
