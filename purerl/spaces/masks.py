"""Masks of legal actions as spaces: one flag per choice."""

from purerl.errors import InputError
from purerl.spaces.box import Box
from purerl.spaces.composite import Dict, Stacked
from purerl.spaces.discrete import Discrete, MultiDiscrete
from purerl.spaces.space import Space


def check_masks(seen: Space, acts: Space, what: str = "") -> None:
    """Check the masks in an observation space against the action space.

    Args:
      seen: the space of observations, of one agent or of groups.
      acts: the space of actions.
      what: the beginning of the message.

    Raises:
      InputError: for a mask of another size than the actions, or of actions that are not choices.
    """
    for one, does in _agents(seen, acts):
        mask = one.spaces.get("action_mask") if isinstance(one, Dict) else None
        if mask is None:
            continue
        if not isinstance(does, Discrete | MultiDiscrete):
            raise InputError(f"{what}the observation has an action_mask, which is for choices; the actions are {does}")
        count = does.n if isinstance(does, Discrete) else sum(does.nvec)
        if not isinstance(mask, Box) or mask.shape != (count,):
            raise InputError(f"{what}action_mask is {mask}; it must be bool[{count}], a flag for each choice of {does}")


def _agents(seen: Space, acts: Space) -> list[tuple[Space, Space]]:
    """Return (the observation space, the action space) of one agent, or of one agent of each group."""
    if not isinstance(acts, Dict) or not isinstance(seen, Dict):
        return [(seen, acts)]
    groups = [name for name, part in acts.spaces.items() if isinstance(part, Stacked) and name in seen.spaces]
    pairs = [(seen.spaces[name], acts.spaces[name]) for name in groups]
    return [(one.space, does.space) for one, does in pairs if isinstance(one, Stacked)] or [(seen, acts)]
