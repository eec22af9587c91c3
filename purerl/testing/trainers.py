"""The trainer of an algorithm on a probe, with the extensions that they need."""

from purerl.loop import train
from purerl.loop.trainer import Trainer
from purerl.settings.extensions import wraps
from purerl.types import AlgorithmFactory, Config, Environment


def make_trainer(algorithm: AlgorithmFactory, env: Environment, config: Config) -> Trainer:
    """Return the trainer; arguments as for `purerl.make_trainer`."""
    return train.make_trainer(algorithm, env, config, wraps(env, config))
