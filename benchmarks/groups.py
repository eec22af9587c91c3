"""The groups of figures by name, and how each is measured."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.opponents import HOSTS, Opponent
from benchmarks.tables import Table
from purerl.registry import ENVIRONMENTS


class Wish(NamedTuple):
    """What is asked of a group."""

    opponents: Sequence[Opponent]  # who else trains
    suites: Sequence[str]  # whose environments are measured, too
    envs: Sequence[str]
    runs: int  # timed runs of each program
    size: float  # a factor on the steps of each run; figures of less than 1 are for trying it out


def _training(wish: Wish) -> list[Table]:
    from benchmarks import training

    title = "Training, one seed, compilation left out"
    return [training.measure(title, training.TRAINING, wish.opponents, wish.runs, wish.size)]


def _off_policy(wish: Wish) -> list[Table]:
    from benchmarks import replays, training

    title = "Training from a replay, compilation left out"
    return [
        training.measure(title, training.OFF_POLICY, wish.opponents, wish.runs, wish.size),
        replays.measure(wish.runs),
    ]


def _environments(wish: Wish) -> list[Table]:
    from benchmarks import environments

    sizes = (2048,) if wish.size < 1 else (64, 2048)
    hosts = [opponent for opponent in wish.opponents if opponent.name in HOSTS]
    seconds = 0.1 * min(wish.size, 1.0)
    return [environments.measure(wish.envs, sizes, "gymnax" in wish.suites, hosts, wish.runs, seconds)]


def _seeds(wish: Wish) -> list[Table]:
    from benchmarks import seeds

    return [seeds.measure(wish.runs, wish.size)]


def _compile(wish: Wish) -> list[Table]:
    from benchmarks import startup

    return [startup.measure(wish.runs, wish.size)]


def _memory(wish: Wish) -> list[Table]:
    from benchmarks import seeds

    return [seeds.measure_memory()]


def _gpu(wish: Wish) -> list[Table]:
    from benchmarks import gpu

    return gpu.measure(wish.runs, wish.size)


GROUPS: dict[str, Callable[[Wish], list[Table]]] = {
    "training": _training,
    "offpolicy": _off_policy,
    "environments": _environments,
    "seeds": _seeds,
    "compile": _compile,
    "memory": _memory,
    "gpu": _gpu,
}
DEFAULT_ENVIRONMENTS = tuple(ENVIRONMENTS)
