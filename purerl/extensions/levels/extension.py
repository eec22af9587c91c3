"""Training on levels, as an extension."""

from purerl.extensions.levels.options import LevelOptions
from purerl.loop.extension import Extension
from purerl.loop.trainer import MakeTrainer, Trainer
from purerl.types import AlgorithmFactory, Config, Environment


def wrap(make: MakeTrainer, options: LevelOptions) -> MakeTrainer:
    """Wrap a maker of trainers: train on sampled levels, and replay those with a high score."""

    def make_on_levels(algorithm: AlgorithmFactory, env: Environment, config: Config) -> Trainer:
        if options.levels == "none":
            return make(algorithm, env, config)
        from purerl.extensions.levels.trainer import level_trainer

        return level_trainer(make, options, algorithm, env, config)

    return make_on_levels


EXTENSION = Extension(
    name="levels",
    options=LevelOptions,
    wrap=wrap,
    excludes=("self_play", "groups", "planning", "host"),
)
