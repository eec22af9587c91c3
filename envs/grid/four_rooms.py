"""Four rooms: walk through doors to a goal, with moves that sometimes slip."""

from typing import Any

from purerl.envs.grid.grid_world import GridWorld, map_field
from purerl.types import number, pytree

ROOMS = """
#############
#.....#.....#
#.....#.....#
#...........#
#.....#.....#
#.....#.....#
##.####.....#
#.....###.###
#.....#..G..#
#.....#.....#
#...........#
#.....#.....#
#############
"""


@pytree
class FourRooms(GridWorld):
    """Reward 1 at the goal, which ends the episode; the start is any other cell. Best possible return: 1.

    One step in three goes in one of the three directions not chosen. Observation and actions are `GridWorld`'s.

    Source: Sutton, Precup and Singh (1999), the rooms and the slipping; the goal is gymnax's.
    """

    walls: Any = map_field(ROOMS, "walls", "bool[H, W], cells that cannot be entered")
    goals: Any = map_field(ROOMS, "goals", "bool[H, W], cells that end the episode")
    rewards: Any = map_field(ROOMS, "rewards", "f32[H, W], what being in a cell after a step pays")
    starts: Any = map_field(ROOMS, "starts", "bool[H, W], cells to start in, each as likely")
    slip: float = number(
        default=1 / 3, doc="probability of moving in another direction than chosen", at_least=0, at_most=1
    )
    time_limit: int = number(default=500, doc="steps after which an episode is truncated", at_least=1)
