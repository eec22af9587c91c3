"""Settings of groups as policies."""

import jax

from purerl.algos.ppo import PPOConfig
from purerl.loop.train import make_trainer
from purerl.run.plan import algorithm_of
from purerl.settings.options import RunOptions
from purerl.settings.runs import Settings

SMALL = PPOConfig(num_envs=4, rollout_length=8, hidden_sizes=(8,), num_minibatches=2)


def run(factory, env, config, updates=3, jit=jax.jit):
    trainer = make_trainer(factory, env, config)
    state, step = jit(trainer.init)(jax.random.key(0)), jit(trainer.step)
    for _ in range(updates):
        state, metrics = step(state)
    return state, metrics


def assembled(env, name="CoinGame", **groups):
    run = Settings(algorithm="ppo", environment=name, options=RunOptions(), config=SMALL, parameters={}, groups=groups)
    return algorithm_of(run, env)
