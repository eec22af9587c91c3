"""Evolution of objectives: searches, saves, shows and reports, by any `purerl.evolution.method.Method`."""

from collections.abc import Sequence
from pathlib import Path

from purerl.errors import InputError, path_given
from purerl.evolution.inner_loop import Learner, Task
from purerl.evolution.job import EvolutionJob, Evolved
from purerl.evolution.plan import EvolvePlan, python_plan, saved_plan
from purerl.run.folders import enter_folder
from purerl.settings import toml
from purerl.settings.options import EvolveOptions, make_options
from purerl.trust import trusting
from purerl.types import PyTree


def evolve(
    candidate: PyTree,
    learner: Learner,
    tasks: Sequence[Task],
    *,
    strategy: object = None,
    out: str | Path | None = None,
    resume: bool = False,
    display: str = "auto",
    **options: object,
) -> Evolved:
    """Evolve the float parameters of a candidate, such as an objective, over complete training runs.

    Args:
      candidate: the start of the search: any pytree that the learner accepts, such as an objective.
      learner: candidate -> algorithm, such as `Plug(ppo, "objective")` of `purerl.evolution.inner_loop`.
      tasks: the environments and the lengths of the training runs, `purerl.evolution.inner_loop.Task`s.
      strategy: a name, such as "snes" or "cma_es", or one of `purerl.evolution.strategies` with its own population;
        None: OpenES.
      out: a folder for generations.csv, checkpoints and the report; without it, none of them is written.
      resume: continue the evolution in `out`, if there is one; the arguments must be the same.
      display: "auto" (a live panel in a terminal or a notebook, lines elsewhere), "plain" (lines) or "none".
      **options: fields of `purerl.settings.options.EvolveOptions`, such as population=64, generations=100.

    Returns:
      The evolved candidate with its history and its folder.

    Raises:
      InputError: for an evolution that is not possible, before anything is compiled.

    Example:
      >>> import jax
      >>> import purerl
      >>> from purerl.algos.ppo import PPOConfig, ppo
      >>> from purerl.evolution.candidates import lpo
      >>> from purerl.evolution.inner_loop import Plug, Task
      >>> config = PPOConfig(num_envs=4, rollout_length=8)
      >>> task = Task(name="Catch", env=purerl.make("Catch"), config=config, total_timesteps=64)
      >>> plug = Plug(ppo, "objective")
      >>> found = purerl.evolve(lpo(jax.random.key(0)), plug, [task], population=2, generations=1, display="none")
      >>> type(found.candidate).__name__ == type(lpo(jax.random.key(0))).__name__
      True
    """
    if isinstance(strategy, str):
        options, strategy = options | {"strategy": strategy}, None
    plan = python_plan(make_options(EvolveOptions, options), candidate, learner, tasks, strategy)
    folder, go_on = None, False
    if out is not None:
        folder, go_on = enter_folder(toml.EVOLUTION, path_given(out, "out"), (), plan.text, resume)
    job = EvolutionJob(plan, folder, display, go_on)
    job.succeed()
    return job.evolved()


def start(plan: EvolvePlan, out: Path | None = None, plain: bool = False) -> int:
    """Evolve from the beginning, into `out` or runs/evolve-OBJECTIVE-N; return the exit code."""
    folder, _ = enter_folder(toml.EVOLUTION, out, ("evolve", plan.name), plan.text)
    return EvolutionJob(plan, folder, "plain" if plain else "auto").complete()


def resume(folder: Path, plain: bool = False, **devices: object) -> int:
    """Resume an evolution with bit-identical results; as `start`.

    Other `devices` give the same bits too, except with meta-gradients, which sum over the agents of all devices.
    """
    return EvolutionJob(saved_plan(folder, **devices), folder, "plain" if plain else "auto", go_on=True).complete()


def load(folder: str | Path, trust: bool = False) -> Evolved:
    """Return the evolution in a folder, from its newest checkpoint.

    Args:
      folder: the folder of the evolution.
      trust: import the modules that it names, where a task or the objective is a module:name.

    Raises:
      InputError: if there is no evolution of named parts or no checkpoint, it is damaged, or it names a module that
        is not trusted.
    """
    folder = Path(folder)
    with trusting(trust):
        plan = saved_plan(folder)
    job = EvolutionJob(plan, folder, "plain", go_on=True, locked=False)
    if job.checkpoint is None:
        raise InputError(f"{folder} has no checkpoint yet")
    return job.evolved()
