"""The plan of a run: validates the settings before anything is compiled or written; reads saved runs."""

import dataclasses
import math
import warnings
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from purerl import agent_groups
from purerl.catalog.algorithms import FOLLOWERS
from purerl.devices import selection, threads
from purerl.devices.sharding import make_mesh
from purerl.errors import InputError, hints, unknown
from purerl.host_environment import HostSource
from purerl.loop.extension import Extension, MakeFromSetup, Setup, in_use, maker, may_change
from purerl.loop.train import Trainer, whole_updates
from purerl.run import agents, checkpoint, program
from purerl.run.environments import check_actions, environment_of, told_in_a_line
from purerl.run.folders import changes
from purerl.run.program import Functions, Progress
from purerl.run.stepped_program import SteppedFunctions
from purerl.run.warm_start import TrainedPolicy, started
from purerl.settings import agent_file, objective_file, toml
from purerl.settings.extensions import check_given
from purerl.settings.options import RunOptions
from purerl.settings.runs import Settings, absent, dump, settings
from purerl.trust import reading
from purerl.types import AlgorithmFactory, Config, Environment, PyTree

_loading: list[Path] = []  # the folders whose agents are being loaded, each named by the one before
FIXED = ("algorithm", "environment", "seed", "seeds")  # once a run has begun
ROWS = 150  # rows of metrics.csv per seed, unless log_interval is given


class Plan(NamedTuple):
    """The complete description of a run before anything is compiled or written."""

    settings: Settings
    env: Any  # an `Environment` or a `HostSource`
    extensions: tuple[Extension, ...]  # in use
    setup: Setup
    trainer: Trainer
    parts: Functions
    shapes: Progress
    num_updates: int
    log_interval: int  # updates between two rows
    eval_interval: int  # updates between two evaluations, a multiple of log_interval

    @property
    def stage(self) -> Environment:
        """The environment that renders episodes: the trainer's, or the JAX environment behind a host one."""
        env = self.trainer.environment
        return env.stage if isinstance(env, HostSource) else env


class Made(NamedTuple):
    """The parts of a run's trainer."""

    env: Any  # an `Environment` or a `HostSource`
    extensions: tuple[Extension, ...]  # in use
    make: MakeFromSetup
    setup: Setup

    def trainer(self) -> Trainer:
        """Return the trainer."""
        return self.make(self.setup)


def made(run: Settings) -> Made:
    """Return the parts of a run's trainer, with the trained agents that it starts from loaded."""
    env = environment_of(run)
    used = in_use(run.extensions, run.extension_options, env, run.config)
    check_given(run.extensions, used, run.given)
    if not agent_groups.sizes(env):
        check_actions(run, env)
    options = {row.name: row.prepare(run.options_of(row), run, env) for row in used}
    factory = run.make_algorithm()
    if run.algorithm in FOLLOWERS and run.folder is None:
        _check_rule(run, factory, used)
    if not any(row.starts for row in used):
        factory = _started(run, factory)
    config = run.config.resumed() if run.begun else run.config
    return Made(
        env=env, extensions=used, make=maker(factory, used), setup=Setup(config=config, env=env, options=options)
    )


def _check_rule(run: Settings, factory: AlgorithmFactory, used: Iterable[Extension]) -> None:
    """Reject an algorithm that learns by an evolved rule and has none: by a random rule it would learn nothing."""
    row, names = next(row for row in run.extensions if row.name == "objectives"), [row.name for row in used]
    if row.name not in names:
        barred = [f"{name} cannot be combined with --{row.switch}" for name in names if name in row.excludes]
        fix = barred[0] if barred else f"give --{row.switch}, such as zoo/{run.algorithm}"
        objective_file.check_rule(run.algorithm, factory, fix)


def make_plan(run: Settings, mesh: Mesh | None = None) -> Plan:
    """Return the plan of a run.

    Args:
      run: the settings.
      mesh: the devices; None: from the settings.

    Raises:
      InputError: for settings that cannot be, and numbers that no array or index can be as large as.
    """
    try:
        return _plan(run, mesh)
    except OverflowError as error:
        raise InputError(f"a number is too large: {str(error).strip().splitlines()[0]}") from None


def _plan(run: Settings, mesh: Mesh | None) -> Plan:
    config, options = run.config, run.options
    with threads.fitting(config, run.environment, run.parameters):  # this and the next before JAX is used
        mesh = mesh or selection.choose(options.devices, options.mesh, options.seeds, config.num_envs)
    found = made(run)
    num_updates = whole_updates(config)
    trainer = found.trainer()  # refuses what cannot be, while the numbers are still numbers
    if isinstance(found.env, HostSource):
        run = dataclasses.replace(run, parameters=run.parameters | found.env.parameters)  # those not given included
    log_interval = options.log_interval or math.ceil(num_updates / ROWS)
    eval_interval = log_interval * max(1, round(num_updates / max(options.evaluations, 1) / log_interval))
    parts = _functions(run, found, trainer, mesh)
    with told_in_a_line(run.environment), warnings.catch_warnings():
        # a warning about arrays with more numbers than an int32 counts, which `sizing` rejects in one line
        warnings.filterwarnings("ignore", "Explicitly requested dtype int64", module=r"jax\._src\.numpy\.indexing")
        shapes = parts.template()
    return Plan(
        settings=run,
        env=found.env,
        extensions=found.extensions,
        setup=found.setup,
        trainer=trainer,
        parts=parts,
        shapes=shapes,
        num_updates=num_updates,
        log_interval=log_interval,
        eval_interval=eval_interval,
    )


