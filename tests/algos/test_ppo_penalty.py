"""PPO with a KL penalty: how its weight adapts, and that the penalty is a part of the loss."""

import jax
import jax.numpy as jnp
import pytest

from purerl.algos.ppo import PPOConfig, ppo
from purerl.algos.ppo_penalty import BOUNDS, PPOPenaltyConfig, adapt, ppo_penalty
from purerl.functional.drifts import KLPenalty
from purerl.functional.objectives import Drifting
from purerl.training import make_trainer

SIZES = {"num_envs": 4, "rollout_length": 16, "total_timesteps": 4 * 16 * 3, "hidden_sizes": (8,)}


@pytest.mark.parametrize(
    ("kl", "factor"), [(0.016, 2.0), (0.0149, 1.0), (0.01, 1.0), (0.0067, 1.0), (0.0066, 0.5), (0.0, 0.5)]
)
def test_the_weight_by_hand(kl, factor):
    assert float(adapt(jnp.float32(3.0), jnp.float32(kl), 0.01)) == 3.0 * factor


def test_the_weight_stays_inside_its_bounds():
    assert float(adapt(jnp.float32(BOUNDS[1]), jnp.float32(9.0), 0.01)) == BOUNDS[1]
    assert float(adapt(jnp.float32(BOUNDS[0]), jnp.float32(0.0), 0.01)) == BOUNDS[0]


@pytest.mark.long
def test_updates_are_ppos_with_the_penalty_as_its_objective(key):
    """The first update of the run is bit-identical to PPO with that objective, given by hand."""
    config = PPOPenaltyConfig(**SIZES, initial_kl_weight=2.0, kl_target=1e-9)
    plain = lambda spec, config: ppo(spec, config, objective=Drifting(drift=KLPenalty(coefficient=2.0)))
    ours = make_trainer(ppo_penalty, "CartPole-v1", config)
    theirs = make_trainer(plain, "CartPole-v1", PPOConfig(**SIZES))
    state, metrics = jax.jit(ours.step)(jax.jit(ours.init)(key))
    other, _ = jax.jit(theirs.step)(jax.jit(theirs.init)(key))
    equal = jax.tree.map(lambda x, y: bool(jnp.all(x == y)), state.agent.params["network"], other.agent.params)
    assert all(jax.tree.leaves(equal))
    assert float(metrics.algorithm["kl_weight"]) == 2.0
    assert float(state.agent.params["kl_weight"]) == 4.0  # the divergence was above 1e-9
    _, metrics = jax.jit(ours.step)(state)
    assert float(metrics.algorithm["kl_weight"]) == 4.0
