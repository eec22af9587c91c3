"""The figures published in `results/`: algorithms and tasks, with the returns published by others."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from purerl.errors import unknown
from purerl.settings import runs
from purerl.settings.runs import Settings

MINATAR = {  # game -> PPO's return elsewhere, and where
    "Asterix": ("22 to 25 at 2e7 frames", "Pgx"),
    "Breakout": ("about 50 at 2e7 frames", "Pgx"),
    "Freeway": ("about 63 at 2e7 frames", "Pgx"),
    "Seaquest": ("about 54 at 2e7 frames", "Pgx"),
    "SpaceInvaders": ("145 to 152 at 2e7 frames", "Pgx"),
}
SEEDS = 5  # seeds per MinAtar game
BRAX = ("ant", "halfcheetah", "hopper", "walker2d", "reacher", "inverted_double_pendulum")
BRAX_SAC = ("halfcheetah", "inverted_double_pendulum")
BY_BRAX = {  # with our learning rate and entropy bonus, brax's ant reaches -41 to 16 in a million steps
    "learning_rate": 3e-4,
    "learning_rate_schedule": "constant",
    "entropy_coefficient": 1e-2,
}
MUJOCO = {  # task -> algorithm -> what CleanRL's curve of v2 shows after 300,000 steps, about, and its table after 1e6
    "HalfCheetah": {"sac": (8000, "9635 +- 1424"), "td3": (7000, "9583 +- 126")},
    "Hopper": {"sac": (2350, "2310 +- 343"), "td3": (1400, "3135 +- 360")},
    "Walker2d": {"sac": (3000, "3591 +- 911"), "td3": (1250, "4058 +- 659")},
}
LONG_MUJOCO = {  # half a gradient step for each step of an environment, so that a seed takes an hour
    "total_timesteps": 1_000_000,
    "num_gradient_steps": 2,
    "replay_capacity": 1_000_000,
}
BY_CLEANRL = {"learning_rate": 3e-4}  # with 1e-3, TD3 ends at 1717 on Hopper
ROWS = 100  # rows per curve
GYMNAX_LIMITS = {"Breakout": {"time_limit": 1000}, "Freeway": {}, "SpaceInvaders": {"time_limit": 1000}}
MEMORY = ("TMaze", "RepeatPrevious", "Autoencode", "PositionOnlyCartPole")
CONTINUOUS = ("vmpo", "mpo", "ddpg", "d4pg", "td3", "sac", "tqc", "redq", "crossq")
CLEANRL = "CleanRL"


class Figure(NamedTuple):
    """One curve: the settings are those of `configs/`, with `changes` where it is a variant of them."""

    task: str
    algorithm: str
    reference: str = ""  # a return that others publish, with their own settings
    source: str = ""  # who
    source_algorithm: str = ""  # the source's algorithm, if it differs
    variant: str = ""  # the name of the changes
    changes: dict[str, Any] = {}  # noqa: RUF012  (settings of the variant)
    seeds: int = 10
    judged: dict[str, Any] = {}  # noqa: RUF012  (parameters of the environment at the end, where they learn in another)
    peer: str = ""  # framework whose own trainer makes the curve, by `peer_curves.py`

    @property
    def level(self) -> float:
        """The reference as a number: the first one in its words."""
        return float(re.findall(r"-?\d+(?:\.\d+)?", self.reference)[0])

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the reference, where its words give a range such as "22 to 25"; else the number twice."""
        found = re.search(r"(-?\d+(?:\.\d+)?) to (-?\d+(?:\.\d+)?)", self.reference)
        return (float(found[1]), float(found[2])) if found else (self.level, self.level)

    @property
    def spread(self) -> float:
        """The +- of the reference; 0 without one."""
        found = re.search(r"\+- (\d+)", self.reference)
        return float(found[1]) if found else 0.0

    @property
    def published(self) -> str:
        """The reference, and whose it is."""
        of = f"'s {self.source_algorithm}" if self.source_algorithm else ""
        return f"{self.reference} ({self.source}{of})"

    @property
    def needs(self) -> str:
        """The file that its training needs and the repository does not hold; "" where there is none."""
        return self.changes.get("weights", "")

    @property
    def label(self) -> str:
        """Its name in pictures and file names."""
        names = (self.algorithm, self.variant, self.peer and f"by-{self.peer}")
        return "-".join(name for name in names if name)


