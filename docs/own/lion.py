"""An optimizer and schedules of your own. `purerl train lion:lion_ppo CartPole-v1 --learning-rate 3e-4`."""

from functools import partial

import optax

from purerl import Algorithm, EnvironmentSpec, number, pytree
from purerl.algos.ppo import PPOConfig, ppo
from purerl.optim.schedules import Schedule, schedule


@pytree
class LionConfig(PPOConfig):
    """PPO's settings, some of them with other defaults, and the optimizer's own."""

    learning_rate: float = number(default=3e-4, doc="learning rate of Lion", above=0)
    learning_rate_schedule: Schedule = schedule("warmup-cosine")
    entropy_coefficient_schedule: Schedule = schedule("linear")
    weight_decay: float = number(default=1e-4, doc="Lion's weight decay", at_least=0)


def lion_ppo(spec: EnvironmentSpec, config: LionConfig) -> Algorithm:
    """Return PPO with Lion behind the clip of the gradient's norm; the config's learning rate and schedule drive it."""
    return ppo(spec, config, optimizer=partial(optax.lion, weight_decay=config.weight_decay))
