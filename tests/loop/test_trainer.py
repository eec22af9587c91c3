"""The contract of trainers: a state keeps its structure, and each part of it has the axes that the contract names."""

import jax
import pytest

from purerl import make_trainer
from purerl.algos.ppo import PPOConfig, ppo
from purerl.envs.classic.cartpole import CartPole
from purerl.loop.trainer import PER_ENVIRONMENT

CONFIG = PPOConfig(num_envs=3, rollout_length=16, num_minibatches=1, hidden_sizes=(8,), total_timesteps=96)


@pytest.mark.long
def test_a_step_gives_what_it_takes():
    """Weak types included: else a jitted step would be traced and compiled a second time for its own result."""
    trainer = make_trainer(ppo, CartPole(), CONFIG)
    state = jax.eval_shape(trainer.init, jax.random.key(0))
    after, _ = jax.eval_shape(trainer.step, state)
    kind = lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type)
    assert jax.tree.map(kind, after) == jax.tree.map(kind, state)


def test_the_parts_of_a_state_with_an_axis_of_environments():
    state = jax.eval_shape(make_trainer(ppo, CartPole(), CONFIG).init, jax.random.key(0))
    for path, split in jax.tree.leaves_with_path(PER_ENVIRONMENT):
        part = state
        for name in path:
            part = getattr(part, name.name)
        for leaf in jax.tree.leaves(part):
            assert (leaf.shape[:1] == (CONFIG.num_envs,)) == split, jax.tree_util.keystr(path)