def _games() -> list[Figure]:
    """Return the figures of MinAtar: PPO with its references, PQN and DQN."""
    return [
        Figure(task=f"{game}-MinAtar", algorithm=name, seeds=SEEDS, reference=reference, source=source)
        for game, ppo in MINATAR.items()
        for name, (reference, source) in {"ppo": ppo, "pqn": ("", ""), "dqn": ("", "")}.items()
    ]


def _memory(task: str) -> list[Figure]:
    """Return the figures of a task that needs memory, PPO also without it and with others than a GRU."""
    plain = [Figure(task=task, algorithm=name) for name in ("ppo", "r2d2", "dqn")]
    without = plain[0]._replace(variant="feedforward", changes={"rnn": "none"})
    others = [plain[0]._replace(variant=rnn, changes={"rnn": rnn}, seeds=5) for rnn in ("lru", "mingru")]
    return [plain[0], without, *others, *plain[1:]]


def _exploration(task: str) -> list[Figure]:
    """Return the figures of a task that random play does not solve: PPO with and without curiosity."""
    kinds = [
        Figure(task=task, algorithm="ppo", variant=kind, changes={"curiosity": kind}, seeds=5)
        for kind in ("rnd", "icm")
    ]
    return [Figure(task=task, algorithm="ppo", seeds=5), *kinds]


def _beside(ours: Figure, peer: str, **changes: Any) -> list[Figure]:
    """Return a figure and that of a peer's own trainer, which trains its seeds one after the other.

    `changes` apply only to the peer: the settings that it ships with, if it learns more with them than with ours.
    """
    return [ours, ours._replace(seeds=min(ours.seeds, 2), peer=peer, changes=ours.changes | changes)]


def _disco(task: str, seeds: int = 10) -> Figure:
    """Return the figure of Disco103, whose weights a user downloads."""
    return Figure(task=task, algorithm="disco", seeds=seeds, changes={"weights": "disco_103.npz"})


def _three(task: str, algorithm: str) -> Figure:
    """Return a figure of three seeds."""
    return Figure(task=task, algorithm=algorithm, seeds=3)


def _mujoco(task: str, algorithm: str) -> list[Figure]:
    """Return the figures of MuJoCo at 300,000 and 1e6 steps: one seed, as a seed takes half an hour or an hour."""
    early, late = MUJOCO[task][algorithm]
    reference = f"about {early} at 300,000 steps of v2"
    short = Figure(task=f"gymnasium/{task}-v4", algorithm=algorithm, seeds=1, reference=reference, source=CLEANRL)
    changes = LONG_MUJOCO | (BY_CLEANRL if (task, algorithm) == ("Hopper", "td3") else {})
    return [short, short._replace(reference=f"{late} at 1e6 steps of v2", variant="long", changes=changes)]


def _craftax() -> list[Figure]:
    """Return PPO's figures of Craftax: a million steps without and with recurrence; one seed of ten million steps."""
    plain = _three("craftax/Craftax-Classic-Symbolic-v1", "ppo")
    recurrent = {
        "rnn": "gru",
        "rnn_size": 128,
        "hidden_sizes": (128,),
        "head_sizes": (128, 128),
        "activation": "relu",
    }
    memory = plain._replace(variant="memory", changes=recurrent)
    long = plain._replace(variant="long", changes={"total_timesteps": 10_000_000}, seeds=1)
    return [figure for ours in (plain, memory, long) for figure in _beside(ours, "craftax")]


