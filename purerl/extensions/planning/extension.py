"""Planning in the environment itself, as an extension: needed for algorithms whose config sets `plans`."""

from purerl import registry
from purerl.fields import pytree
from purerl.loop.extension import Extension
from purerl.loop.trainer import MakeTrainer, Trainer
from purerl.types import AlgorithmFactory, Config, Environment


@pytree
class PlanningOptions:
    """No options: the settings of planning are in the algorithm's config."""


def wrap(make: MakeTrainer, options: PlanningOptions) -> MakeTrainer:
    """Wrap a maker of trainers: pass the environment's step to the algorithm; evaluate games against an opponent."""

    def make_planner(algorithm: AlgorithmFactory, env: Environment, config: Config) -> Trainer:
        if not config.plans:
            return make(algorithm, env, config)
        from purerl.extensions.planning.modeling import planning_trainer

        return planning_trainer(make, algorithm, env, config)

    return make_planner


def _needed(env: Environment, config: Config) -> str:
    name = registry.name_of(config)
    return f"{name} plans in the environment itself" if config.plans else ""


EXTENSION = Extension(
    name="planning",
    options=PlanningOptions,
    wrap=wrap,
    excludes=("host",),
    needed=_needed,
)
