"""The plan of a run: validates the settings before anything is compiled or written; reads saved runs back."""

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from purerl import registry
from purerl.devices import selection, threads
from purerl.devices.sharding import make_mesh
from purerl.errors import InputError, hints, line_of
from purerl.fields import is_static
from purerl.host import JaxSource, make_host_trainer
from purerl.host_environment import HostSource
from purerl.levels.trainer import LevelAgent, make_trainer
from purerl.loop.train import Trainer, whole_updates
from purerl.run import agents, checkpoint, policies, program
from purerl.run.folders import changes
from purerl.run.host_program import HostFunctions, source_of
from purerl.run.program import Functions, Progress
from purerl.settings import agent_file, toml
from purerl.settings.options import RunOptions
from purerl.settings.runs import Settings, dump, settings
from purerl.types import Environment, PyTree

_loading: list[Path] = []  # the folders whose agents are being loaded, each named by the one before
FIXED = ("algorithm", "environment", "seed", "seeds", "self_play")  # once a run has begun
ROWS = 150  # of metrics.csv per seed, unless log_interval says otherwise


class Plan(NamedTuple):
    """All that is known of a run before anything is compiled or written."""

    settings: Settings
    env: Any
    trainer: Trainer
    parts: Functions
    shapes: Progress
    num_updates: int
    log_interval: int  # updates between two rows
    eval_interval: int  # updates between two evaluations, a multiple of log_interval

    @property
    def stage(self) -> Any:
        """The environment that episodes are drawn in: the trainer's, one of JAX also where the host steps it."""
        env = self.trainer.environment
        return env.env if isinstance(env, JaxSource) else env


def make_plan(run: Settings, mesh: Mesh | None = None) -> Plan:
    """Return the plan of a run.

    Args:
      run: the settings.
      mesh: the devices; None: as the settings say.

    Raises:
      InputError: if the run is not possible.
    """
    config, options = run.config, run.options
    with threads.fitting(config, run.environment, run.parameters):  # this and the next before JAX is used
        mesh = mesh or selection.choose(options.devices, options.mesh, options.seeds, config.num_envs)
    env = environment_of(run)
    factory, config = algorithm_of(run, env)
    check_levels(run, env, config)
    num_updates = whole_updates(config)
    source = source_of(env, run.environment, options, config)
    trainer: Trainer
    if source is not None:
        run = dataclasses.replace(run, parameters=run.parameters | source.parameters)  # those not given included
        host = HostFunctions(factory=factory, source=source, config=config, options=options, mesh=mesh)
        trainer = make_host_trainer(factory, source, config, host.settings())
    else:
        host = None
        trainer = make_trainer(factory, env, config)  # refuses what cannot be, while the numbers are still numbers
    parts = host or program.functions(factory, env, config, options.seed, options.seeds, mesh)
    log_interval = options.log_interval or math.ceil(num_updates / ROWS)
    eval_interval = log_interval * max(1, round(num_updates / max(options.evaluations, 1) / log_interval))
    with told_in_a_line(run.environment):
        shapes = parts.template()
    return Plan(
        settings=run,
        env=env,
        trainer=trainer,
        parts=parts,
        shapes=shapes,
        num_updates=num_updates,
        log_interval=log_interval,
        eval_interval=eval_interval,
    )


@contextlib.contextmanager
def told_in_a_line(name: str, what: str = "training on") -> Iterator[None]:
    """Tell what a user's own environment raises, where training alone reaches it, or another part, in one line."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if not registry.is_own(name):
            raise
        first = (str(error).strip() or "without a word").splitlines()[0]
        raise InputError(f"{what} {name} fails: {type(error).__name__}: {first}{line_of(error)}") from None


def algorithm_of(run: Settings, env: Environment) -> tuple[Any, Any]:
    """Return (factory, config) of a run; trained agents that its groups start from are loaded.

    Raises:
      InputError: as `policies.assemble`.
    """
    return policies.assemble(run, env, load_policy)


def check_levels(run: Settings, env: Any, config: Any) -> None:
    """Raise an `InputError` where a run with levels is none of a single policy on an environment in JAX.

    Args:
      run: the settings.
      env: its environment.
      config: that `algorithm_of` returned.
    """
    method = getattr(run.config, "levels", "none")
    if method == "none":
        return
    wrong = None
    if isinstance(env, HostSource):
        wrong = f"are of environments in JAX, and {run.environment} runs on the host"
    elif config is not run.config:
        wrong = f"are for one agent, and {run.environment} has several"
    if wrong is not None:
        raise InputError(f"levels {method}: levels {wrong}; --levels none trains without")


def environment_of(run: Settings) -> Any:
    """Return a run's environment, with self-play the game as both sides play it.

    Raises:
      InputError: as `make_environment`.
    """
    env = run.env
    if env is None:
        env = make_environment(run.environment, run.parameters)
    elif registry.is_own(run.environment) and not run.environment.startswith("purerl."):
        held(env, run.environment)
    return env.for_self_play() if run.options.self_play and isinstance(env, Environment) else env


def make_environment(name: str, parameters: dict[str, Any]) -> Any:
    """Return an environment by id; that of a user, as module:Class, is held to the contract's shapes first.

    Raises:
      InputError: if there is none, or it breaks the contract.
    """
    if not registry.is_own(name):
        return registry.make(name, **parameters)
    try:
        env = registry.make(name, **parameters)
    except InputError:
        raise
    except Exception as error:  # whatever a user's module raises
        raise InputError(f"{name} cannot be made: {type(error).__name__}: {error}") from None
    return held(env, name)


def held(env: Any, name: str) -> Any:
    """Hold an environment of the user's to the contract's shapes, and return it.

    Raises:
      InputError: if it breaks the contract.
    """
    from purerl.testing.environments import check_contract

    if not isinstance(env, HostSource):
        check_contract(env, name, jax.random.key(0))
    return env


class Handed(NamedTuple):
    """What Python hands where a folder's run is opened again: objects that no file can hold. None: as the file says."""

    algorithm: Any = None
    environment: Any = None
    config: Any = None

    @property
    def parts(self) -> list[str]:
        """The names of those that are handed."""
        return [name for name, part in self._asdict().items() if part is not None]