def _as_gymnax(game: str) -> Figure:
    """Return PQN's figure of a game as gymnax plays it: 1e7 frames."""
    rules = {"action_set": "minimal", "sticky_action_probability": 0.0, **GYMNAX_LIMITS[game]}
    changes = {"env": rules, "total_timesteps": 10_000_000}
    return Figure(task=f"{game}-MinAtar", algorithm="pqn", seeds=SEEDS, variant="as-gymnax", changes=changes)


REFERENCES = {  # task -> algorithm -> what others reach, and who
    "CartPole-v1": {
        "ppo": ("490.0 +- 6.1", CLEANRL),
        "dqn": ("488.7 +- 16.1", CLEANRL),
        "pqn": ("495.1 +- 6.9", CLEANRL),
        "c51": ("481 to 491", CLEANRL),
        **dict.fromkeys(("a2c", "reinforce", "ppo-penalty", "impala", "vmpo", "awr", "mpo", "spo"), ("", "")),
        **dict.fromkeys(("alphazero", "muzero", "iqn", "munchausen", "qrdqn", "rainbow"), ("", "")),
    },
    "Acrobot-v1": {
        "ppo": ("-86.4 +- 1.3", CLEANRL),
        "dqn": ("-91.5 +- 7.2", CLEANRL),
        "pqn": ("-95.6 +- 5.7", CLEANRL),
        "c51": ("-87.7 +- 5.5", CLEANRL),
        **dict.fromkeys(("a2c", "reinforce", "ppo-penalty", "impala", "vmpo", "awr", "spo"), ("", "")),
        **dict.fromkeys(("iqn", "munchausen", "qrdqn", "rainbow"), ("", "")),
    },
    "MountainCar-v0": {"ppo": ("-200", CLEANRL), "dqn": ("-195 +- 8", CLEANRL), "pqn": ("", "")},
    "MountainCarContinuous-v0": {"ppo": ("92", "gymnax-blines")},
    "Pendulum-v1": {
        "ppo": ("-130", "gymnax-blines"),
        **dict.fromkeys((*CONTINUOUS, "alphazero", "muzero"), ("", "")),
    },
    "Reacher": dict.fromkeys(("ppo", *CONTINUOUS), ("", "")),
}
FIGURES = (
    *(
        Figure(task=task, algorithm=name, reference=reference, source=source)
        for task, by_name in REFERENCES.items()
        for name, (reference, source) in by_name.items()
    ),
    *(_disco(task) for task in ("CartPole-v1", "Acrobot-v1")),
    *_games(),
    *(_disco(f"{game}-MinAtar", SEEDS) for game in MINATAR),
    Figure(task="Breakout-MinAtar", algorithm="rainbow", seeds=SEEDS),
    *(figure for game in GYMNAX_LIMITS for figure in _beside(_as_gymnax(game), "purejaxql")),
    *(figure for task in MEMORY for figure in _memory(task)),
    *(_disco(task, SEEDS) for task in ("RepeatPrevious", "PositionOnlyCartPole")),
    *_exploration("DeepSea"),
    Figure(task="Breakout-MinAtar", algorithm="alphazero", seeds=SEEDS),
    *(figure for name in BRAX for figure in _beside(_three(f"brax/{name}", "ppo"), "brax", **BY_BRAX)),
    *(f for name in BRAX_SAC for f in _beside(_three(f"brax/{name}", "sac"), "brax")),
    *(f for name in ("ppo", "mappo", "qmix") for f in _beside(_three("jaxmarl/MPE_simple_spread_v3", name), "jaxmarl")),
    *_beside(_three("jaxmarl/HeuristicEnemySMAX", "ppo"), "jaxmarl"),
    *_beside(_three("jaxmarl/overcooked", "ppo")._replace(judged={"shaped_reward": 0.0}), "jaxmarl"),
    *_craftax(),
    *(_three(f"jumanji/{name}-v1", "alphazero") for name in ("Game2048", "Snake")),
    Figure(task="envpool/CartPole-v1", algorithm="ppo"),
    *(figure for task, by_name in MUJOCO.items() for name in by_name for figure in _mujoco(task, name)),
    _beside(_mujoco("HalfCheetah", "sac")[0], "cleanrl")[1],
    *(
        Figure(
            task="envpool/Pong-v5",
            algorithm=name,
            seeds=1,
            reference="20.25 +- 0.41 on 84 x 84",
            source=CLEANRL,
            source_algorithm="" if name == "dqn" else "dqn",
        )
        for name in ("dqn", "rainbow")
    ),
)


