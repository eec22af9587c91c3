"""Each compiler workaround can be turned off, and the results stay the same to rounding."""

import jax
import numpy as np
import pytest

import purerl
from purerl.algos.ppo import PPOConfig, ppo
from purerl.errors import InputError
from purerl.xla import switches

CONFIG = PPOConfig(num_envs=4, rollout_length=8, hidden_sizes=(8,), num_minibatches=2, num_epochs=1)


def trained():
    trainer = purerl.make_trainer(ppo, purerl.make("Catch"), CONFIG)
    return jax.jit(lambda key: trainer.step(trainer.init(key)))(jax.random.key(0))[0].agent.params


@pytest.mark.long
def test_training_without_them_is_the_same_to_rounding():
    params, plain = trained(), [name for name in switches.WORKAROUNDS if name != "permutation"]  # other orders
    with switches.off(*plain):
        assert not switches.is_on("product") and switches.is_on("permutation")
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6), trained(), params)
        with switches.off("permutation"):
            assert not any(map(switches.is_on, switches.WORKAROUNDS))
    assert all(map(switches.is_on, switches.WORKAROUNDS))


@pytest.mark.long
def test_an_unknown_one_is_refused():
    with pytest.raises(InputError, match="compiler workaround"), switches.off("prodct"):
        pass
