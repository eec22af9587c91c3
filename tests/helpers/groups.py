"""Settings of groups as policies."""

import jax

from purerl.algos.ppo import PPOConfig
from purerl.run.plan import made
from purerl.settings.runs import settings
from purerl.training import make_trainer

SIZES = {"num_envs": 4, "rollout_length": 8, "hidden_sizes": (8,), "num_minibatches": 2}
SMALL = PPOConfig(**SIZES)


def run(factory, env, config, updates=3, jit=jax.jit):
    return run_trainer(make_trainer(factory, env, config), updates, jit)


def run_trainer(trainer, updates=3, jit=jax.jit):
    state, step = jit(trainer.init)(jax.random.key(0)), jit(trainer.step)
    for _ in range(updates):
        state, metrics = step(state)
    return state, metrics


def assembled(env, **groups):
    """Return the trainer of a run in an environment, with settings of its groups."""
    return made(settings("ppo", env, {"groups": groups} if groups else {}, config=SMALL)).trainer()