def saved_settings(folder: Path, handed: Handed = Handed()) -> Settings:
    """Return the settings of a run's folder, or of an agent's file.

    Raises:
      InputError: if it is no such folder, one of another version, or one that needs objects that are not handed.
    """
    toml.read_folder(folder, toml.RUN, handed=handed.parts)
    file = toml.file_of(folder)
    begun = bool(agent_file.find(folder) or checkpoint.steps(folder / "checkpoints"))
    with toml.told_of(file):
        run = settings(handed.algorithm, handed.environment, {}, {}, file, config=handed.config)
    return dataclasses.replace(run, begun=begun)


class SavedProgress(NamedTuple):
    """What a run's checkpoint holds."""

    progress: Progress  # on the host, with as many members as were saved: a seed each, and those that fill the mesh
    metadata: dict[str, Any]
    changed: str  # the settings that differ from those it was made with, in one line; "": none


def saved_progress(plan: Plan, folder: Path, step: int) -> SavedProgress:
    """Return what a checkpoint holds.

    Raises:
      InputError: if it is damaged, or that of another run or of other seeds or shapes.
    """
    members, seeds = checkpoint.members(folder, step), plan.settings.options.seeds
    notes = checkpoint.read_metadata(folder, step)
    file = (folder.parent if folder.name == checkpoint.BEST else folder).parent / toml.RUN.file
    told = changes(file, notes.get("settings"), settings_text(plan), partial(_is_free, plan))
    if members < seeds:
        raise InputError(f"checkpoint {folder / f'{step:09d}'} has {members} agents, and the run {seeds} seeds")
    found, metadata = checkpoint.load(folder, step, program.resized(plan.shapes, members))
    return SavedProgress(progress=found, metadata=metadata, changed=told)


def settings_text(plan: Plan) -> str:
    """Return a run's config.toml."""
    return dump(plan.settings, plan.env)


def _is_free(plan: Plan, name: str) -> bool:
    """Return whether a setting may differ from that of the checkpoint: no seed, and nothing that gives a shape."""
    if name in FIXED:
        return False
    owner, field = (plan.env, name.removeprefix("env.")) if name.startswith("env.") else (plan.settings.config, name)
    if name.startswith("groups."):
        _, group, field = name.split(".", 2)
        return isinstance(plan.settings.groups.get(group, {}).get(field), float)
    fields = {f.name: f for f in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else {}
    return field in hints(RunOptions) or (field in fields and not is_static(fields[field]))


def saved_run(folder: Path, handed: Handed = Handed(), which: str | int = "latest") -> tuple[Plan, Progress]:
    """Return the plan of a run's folder, on one device, and a checkpoint: "latest", "best", or that of an update.

    The file of an agent, or zoo/NAME, stands for a run of one seed that holds what acting needs.

    Raises:
      InputError: if there is no run or no such checkpoint, or it is damaged.
    """
    plan = make_plan(saved_settings(folder, handed), make_mesh(1))
    file = agent_file.find(folder)
    if file is not None and which != "latest":
        raise InputError(f"{folder} is an agent, which holds no checkpoints: leave out {which}")
    if file is not None:
        return plan, agents.read(file, plan.shapes)
    saved = saved_progress(plan, *checkpoint.find(folder / "checkpoints", which))
    return plan, program.resized(saved.progress, plan.settings.options.seeds)


def load_policy(folder: Path, name: str) -> policies.TrainedPolicy:
    """Return the policy that a run trained under a name, or its only one, of the first seed that did not fail.

    Args:
      folder: the run's.
      name: of the policy.

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


def policy_of(plan: Plan, agent: PyTree, name: str, folder: Path) -> policies.TrainedPolicy:
    """Return the policy that an agent of a run holds under a name, or its only one.

    Args:
      plan: of the run.
      agent: of one seed.
      name: of the policy.
      folder: the run's, for messages.

    Raises:
      InputError: if the run has several policies and none of this name.
    """
    agent = jax.device_get(agent.learner if isinstance(agent, LevelAgent) else agent)
    factory, config = algorithm_of(plan.settings, plan.env)
    return policies.trained_policy(factory, config, plan.env, agent, name, str(folder))
