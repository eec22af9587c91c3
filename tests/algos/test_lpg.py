"""LPG's agent, and PPO with other parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
import purerl.types
from purerl.algos.lpg import LPGConfig, lpg
from purerl.algos.ppo import PPOConfig, ppo
from purerl.evolution.inner_loop import Plug
from purerl.evolution.method import flatten
from purerl.functional.objectives import ActorCriticLoss, Clip
from purerl.functional.update_rules import LPG
from purerl.loop.train import make_train, make_trainer
from purerl.optim.learned_optimizer import OPEN

T, B, M = 6, 3, 5


KEY = jax.random.key(0)


ENV = purerl.make("Catch")


PPO_CONFIG = PPOConfig(num_envs=4, rollout_length=8, num_minibatches=2, num_epochs=2, hidden_sizes=(8,))


@pytest.mark.long
def test_a_rule_decides_what_an_agent_learns():
    """Two rules in one vmap, one of them without any weight: that agent's policy stays as its entropy bonus has it."""
    rule = LPG.create(KEY, M, units=8)
    vector, tree = flatten(rule)
    config = LPGConfig(num_envs=4, rollout_length=8, hidden_sizes=(8,), entropy_coefficient=0.0)

    def after(weights):
        state, metrics = make_train(Plug(lpg, "rule")(tree(weights)), ENV, config, 96)(KEY)
        return state.agent.params["policy"], metrics.algorithm["policy_loss"]

    params, losses = jax.jit(jax.vmap(after))(jnp.stack([vector, jnp.zeros_like(vector)]))
    assert np.isfinite(losses).all() and np.abs(losses[0]).max() > 0 and not losses[1].any()
    first = jax.jit(make_trainer(Plug(lpg, "rule")(rule), ENV, config).init)(KEY).agent.params["policy"]
    for now, then in zip(jax.tree.leaves(params), jax.tree.leaves(first), strict=True):
        assert np.abs(now[0] - then).max() > 1e-4
        np.testing.assert_array_equal(now[1], then)


@pytest.mark.long
@pytest.mark.parametrize("level", ["optimizer", "loss"])
def test_ppo_with_other_parts(level):
    """OPEN at its start makes no step; twice the default loss weights is another run; the default loss is the same."""
    run = lambda **parts: jax.jit(make_train(lambda s, c: ppo(s, c, **parts), ENV, PPO_CONFIG, 64))(KEY)
    if level == "optimizer":
        state, metrics = run(optimizer=OPEN.create(KEY))
        first = jax.jit(make_trainer(ppo, ENV, PPO_CONFIG).init)(KEY)
        jax.tree.map(np.testing.assert_array_equal, state.agent.params, first.agent.params)
        assert np.isfinite(metrics.algorithm["policy_loss"]).all()
        return
    default, same = run(), run(loss=ActorCriticLoss(objective=Clip(epsilon=0.2), value_clip=0.2))
    mine = run(loss=lambda samples, context: samples.log_ratio * -samples.advantage)
    np.testing.assert_allclose(default[1].algorithm["value_loss"], same[1].algorithm["value_loss"], rtol=1e-5)
    assert "value_loss" not in mine[1].algorithm and np.isfinite(mine[1].algorithm["loss"]).all()


def test_one_of_objective_and_loss():
    spec = purerl.types.EnvironmentSpec(ENV.observation_space, ENV.action_space)
    with pytest.raises(purerl.InputError, match="objective and loss are both given"):
        ppo(spec, PPO_CONFIG, objective=Clip(), loss=ActorCriticLoss())
