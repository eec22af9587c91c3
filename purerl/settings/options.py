"""The options of all commands, declared once: name, type, default, bounds and help. Flags and TOML are generated."""

import dataclasses
import math
import numbers
from collections.abc import Mapping
from typing import Any, TypeVar

from purerl.errors import InputError, hints, told, unknown
from purerl.settings.values import coerce

MOST = 2**20  # agents, trials, candidates or episodes: beyond it a list of them alone is large
DESIGNS = ("random", "grid", "qmc")  # designs of a sweep's trials
METHODS = ("evolution", "meta-gradient")  # methods of purerl evolve
FITNESS = ("auc", "final", "wins")  # fitness of an evolution's candidates
RESUMED = ("devices", "mesh", "stop_at_return")  # options that may be given where a run is resumed
SHAPING = ("zscore", "rank")
ACROSS_TASKS = ("mean", "worst")
T = TypeVar("T")


def option(
    default: object,
    doc: str,
    metavar: str = "VALUE",
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    meaning: str = "",
) -> Any:
    """Declare a field of a dataclass of options.

    Args:
      default: its value if none is given.
      doc: its help.
      metavar: the name of its value in help pages.
      at_least, at_most: its smallest and its largest value.
      choices: the values allowed, if they can be listed.
      meaning: a description of the default for help pages, if the value does not explain itself.
    """
    bounds = {"at_least": at_least, "at_most": at_most}
    metadata = {"doc": doc, "metavar": metavar, "choices": choices, "meaning": meaning}
    return dataclasses.field(default=default, metadata=metadata | bounds)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """Where a command runs."""

    distributed: bool = option(False, "join other processes, described by the next three options or by SLURM")
    coordinator: str | None = option(None, "address of the first process", "HOST:PORT")
    num_processes: int | None = option(None, "number of processes", "N")
    process_index: int | None = option(None, "index of this process, from 0", "I")
    no_cache: bool = option(False, "do not use the cache of compiled programs")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The settings of a run apart from its algorithm's config."""

    seeds: int = option(1, "agents trained in parallel, in one program", "N", at_least=1, at_most=MOST)
    seed: int = option(0, "first seed; agent i uses seed + i", "S")
    start: str | None = option(
        None,
        "begin with the parameters and statistics of a trained run, and with the settings of its networks",
        "RUN",
    )
    log_interval: int = option(
        0, "updates between two rows of metrics.csv", "N", at_least=0, meaning="0: about 150 rows"
    )
    evaluations: int = option(10, "evaluations during the run", "N", at_least=0)
    eval_episodes: int = option(128, "episodes per seed of the final evaluation", "N", at_least=1, at_most=MOST)
    checkpoint_interval: float = option(60.0, "time between two checkpoints", "SECONDS", at_least=0)
    keep_checkpoints: int = option(3, "number of checkpoints kept, the newest ones", "K", at_least=1)
    extension: tuple[str, ...] = option(
        (), "your own extensions, module:object, separated by commas", "NAMES", meaning="none"
    )
    keep_best: bool = option(
        False, "also keep the checkpoint with the highest mean evaluation return, as checkpoints/best"
    )
    stop_at_return: float | None = option(
        None, "end the run when the mean evaluation return over the seeds reaches this", "RETURN"
    )
    video_interval: int = option(
        0, "updates between two videos of an episode, in videos/", "N", at_least=0, meaning="0: none"
    )
    tensorboard: bool = option(False, "also write TensorBoard events")
    wandb: str | None = option(None, "also log to this project of Weights & Biases", "PROJECT")
    mlflow: bool = option(False, "also log to MLflow, at MLFLOW_TRACKING_URI")
    devices: int | str = option(
        "auto", "number of devices", "N", meaning="auto: one per seed, up to the number available"
    )
    mesh: tuple[str, ...] = option((), "axes of the device mesh, such as seed=4,data=2", "SIZES", meaning="seeds first")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweptRunOptions:
    """The options of a sweep's runs: fields of `RunOptions` whose default or meaning differs in a sweep."""

    seeds: int = option(8, "agents of each trial", "N", at_least=1, at_most=MOST)
    seed: int = option(0, "first seed; it also determines the trials", "S")
    devices: int | str = option(
        "auto", "devices that share the agents", "N", meaning="auto: all, on a CPU one per core"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The settings of a sweep's search."""

    method: str = option(
        "random",
        "the search: random, grid, qmc (Sobol points), halving or pbt (population based training)",
        "METHOD",
        choices=(*DESIGNS, "halving", "pbt"),
    )
    metric: str = option(
        "episode_return", "column of metrics.csv that ranks the trials; -NAME: lower is better", "NAME"
    )
    trials: int = option(64, "number of trials; for PBT the size of the population", "N", at_least=1, at_most=MOST)
    points: int = option(50, "points of each curve", "N", at_least=1, at_most=10000)
    chunk: int = option(
        0, "trials trained at once", "N", at_least=0, at_most=MOST, meaning="0: chosen for speed and memory"
    )
    eta: int = option(3, "halving: one in this many trials reaches the next rung", "N", at_least=2, at_most=MOST)
    rungs: int = option(
        3,
        "halving: number of lengths at which trials are compared, the last being the complete run",
        "N",
        at_least=2,
        at_most=32,
    )
    slots: int = option(
        0, "halving: trials trained at once", "N", at_least=0, at_most=MOST, meaning="0: as many as reach the last rung"
    )
    generations: int = option(
        20, "PBT: how often mutated copies of the best members replace the worst", "N", at_least=2, at_most=10000
    )
    checkpoint_interval: float = option(60.0, "time between two checkpoints", "SECONDS", at_least=0)
    fresh_seeds: int = option(
        0,
        "train the best settings with this many new seeds at the end: the score that selected them is optimistic",
        "N",
        at_least=0,
        at_most=MOST,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvolveOptions:
    """The settings of an evolution."""

    method: str = option("evolution", "how to search: evolution or meta-gradient", "NAME", choices=METHODS)
    population: int = option(
        64, "candidates per generation, or agents per task with meta-gradients", "N", at_least=2, at_most=MOST
    )
    generations: int = option(100, "number of generations", "N", at_least=1, at_most=MOST)
    seeds: int = option(1, "training runs per candidate and task", "N", at_least=1, at_most=MOST)
    seed: int = option(0, "random seed of the evolution", "S")
    strategy: str = option("openes", "the strategy: openes, snes, or an algorithm of evosax such as cma_es", "NAME")
    sigma: float = option(0.04, "standard deviation of the first candidates", "X", at_least=0)
    sigma_decay: float = option(0.999, "factor of sigma per generation, for openes", "X", at_least=0)
    meta_learning_rate: float = option(
        0.01, "learning rate of Adam, the optimizer of openes and of meta-gradients", "X", at_least=0
    )
    inner_updates: int = option(
        5, "updates of an agent through which a meta-gradient is backpropagated", "K", at_least=1, at_most=MOST
    )
    meta_entropy_coefficient: float = option(0.01, "weight of the entropy in the outer loss", "X", at_least=0)
    antithetic: bool = option(True, "sample candidates in pairs, mean + e and mean - e", "BOOL")
    fitness: str = option("auc", "score of a training run: auc, final or wins", "NAME", choices=FITNESS)
    shaping: str = option(
        "zscore", "normalization of a task's fitness over the population: zscore or rank", "NAME", choices=SHAPING
    )
    across_tasks: str = option(
        "mean", "fitness over several tasks, normalized: mean or worst", "NAME", choices=ACROSS_TASKS
    )
    weight_decay: float = option(0.0, "penalty on the mean square of a candidate's parameters", "X", at_least=0)
    fresh: bool = option(False, "use separate random numbers for each candidate instead of common ones")
    minutes: float = option(
        0.0, "stop after this many minutes, compilation included", "X", at_least=0, meaning="0: after all generations"
    )
    chunk: int = option(
        0,
        "training runs in parallel on a device",
        "N",
        at_least=0,
        at_most=MOST,
        meaning="0: chosen for speed and memory",
    )
    devices: int | str = option(
        "auto", "devices that share the training runs", "N", meaning="auto: all, on a CPU one per core"
    )
    checkpoint_generations: int = option(10, "generations between two checkpoints", "K", at_least=1)
    keep_checkpoints: int = option(3, "number of checkpoints kept, the newest ones", "K", at_least=1)
    frames: int = option(40, "generations whose center is saved for the animation", "N", at_least=2, at_most=10000)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetaOptions:
    """The settings of a meta-evaluation."""

    seeds: int = option(32, "agents per task and method", "N", at_least=2, at_most=MOST)
    tuning: float = option(
        1.0,
        "training runs that tune PPO, as a fraction of the evolution's; 0: no tuned PPO",
        "X",
        at_least=0,
        at_most=1000,
    )
    compare: str = option("final", "score of a training run: final or auc", "NAME", choices=("final", "auc"))


def make_options(cls: type[T], values: Mapping[str, object], source: str = "") -> T:
    """Return options from {name: value}, typed as the fields are.

    Args:
      cls: a dataclass of `option`s.
      values: by field.
      source: where they come from, such as a file, for messages.
    """
    known = hints(cls)
    if not isinstance(values, Mapping):
        raise InputError(f"{source or cls.__name__} must be a table of settings; it is {told(values)}")
    for name in values:
        if name not in known:
            raise unknown(f"setting in {source}" if source else "setting", name, known)
    where = f"{source}: " if source else ""
    return checked(cls(**{name: coerce(value, known[name], f"{where}{name}") for name, value in values.items()}))


def checked(options: T) -> T:
    """Return a dataclass of `option`s after checking its values.

    Raises:
      InputError: for a number below the smallest one allowed, none of the choices, or seeds that are none.
    """
    for field in dataclasses.fields(options):  # type: ignore[arg-type]
        value, choices = getattr(options, field.name), field.metadata["choices"]
        least, most = field.metadata["at_least"], field.metadata["at_most"]
        if choices and value not in choices:
            raise unknown(field.name, value, choices)
        if isinstance(value, float) and math.isnan(value):
            raise InputError(f"{field.name} is nan; it must be a number")
        if least is not None and not value >= least:
            raise InputError(f"{field.name} is {value}; it must be at least {least}")
        if most is not None and value > most:
            raise InputError(f"{field.name} is {value}; it must be at most {most}")
    if hasattr(options, "seed"):
        check_seed(options.seed, options.seeds)  # type: ignore[attr-defined]
    return options


def check_seed(seed: object, count: int = 1) -> None:
    """Raise an `InputError` unless seed, seed + 1, ..., seed + count - 1 are 32-bit words, as the keys require."""
    if not isinstance(seed, numbers.Integral) or not 0 <= int(seed) <= 2**32 - count:
        among = "" if count == 1 else f", with {count} seeds"
        raise InputError(f"seed is {seed}; it must be an integer from 0 to {2**32 - count}{among}")