def _functions(run: Settings, found: Made, trainer: Trainer, mesh: Mesh) -> Functions:
    seed, seeds = run.options.seed, run.options.seeds
    if trainer.pure:
        return program.functions(found.make, found.setup, seed, seeds, mesh)
    if seeds > 1:
        raise InputError(
            f"{run.environment} runs on the host and cannot be vmapped over {seeds} seeds: start a run for each, "
            f"--seed 0, --seed 1, ..."
        )
    stepped: Any = trainer
    return SteppedFunctions(trainer=stepped, seeds=np.array([seed], np.uint32), mesh=mesh)


def _started(run: Settings, factory: AlgorithmFactory) -> AlgorithmFactory:
    """Return a run's algorithm; if the run has a start, its agents begin with the agents of that run."""
    source = run.options.start
    if source is None or run.begun:
        return factory
    return started(
        factory, load_policy(reading.path_of(source), "").agent, f"the agent of {run.algorithm}, with {source},"
    )


class Handed(NamedTuple):
    """Python objects for a run that is opened again, which no file can hold. None: as in the file."""

    algorithm: AlgorithmFactory | str | None = None
    environment: Environment | HostSource | str | None = None
    config: Config | None = None

    @property
    def parts(self) -> list[str]:
        """The names of the given objects."""
        return [name for name, part in self._asdict().items() if part is not None]


def saved_settings(folder: Path, handed: Handed = Handed()) -> Settings:
    """Return the settings in a run's folder or an agent's file."""
    toml.read_folder(folder, toml.RUN, handed=handed.parts)
    file = toml.file_of(folder)
    begun = bool(agent_file.find(folder) or checkpoint.steps(folder / "checkpoints"))
    with toml.told_of(file):
        run = settings(handed.algorithm, handed.environment, {}, {}, file, config=handed.config)
    return dataclasses.replace(run, begun=begun, folder=folder)


class SavedProgress(NamedTuple):
    """The content of a run's checkpoint."""

    progress: Progress  # on the host, with as many members as were saved: a seed each, and those that fill the mesh
    metadata: dict[str, Any]
    changed: str  # the settings that differ from those it was made with, in one line; "": none


def saved_progress(plan: Plan, folder: Path, step: int) -> SavedProgress:
    """Return the content of a checkpoint.

    Raises:
      InputError: if it is damaged, or belongs to another run or to other seeds or shapes.
    """
    members, seeds = checkpoint.members(folder, step), plan.settings.options.seeds
    notes = checkpoint.read_metadata(folder, step)
    file = (folder.parent if folder.name == checkpoint.BEST else folder).parent / toml.RUN.file
    told = changes(file, notes.get("settings"), settings_text(plan), partial(_is_free, plan), absent(plan.settings))
    if members < seeds:
        raise InputError(f"checkpoint {folder / f'{step:09d}'} has {members} agents, and the run {seeds} seeds")
    wanted = program.resized(plan.shapes, members)
    found, metadata = checkpoint.load(folder, step, wanted, added={"interval/known": "interval/updates"})
    return SavedProgress(progress=found, metadata=metadata, changed=told)


def settings_text(plan: Plan) -> str:
    """Return a run's config.toml."""
    return dump(plan.settings, plan.env)


def _is_free(plan: Plan, name: str) -> bool:
    """Return whether a setting may differ from the checkpoint's: not a seed, and nothing that determines a shape."""
    if name in FIXED:
        return False
    table, _, rest = name.partition(".")
    if rest and table != "env":  # in a table of an extension, such as groups.GROUP.NAME
        key, _, field = rest.partition(".")
        options = (getattr(of, table, ()) for of in plan.settings.extension_options.values())
        found = next((dict(inner) for tables in options for other, inner in tables if other == key), {})
        return isinstance(found.get(field), float)
    setup = Setup(config=plan.settings.config, env=plan.env, options=plan.settings.extension_options)
    return name in hints(RunOptions) or may_change(setup, name)


def saved_run(folder: Path, handed: Handed = Handed(), which: str | int = "latest") -> tuple[Plan, Progress]:
    """Return the plan of a run's folder, on one device, and a checkpoint: "latest", "best", or an update's.

    The file of an agent, or zoo/NAME, is treated as a run of one seed with everything that acting needs.
    """
    plan = make_plan(saved_settings(folder, handed), make_mesh(1))
    file = agent_file.find(folder)
    if file is not None and which != "latest":
        raise InputError(f"{folder} is an agent, which holds no checkpoints: leave out {which}")
    if file is not None:
        return plan, agents.read(file, plan.shapes)
    saved = saved_progress(plan, *checkpoint.find(folder / "checkpoints", which))
    return plan, program.resized(saved.progress, plan.settings.options.seeds)


def load_policy(folder: Path, name: str) -> TrainedPolicy:
    """Return the policy that a run trained under a name, or its only one, for the first seed that did not fail.

    Raises:
      InputError: as `saved_run`, if the run has several policies and none of this name, or if it names itself.
    """
    if folder.resolve() in _loading:
        raise InputError(f"the agents of {folder} start from themselves")
    _loading.append(folder.resolve())
    try:
        plan, progress = saved_run(folder)
    finally:
        _loading.pop()
    seed = int(np.argmin(np.asarray(progress.failed_at) > 0))
    return policy_of(plan, jax.tree.map(lambda x: x[seed], progress.state.agent), name, folder)


def policy_of(plan: Plan, agent: PyTree, name: str, folder: Path) -> TrainedPolicy:
    """Return the policy of a run's agent under a name, or its only one."""
    policies = plan.trainer.policies
    if name not in policies and len(policies) > 1:
        raise unknown(f"policy of {folder}", name, policies)
    policy = policies[name if name in policies else next(iter(policies))]
    return TrainedPolicy(factory=policy.factory, config=policy.config, agent=jax.device_get(policy.select(agent)))
