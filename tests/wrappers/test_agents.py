"""Wrappers of environments of several agents."""

import jax
import numpy as np
import pytest

from purerl.algos.ppo import MAPPOConfig, ppo
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.particle.spread import Spread
from purerl.envs.tag.continuous import TagContinuous
from purerl.errors import InputError
from purerl.loop.train import make_trainer
from purerl.multi_agent.joint import multi_agent, policies_for
from purerl.testing import check_environment
from purerl.wrappers import AgentIds

TAG = TagContinuous(num_taggers=2, num_runners=3)


def test_every_agent_is_shown_its_number():
    env = AgentIds(TAG)
    state, first = env.reset(jax.random.key(0))
    action = env.action_space.sample(jax.random.key(1))
    _, step = env.step(jax.random.key(2), state, action)
    _, plain = TAG.step(jax.random.key(2), state, action)
    numbers = {"runners": [0, 1, 2], "taggers": [3, 4]}
    for observation in (first, step.observation):
        assert set(observation) == set(first) >= {"runners", "taggers"}
        for group, rows in numbers.items():
            np.testing.assert_array_equal(observation[group]["agent_id"], np.eye(5, dtype=np.float32)[rows])
    rest = {**step.observation, **{group: step.observation[group]["observation"] for group in numbers}}
    jax.tree.map(np.testing.assert_array_equal, rest, plain.observation)


def test_the_contract_holds():
    check_environment(AgentIds(TAG))


def test_the_policy_sees_the_number_and_so_does_a_centralized_critic():
    env = AgentIds(Spread())
    config = MAPPOConfig(num_envs=2, rollout_length=4, num_minibatches=1, num_epochs=1, hidden_sizes=(4,))
    trainer = make_trainer(multi_agent, env, policies_for(env, ppo, config))
    state = jax.jit(trainer.init)(jax.random.key(0))
    inputs = {name: state.agent["agents"].params[name] for name in ("body", "critic_body")}
    sizes = {name: max(leaf.shape[0] for leaf in jax.tree.leaves(part)) for name, part in inputs.items()}
    assert sizes == {"body": 14 + 3, "critic_body": 14 + 3 + 42}


def test_a_single_agent_has_no_number():
    with pytest.raises(InputError, match="AgentIds takes groups of agents; CartPole is of a single agent"):
        AgentIds(CartPole()).reset(jax.random.key(0))
