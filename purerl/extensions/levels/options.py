"""The options of training on levels."""

from purerl.errors import InputError
from purerl.fields import number, pytree, static

METHODS = ("dr", "plr", "robust-plr", "accel")
SCORES = ("max_monte_carlo", "positive_value_loss")


@pytree
class LevelOptions:
    """Which levels a run trains on, and how they are chosen; see `purerl.extensions.levels`."""

    levels: str = static(
        default="none",
        doc="dr: sample levels at random; plr: also replay those with the most to learn; robust-plr: learn from "
        "replayed levels only; accel: also mutate them; with the last two, schedules do not reach their ends",
        choices=("none", *METHODS),
    )
    levels_over: tuple[str, ...] = static(
        default=(),
        doc="ranges of the environment's numbers that define a level, such as gravity=5:15; none: its own levels",
    )
    levels_capacity: int = static(default=4000, doc="levels kept for replay", at_least=1)
    levels_minimum_fill: float = number(
        default=0.5, doc="fraction of the capacity that is filled before the first replay", at_least=0, at_most=1
    )
    levels_replay_probability: float = number(
        default=0.8, doc="probability that an update replays levels instead of sampling new ones", at_least=0, at_most=1
    )
    levels_temperature: float = number(
        default=0.3, doc="temperature of the rank-based sampling; high values sample uniformly", above=0
    )
    levels_staleness: float = number(
        default=0.3, doc="weight of staleness in the choice of levels to replay", at_least=0, at_most=1
    )
    levels_score: str = static(default="max_monte_carlo", doc="estimate of the regret of a level", choices=SCORES)
    levels_mutations: int = number(default=5, doc="accel: mutations of each replayed level", at_least=1)


def check(options: LevelOptions, num_envs: int) -> None:
    """Raise an `InputError` if more levels are played together than the buffer holds."""
    replays = options.levels not in ("none", "dr")
    if replays and options.levels_capacity < num_envs:
        raise InputError(
            f"levels_capacity is {options.levels_capacity}; it must be at least num_envs {num_envs}, the number of "
            "levels that are replayed together"
        )
