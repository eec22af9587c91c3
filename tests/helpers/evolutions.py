"""A small task to evolve on."""

import jax

import purerl
from purerl.algos.ppo import PPOConfig, ppo
from purerl.evolution.inner_loop import Plug, Task
from purerl.evolution.method import flatten
from purerl.functional.drifts import LPO
from purerl.functional.objectives import Drifting

CONFIG = PPOConfig(
    num_envs=4, rollout_length=16, num_minibatches=2, num_epochs=2, hidden_sizes=(8,), learning_rate=0.01
)


ENV = purerl.make("CartPole-v1")


TASK = Task(name="CartPole-v1", env=ENV, config=CONFIG, total_timesteps=256)


START = Drifting(drift=LPO.from_nothing(jax.random.key(0), 4))


LEARNER = Plug(ppo, "objective")


VECTOR, TREE = flatten(START)


FLAGS = [
    "--tasks", "CartPole-v1", "--population", "4", "--num-envs", "4", "--rollout-length", "16",
    "--num-minibatches", "2", "--num-epochs", "2", "--hidden-sizes", "8,", "--total-timesteps", "256",
    "--checkpoint-generations", "2",
    "--learning-rate", "0.05", "--sigma", "1.0", "--devices", "1", "--plain",
]  # fmt: skip

SMALL = {
    "num_envs": 4,
    "rollout_length": 16,
    "num_minibatches": 2,
    "num_epochs": 2,
    "hidden_sizes": (8,),
    "total_timesteps": 256,
}
