"""The options of groups of agents."""

from typing import Any

from purerl.fields import pytree, tables

WORDS = ("algorithm", "policy", "frozen", "start")  # settings of a group that are not fields of its config


@pytree
class GroupOptions:
    """The settings of groups of agents, by group."""

    groups: Any = tables(
        doc="a setting of a group of agents, or algorithm=NAME, policy=GROUP, frozen=true|random|RUN or start=RUN",
        flag="--set",
        metavar="GROUP.NAME=VALUE",
        words=WORDS,
    )
