"""The trials of a sweep, sampled from its ranges and lists of values."""

import itertools
import math
from collections.abc import Mapping

import numpy as np

from purerl.errors import InputError
from purerl.settings.ranges import Choices, Dimension, Range


def trials(dimensions: Mapping[str, Dimension], method: str, num_trials: int, seed: int) -> list[dict[str, object]]:
    """Return {name: value} of each trial.

    Args:
      dimensions: from `bind`.
      method: "random"; "qmc", scrambled Sobol points; or "grid", which takes every listed value and as many evenly
        spread ones of each range as `num_trials` allows.
      num_trials: how many; a grid may be smaller.
      seed: the seed of the sampling.
    """
    if method == "grid":
        return _grid(dimensions, num_trials)
    names = list(dimensions)
    if method == "qmc":
        from scipy.stats import qmc

        sobol = qmc.Sobol(len(names), rng=np.random.default_rng(seed))
        positions = sobol.random_base2(math.ceil(math.log2(num_trials)))[:num_trials]  # balanced up to the next 2^m
    else:
        positions = np.random.default_rng(seed).random((num_trials, len(names)))
    columns = []
    for i, dimension in enumerate(dimensions.values()):
        values = dimension.at(positions[:, i])
        columns.append([dimension.value(x) for x in values] if isinstance(dimension, Range) else values)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _grid(dimensions: Mapping[str, Dimension], num_trials: int) -> list[dict[str, object]]:
    listed = math.prod(len(d.values) for d in dimensions.values() if isinstance(d, Choices))
    ranges = sum(isinstance(d, Range) for d in dimensions.values())
    points = 2
    while ranges and listed * (points + 1) ** ranges <= num_trials:
        points += 1
    least = listed * 2**ranges
    if least > num_trials:
        raise InputError(f"this grid has at least {least} trials, more than {num_trials}: list fewer values")
    axes = [d.grid(points) if isinstance(d, Range) else d.values for d in dimensions.values()]
    return [dict(zip(dimensions, values, strict=True)) for values in itertools.product(*axes)]
