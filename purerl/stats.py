"""Public statistics of results: the functions over seeds and tasks, and `load` for finished runs.

Example:
  >>> import jax.numpy as jnp
  >>> from purerl import stats
  >>> float(stats.iqm(jnp.array([0.0, 1.0, 2.0, 100.0])))
  1.5
"""

from purerl.functional.statistics import (
    Interval,
    area_under_curve,
    bootstrap_interval,
    difference,
    iqm,
    mean,
    median,
    performance_profile,
    probability_of_improvement,
    resample,
    seeds_needed,
)
from purerl.reporting.tasks import load

__all__ = [
    "Interval",
    "area_under_curve",
    "bootstrap_interval",
    "difference",
    "iqm",
    "load",
    "mean",
    "median",
    "performance_profile",
    "probability_of_improvement",
    "resample",
    "seeds_needed",
]
