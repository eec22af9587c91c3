"""The gradient of a whole rollout in parts is the gradient of the whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.ppo import PPOConfig, ppo
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout
from purerl.xla import accumulation, switches

T, B = 4, 12
SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(3,)), Discrete(n=2))


def rollout(algo, agent, key, mask):
    keys = jax.random.split(key, 4)
    seen = jax.random.normal(keys[0], (T + 1, B, 3))
    action, _, extras = jax.vmap(lambda x: algo.act(agent, algo.initial_carry(B), keys[1], x, True))(seen[:-1])
    done = jax.random.bernoulli(keys[2], 0.3, (T, B))
    reward, nothing = jax.random.normal(keys[3], (T, B)), jnp.zeros((T, B), jnp.bool_)
    return Rollout(seen[:-1], action, reward, done, nothing, seen[1:], extras, algo.initial_carry(B), mask)


@pytest.mark.long
@pytest.mark.parametrize("core", ["none", "gru"])
def test_in_parts_as_in_one(key, monkeypatch, core):
    """Parts with unlike numbers of samples that count, one of them with none."""
    algo = a2c(SPEC, A2CConfig(num_envs=B, rollout_length=T, hidden_sizes=(4,), rnn=core, learning_rate=0.1))
    agent = algo.init(key)
    mask = np.array(jax.random.bernoulli(key, 0.6, (T, B)))
    mask[:, 1::3] = False
    found = []
    for size, parts in ((T * B, 1), (T * B // 3, 3)):
        monkeypatch.setattr(accumulation, "PART", size)
        assert accumulation._num_parts(B, T * B, size) == parts
        after, metrics = jax.jit(lambda *args: algo.update(*args))(
            agent, key, rollout(algo, agent, key, jnp.asarray(mask))
        )
        found.append((after.params, metrics))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), *found)
    moved = jax.tree.map(lambda x, y: np.any(np.abs(x - y) > 1e-3), found[0][0], agent.params)
    assert any(jax.tree.leaves(moved))


def test_parts_are_alike_and_not_tiny():
    count = lambda size: accumulation._num_parts(size, 10 * size, 100)
    assert count(7) == 1  # fits
    assert count(60) == 6
    assert count(25) == 5  # 3 would do, but does not divide
    assert count(997) == 1  # a prime number of sequences stays whole
    with switches.off("accumulation"):
        assert count(60) == 1


@pytest.mark.long
@pytest.mark.parametrize("masked", [False, True])
def test_minibatches_in_parts_as_in_one(key, monkeypatch, masked):
    """PPO on a rollout in one minibatch of 48 samples, whole and in parts of 16."""
    config = PPOConfig(num_envs=B, rollout_length=T, num_minibatches=1, hidden_sizes=(4,), learning_rate=0.1)
    algo = ppo(SPEC, config)
    agent = algo.init(key)
    mask = jnp.asarray(jax.random.bernoulli(key, 0.6, (T, B))) if masked else None
    found, parts = [], []
    over_parts = accumulation._over_parts
    monkeypatch.setattr(accumulation, "_over_parts", lambda *args: (parts.append(len(args[3])), over_parts(*args))[1])
    for size in (T * B, T * B // 3):
        monkeypatch.setattr(accumulation, "SAMPLES", size)
        after, metrics = jax.jit(lambda *args: algo.update(*args))(agent, key, rollout(algo, agent, key, mask))
        found.append((after.params, metrics))
    assert set(parts) == {3}
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), *found)
    moved = jax.tree.map(lambda x, y: np.any(np.abs(x - y) > 1e-3), found[0][0], agent.params)
    assert any(jax.tree.leaves(moved))


@pytest.mark.long_for("shape3-1")
@pytest.mark.parametrize(("shape", "parts"), [((84, 84, 4), 8), ((10, 10, 4), 1), ((8192,), 1), ((4, 5, 416), 1)])
def test_parts_of_large_images_are_small(monkeypatch, shape, parts):
    """256 stacks of frames are cut into 32 each; vectors and small maps of as many numbers stay whole."""
    found = []
    monkeypatch.setattr(accumulation, "_over_parts", lambda *args: (found.append(len(args[3])), args)[1])
    loss = lambda w, x: (w * jnp.mean(x.astype(jnp.float32)), {})
    accumulation.minibatch_gradient(loss, jnp.float32(1.0), jnp.zeros((256, *shape), jnp.uint8), None)
    assert found == [parts] * (parts > 1)


@pytest.mark.long
def test_weights_of_a_minibatchs_parts_by_hand(monkeypatch):
    """d/dw of mean (w x) is the mean of the x that count, however they fall into parts."""
    monkeypatch.setattr(accumulation, "SAMPLES", 2)
    x, mask = jnp.arange(6.0), jnp.array([True, True, False, True, False, False])

    def loss(w, samples):
        x, mask = samples
        mean = w * jnp.sum(jnp.where(mask, x, 0.0)) / jnp.maximum(jnp.sum(mask, dtype=jnp.float32), 1.0)
        return mean, {"mean": mean}

    gradient, means = accumulation.minibatch_gradient(loss, jnp.float32(2.0), (x, mask), mask)
    np.testing.assert_allclose([gradient, means["mean"]], [4 / 3, 8 / 3], rtol=1e-6)
