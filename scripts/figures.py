"""The figures that are published in `results/`: which algorithm on which task, and what others reach there."""

from typing import Any, NamedTuple

from purerl.errors import unknown

MINATAR = {  # what PPO reaches elsewhere
    "Asterix": ("22 to 25 at 2e7 frames", "Pgx"),
    "Breakout": ("about 50 at 2e7 frames", "Pgx"),
    "Freeway": ("about 63 at 2e7 frames", "Pgx"),
    "Seaquest": ("about 54 at 2e7 frames", "Pgx"),
    "SpaceInvaders": ("145 to 152 at 2e7 frames", "Pgx"),
}
SEEDS = {"Seaquest": 3, "SpaceInvaders": 3}  # of the slower games
MEMORY = ("TMaze", "RepeatPrevious")
CLEANRL = "CleanRL"


class Figure(NamedTuple):
    """One curve: the settings are those of `configs/`, with `changes` where it is a variant of them."""

    task: str
    algorithm: str
    reference: str = ""  # what others reach, with their own settings
    source: str = ""
    variant: str = ""  # told apart from the tuned settings by this
    changes: dict[str, Any] = {}  # noqa: RUF012  (settings of the variant)
    seeds: int = 10

    @property
    def label(self) -> str:
        """Its name in pictures and file names."""
        return f"{self.algorithm}-{self.variant}" if self.variant else self.algorithm


FIGURES = (
    Figure("CartPole-v1", "ppo", "490.0 +- 6.1", CLEANRL),
    Figure("CartPole-v1", "dqn", "488.7 +- 16.1", CLEANRL),
    Figure("CartPole-v1", "pqn", "495.1 +- 6.9", CLEANRL),
    Figure("CartPole-v1", "c51", "481 to 491", CLEANRL),
    Figure("CartPole-v1", "a2c"),
    Figure("CartPole-v1", "impala"),
    Figure("CartPole-v1", "qrdqn"),
    Figure("CartPole-v1", "rainbow"),
    Figure("Acrobot-v1", "ppo", "-86.4 +- 1.3", CLEANRL),
    Figure("Acrobot-v1", "dqn", "-91.5 +- 7.2", CLEANRL),
    Figure("Acrobot-v1", "pqn", "-95.6 +- 5.7", CLEANRL),
    Figure("Acrobot-v1", "c51", "-87.7 +- 5.5", CLEANRL),
    Figure("MountainCar-v0", "ppo", "-200", CLEANRL),
    Figure("MountainCar-v0", "dqn", "-195 +- 8", CLEANRL),
    Figure("MountainCarContinuous-v0", "ppo", "92", "gymnax-blines"),
    Figure("Pendulum-v1", "ppo", "-130", "gymnax-blines"),
    Figure("Pendulum-v1", "ddpg"),
    Figure("Pendulum-v1", "td3"),
    Figure("Pendulum-v1", "sac"),
    *(Figure(f"{game}-MinAtar", "ppo", *reference, seeds=SEEDS.get(game, 5)) for game, reference in MINATAR.items()),
    *(Figure(f"{game}-MinAtar", name, seeds=SEEDS.get(game, 5)) for name in ("pqn", "dqn") for game in MINATAR),
    *(Figure(task, "ppo") for task in MEMORY),
    *(Figure(task, "ppo", variant="feedforward", changes={"rnn": "none"}) for task in MEMORY),
    *(Figure(task, "r2d2") for task in MEMORY),
    *(Figure(task, "dqn") for task in MEMORY),
    Figure("envpool/CartPole-v1", "ppo"),
    Figure("envpool/Pong-v5", "dqn", seeds=1),
)


def select(tasks: list[str], algorithms: list[str]) -> list[Figure]:
    """Return the figures of the given tasks and algorithms; of all where none is named.

    Raises:
      InputError: for a task or an algorithm without a figure, naming the nearest.
    """
    known = list(dict.fromkeys(figure.task for figure in FIGURES))
    for task in tasks:
        if task not in known:
            raise unknown("task with published curves", task, known)
    there = [figure for figure in FIGURES if not tasks or figure.task in tasks]
    names = {name for figure in there for name in (figure.algorithm, figure.label)}
    for algorithm in algorithms:
        if algorithm not in names:
            raise unknown(f"algorithm with a curve on {', '.join(tasks) or 'any task'}", algorithm, names)
    return [
        figure for figure in there if not algorithms or figure.label in algorithms or figure.algorithm in algorithms
    ]
