"""Rollouts of one kernel against the usual ones, in Pallas' interpreter; and that the kernel compiles for an H200."""

import jax
import numpy as np
import pytest

import purerl
from benchmarks import kernels
from benchmarks.fused_rollout import TINY, FusedTrainer
from purerl.algos.ppo import PPOConfig, ppo
from purerl.errors import InputError
from purerl.prng import convert, is_key
from purerl.training import make_trainer
from purerl.xla import backend

pytestmark = pytest.mark.publish


def trainers(env, **settings):
    """Return (the usual trainer, the fused one)."""
    trainer = make_trainer(ppo, env, PPOConfig(**TINY | settings))
    return trainer, FusedTrainer.of(trainer, interpret=True)


@pytest.mark.parametrize(
    "env",
    [purerl.make("CartPole-v1", time_limit=5), purerl.make("Acrobot-v1"), purerl.make("Catch", rows=4, columns=3)],
    ids=["CartPole", "Acrobot", "Catch"],
)
def test_states_actions_and_rewards_are_those_of_the_usual_rollout(env):
    usual, fused = trainers(env)
    state, key = jax.jit(usual.init)(jax.random.key(0)), convert(jax.random.key(1), "fast")
    expected, found = (jax.jit(trainer.collect)(state, key) for trainer in (usual, fused))
    assert jax.tree.structure(expected) == jax.tree.structure(found)
    for wanted, given in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        assert wanted.dtype == given.dtype
        wanted, given = (jax.random.key_data(x) if is_key(x) else x for x in (wanted, given))
        np.testing.assert_allclose(given, wanted, rtol=2e-6, atol=2e-6)
    ended = np.asarray(expected[1].terminated | expected[1].truncated)
    assert ended.any() or "Acrobot" in str(env), "resets are compared, too"


def test_what_the_kernel_does_not_have_is_refused():
    with pytest.raises(InputError, match="reset_policy is prefetch"):
        trainers(purerl.make("CartPole-v1"), reset_policy="prefetch")
    with pytest.raises(InputError, match="num_envs is 40"):
        trainers(purerl.make("CartPole-v1"), num_envs=40)
    usual, fused = trainers(purerl.make("FrozenLake-v1"))
    state, key = jax.eval_shape(usual.init, jax.random.key(0)), convert(jax.random.key(1), "fast")
    with pytest.raises(InputError, match="a step of FrozenLake draws random numbers"):
        jax.eval_shape(fused.collect, state, key)


@pytest.mark.gpu_compile
@pytest.mark.skipif(kernels.unavailable() is not None, reason=str(kernels.unavailable()))
def test_a_rollout_is_one_kernel():
    with backend.traced_for("gpu"):
        config = PPOConfig(num_envs=2048, rollout_length=128, reset_policy="always")
        fused = FusedTrainer.of(make_trainer(ppo, purerl.make("CartPole-v1"), config))
        found = kernels.compile_for_gpu(fused.step, jax.eval_shape(fused.init, jax.random.key(0)))
    assert [loop.trips for loop in found.loops] == [8, 16], "advantages and gradient steps"
    assert found.outside <= 74 and found.launches == 1, found
