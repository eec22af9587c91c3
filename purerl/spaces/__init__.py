"""Spaces: the structure of observations and actions, and how to sample them."""

from purerl.spaces.box import Box
from purerl.spaces.composite import Dict, Stacked
from purerl.spaces.discrete import Discrete, MultiDiscrete
from purerl.spaces.elements import element, flat, form, leaves, parts, unstacked
from purerl.spaces.space import Space

__all__ = [
    "Box",
    "Dict",
    "Discrete",
    "MultiDiscrete",
    "Space",
    "Stacked",
    "element",
    "flat",
    "form",
    "leaves",
    "parts",
    "unstacked",
]