MISSED = {  # (task, label) -> why the reference is missed
    ("MountainCar-v0", "dqn"): (
        "learning starts when exploration reaches the goal, as rarely in CleanRL. PQN reaches it."
    ),
    ("Pendulum-v1", "ppo"): (
        "no algorithm here exceeds -146, so the published -130 was probably measured on different starting states."
    ),
    ("Freeway-MinAtar", "ppo"): (
        "about one crossing, at half the frames of the reference. After 2e7, three seeds reached 64.4."
    ),
    ("jaxmarl/MPE_simple_spread_v3", "qmix"): (
        "JaxMARL adds agent ids to the observations. Without them, its algorithm ends at -21.3 in four seeds. With "
        "them (purerl.wrappers.AgentIds), QMIX ends at -19.7 in three."
    ),
    ("gymnasium/Walker2d-v4", "sac"): (
        "CleanRL reports training episodes, which reach 3350 here over the last 30,000 steps. The greedy policy, "
        "reported here, reaches 3690 at 270,000 steps and less at the end."
    ),
    ("gymnasium/Hopper-v4", "td3-long"): (
        "one seed with CleanRL's learning rate of 3e-4. (With 1e-3, as in the shorter run, it ended at 1717.) CleanRL "
        "reports training episodes, which return 3198 here at the end. The greedy policy, reported here, varied "
        "between 745 and 3132 over the last 500,000 steps."
    ),
    ("envpool/Pong-v5", "dqn"): (
        "we stopped after 30 minutes on one core, before the curve flattens. Rainbow gets there in 3 times the steps."
    ),
}


def select(tasks: list[str], algorithms: list[str]) -> list[Figure]:
    """Return the figures of the given tasks and algorithms; all figures if none is named.

    Raises:
      InputError: for a task or an algorithm without a figure, naming the nearest.
    """
    known = list(dict.fromkeys(figure.task for figure in FIGURES))
    for task in tasks:
        if task not in known:
            raise unknown("task with published curves", task, known)
    candidates = [figure for figure in FIGURES if not tasks or figure.task in tasks]
    names = {name for figure in candidates for name in (figure.algorithm, figure.label)}
    for algorithm in algorithms:
        if algorithm not in names:
            raise unknown(f"algorithm with a curve on {', '.join(tasks) or 'any task'}", algorithm, names)
    return [
        figure
        for figure in candidates
        if not algorithms or figure.label in algorithms or figure.algorithm in algorithms
    ]


def settings_for(figure: Figure, seeds: int | None = None) -> Settings:
    """Return the settings of a figure's run."""
    changes = {name: value for name, value in figure.changes.items() if name != "env"}
    flags = {"seeds": seeds or figure.seeds, "keep_checkpoints": 1, "checkpoint_interval": 300, **changes}
    made = runs.settings(figure.algorithm, figure.task, flags, parameters=figure.changes.get("env"))
    interval = max(1, int(made.config.total_timesteps) // made.config.steps_per_update // ROWS)
    options = dataclasses.replace(made.options, log_interval=interval)
    return dataclasses.replace(made, options=options)


def with_settings(figures: Sequence[Figure]) -> Iterator[Figure]:
    """Return the figures that can be trained here, and print why the others cannot."""
    for figure in figures:
        if not runs.defaults_path(figure.algorithm, figure.task).is_file():
            print(f"{figure.label} on {figure.task}: left out, as configs/ has no settings for it yet")
        elif figure.needs and not Path(figure.needs).is_file():
            print(f"{figure.label} on {figure.task}: left out, as {figure.needs} is not in this folder")
        else:
            yield figure
