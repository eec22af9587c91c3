"""A run before it runs: everything that can be refused is refused here, before anything is written."""

import contextlib
import dataclasses
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from purerl import registry
from purerl.devices import selection, threads
from purerl.errors import InputError
from purerl.host import make_host_trainer
from purerl.loop.train import Trainer, make_trainer, updates_of
from purerl.recompute.observations import from_states, make_rebuilding_trainer
from purerl.run import checkpoint, policies, program, tensorboard
from purerl.run.config import FORMAT, Settings, read_toml, settings
from purerl.run.host_program import HostFunctions, source_of
from purerl.run.program import Functions, Progress
from purerl.types import Environment

ROWS = 150  # of metrics.csv per seed, unless log_interval says otherwise


class Plan(NamedTuple):
    """A run before anything is compiled or written."""

    settings: Settings
    env: Any
    trainer: Trainer
    parts: Functions
    shapes: Progress
    num_updates: int
    log_interval: int  # updates between two rows
    eval_interval: int  # updates between two evaluations, a multiple of log_interval


def make_plan(run: Settings, mesh: Mesh | None = None) -> Plan:
    """Look whether a run is possible.

    Args:
      run: the settings.
      mesh: the devices; None: as the settings say.

    Raises:
      InputError: if it is not.
    """
    config, options = run.config, run.options
    with threads.fitting(config, run.environment, run.parameters):  # this and the next before JAX is used
        mesh = mesh or selection.choose(options.devices, options.mesh, options.seeds, config.num_envs)
    env = environment_of(run)
    factory, config = policies.assemble(run, env)
    source = source_of(env, run.environment, options, config)
    make_training = make_rebuilding_trainer if options.rebuild_observations else make_trainer
    trainer: Trainer
    if source is not None:
        run = dataclasses.replace(run, parameters=run.parameters | source.parameters)  # those not given included
        host = HostFunctions(factory=factory, source=source, config=config, options=options, mesh=mesh)
        trainer = make_host_trainer(factory, source, config, host.settings())
        if options.rebuild_observations:
            from_states(factory, source)  # raises: the host shows no states
    else:
        host = None
        make_training(factory, env, config)  # refuses what cannot be, while the numbers are still numbers
        trainer = make_trainer(factory, env, config)
    num_updates = updates_of(config)
    if options.seed + options.seeds > 2**32:
        raise InputError(f"seed is {options.seed}; seeds must be below 2^32")
    if options.tensorboard:
        tensorboard.require()
    parts = host or program.functions(factory, env, config, options.seed, options.seeds, mesh, make_training)
    log_interval = options.log_interval or math.ceil(num_updates / ROWS)
    eval_interval = log_interval * max(1, round(num_updates / max(options.evaluations, 1) / log_interval))
    return Plan(
        settings=run,
        env=env,
        trainer=trainer,
        parts=parts,
        shapes=parts.template(),
        num_updates=num_updates,
        log_interval=log_interval,
        eval_interval=eval_interval,
    )


def environment_of(run: Settings) -> Any:
    """Return a run's environment, with self-play the game as both sides play it.

    Raises:
      InputError: as `make_environment`.
    """
    env = make_environment(run.environment, run.parameters)
    return env.for_self_play() if run.options.self_play and isinstance(env, Environment) else env


def make_environment(name: str, parameters: dict[str, Any]) -> Any:
    """Return an environment by id; that of a user, as module:Class, is held to the contract's shapes first.

    Raises:
      InputError: if there is none, or it breaks the contract.
    """
    if not registry.is_own(name):
        return registry.make(name, **parameters)
    from purerl.testing.environments import check_contract

    try:
        env = registry.make(name, **parameters)
    except InputError:
        raise
    except Exception as error:  # whatever a user's module raises
        raise InputError(f"{name} cannot be made: {type(error).__name__}: {error}") from None
    check_contract(env, name, jax.random.key(0))
    return env


def new_folder(out: Path | None, *words: str) -> Path:
    """Make a folder, `runs/<words>-<n>` such as `runs/ppo-CartPole-v1-1` if none is named, and return it.

    Raises:
      InputError: if it exists or cannot be written.
    """
    name, n = "-".join(words).replace("/", "-").replace(":", "-"), 1
    while True:
        folder = out or Path("runs") / f"{name}-{n}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            if out is not None:
                raise InputError(f"{out} exists; name another --out, or go on there with --resume {out}") from None
            n += 1
        except OSError as error:
            raise InputError(f"cannot write {folder}: {error.strerror}") from None


def saved_settings(folder: Path) -> Settings:
    """Return the settings of a run's folder.

    Raises:
      InputError: if it is no such folder, or one of another version.
    """
    if not folder.is_dir():
        raise InputError(f"there is no run in {folder}: no such folder")
    if not (folder / "config.toml").is_file():
        raise InputError(f"there is no run in {folder}: it has no config.toml")
    table = read_toml(folder / "config.toml")
    if "format" not in table:
        raise InputError(f"{folder / 'config.toml'} is not complete: it does not say its format (wanted: {FORMAT})")
    return settings(None, None, {}, {}, folder / "config.toml")


def saved_progress(plan: Plan, folder: Path, step: int) -> tuple[Progress, dict[str, Any]]:
    """Return a checkpoint's `Progress` on the host, with a lane per seed, and its notes.

    Raises:
      InputError: if it is damaged, or that of another run.
    """
    lanes = checkpoint.read_notes(folder, step).get("lanes", plan.settings.options.seeds)
    found, notes = checkpoint.load(folder, step, program.resized(plan.shapes, lanes))
    notes.pop("lanes", None)
    return program.resized(found, plan.settings.options.seeds), notes


def check_same(file: Path, text: str, what: str) -> None:
    """Hold the file of a folder, such as sweep.toml, to what it is to say, whatever devices it ran on.

    Args:
      file: of the folder.
      text: what it is to say.
      what: "sweep" or "evolution".

    Raises:
      InputError: if it is not there, or says something else.
    """
    if not file.is_file():
        raise InputError(f"there is no {what} in {file.parent}: it has no {file.name}")
    texts = (file.read_text(encoding="utf-8"), text)
    written, wanted = ([line for line in text.splitlines() if not line.startswith("devices = ")] for text in texts)
    for here, there in zip(wanted, written, strict=False):
        if here != there:
            raise InputError(f"{file.parent} holds another {what}: it has {there!r} where this one has {here!r}")
    if len(written) != len(wanted):
        raise InputError(f"{file.parent} holds another {what}: it searches other fields")


def lock(folder: Path, file_name: str = "config.toml") -> Any:
    """Hold the folder that a file is in, so that no second process writes there; the lock ends with the process.

    Raises:
      InputError: if another process holds it.
    """
    with contextlib.suppress(ImportError):
        import fcntl

        file = (folder / file_name).open("rb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise InputError(f"{folder} is in use: another process is training there") from None
        return file
    return None
