"""Wrappers: functions from an environment to an environment.

Each is a frozen dataclass that holds the wrapped environment: a pytree like any other environment, so its numbers may
be traced and vmapped, and it can be copied and pickled. `TimeLimit(FrameStack(env, num_frames=4), time_limit=500)`.

A wrapper without random numbers passes the keys on unchanged, so wrappers that change different things (reward,
observation, time) give the same episodes in any order. If an observation contains a mask of legal actions, as a dict
with the key "action_mask", wrappers of observations change everything except the mask.

Example:
  >>> import purerl
  >>> from purerl.wrappers import TimeLimit
  >>> float(TimeLimit(purerl.make("Catch"), time_limit=5).time_limit)
  5.0
"""

from purerl.wrappers.actions import ActionRepeat, RewardClip, RewardScale, StickyActions
from purerl.wrappers.agents import AgentIds
from purerl.wrappers.base import Wrapped, Wrapper
from purerl.wrappers.episodes import DomainRandomization, EpisodeRecord, RecordEpisode, TimeLimit
from purerl.wrappers.observations import ActionMask, Cast, Flatten, FrameStack, PreviousActionReward, flat
from purerl.wrappers.situations import Against, Player, Situations, at_random, lookahead

__all__ = [
    "ActionMask",
    "ActionRepeat",
    "Against",
    "AgentIds",
    "Cast",
    "DomainRandomization",
    "EpisodeRecord",
    "Flatten",
    "FrameStack",
    "Player",
    "PreviousActionReward",
    "RecordEpisode",
    "RewardClip",
    "RewardScale",
    "Situations",
    "StickyActions",
    "TimeLimit",
    "Wrapped",
    "Wrapper",
    "at_random",
    "flat",
    "lookahead",
]
