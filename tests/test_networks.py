"""Initialisation: orthonormal, and it never hangs under a vmap over seeds."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.networks import CNNS, apply, init, mask_illegal, orthogonal, split_mask


@pytest.mark.parametrize("shape", [(64, 64), (4, 64), (64, 2), (3, 3, 4, 16), (1, 5)])
def test_orthogonal_is_orthonormal_times_its_scale(key, shape):
    matrix = np.asarray(orthogonal(2.0)(key, shape)).reshape(-1, shape[-1])
    gram = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(gram, 4.0 * np.eye(len(gram)), atol=1e-4)


def test_orthogonal_is_uniform_over_directions(key):
    """The first column of a square matrix is uniform on the sphere: each entry has mean 0 and mean square 1/n."""
    many = jax.jit(jax.vmap(lambda k: orthogonal()(k, (8, 8))))(jax.random.split(key, 2000))
    np.testing.assert_allclose(many.mean(0), np.zeros((8, 8)), atol=0.05)
    np.testing.assert_allclose((many**2).mean(0), np.full((8, 8), 1 / 8), atol=0.02)


def test_many_seeds_initialise_in_time():
    """A batched QR hangs jaxlib on two cores; what takes its place must not. In a process that can be ended."""
    code = """
import jax
from purerl.algos.ppo import PPOConfig, ppo
from purerl.networks import orthogonal
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec
spec = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(4,)), Discrete(n=2))
for count in (2, 4, 16, 64, 256):
    keys = jax.random.split(jax.random.key(0), count)
    jax.block_until_ready(jax.jit(jax.vmap(lambda key: orthogonal()(key, (64, 64))))(keys))
    print(count, flush=True)
jax.block_until_ready(jax.jit(jax.vmap(ppo(spec, PPOConfig()).init))(keys))
print("agents", flush=True)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280)
    assert result.stdout.split() == ["2", "4", "16", "64", "256", "agents"], result.stderr


@pytest.mark.parametrize(("name", "size"), [("mnih2013", 42), ("nature", 45), ("minatar", 10)])
def test_convolutions_see_the_whole_image(key, name, size):
    """Also where a stride does not divide what is left: the score of the last row and column is not zero."""
    net, image = CNNS[name](False, jnp.float32), jax.random.uniform(key, (size, size, 2))
    params = init(net, key, image)
    slope = jax.jit(jax.grad(lambda x: jnp.sum(apply(net, params, x))))(image)
    assert np.all(np.abs(slope[-1]).sum(-1) > 0) and np.all(np.abs(slope[:, -1]).sum(-1) > 0)


def test_atari_networks_are_as_published(key):
    """Of 84 pixels nothing is padded: 9 x 9 x 32 features in 2013, 7 x 7 x 64 in 2015."""
    image = jnp.zeros((84, 84, 4))
    for name, features in (("mnih2013", 2592), ("nature", 3136)):
        net = CNNS[name](False, jnp.float32)
        made = lambda x, net=net: apply(net, init(net, key, x), x)
        assert jax.eval_shape(made, image).shape == (features,)


def test_masks():
    observation = {"observation": jnp.ones(2), "action_mask": jnp.array([True, False])}
    seen, mask = split_mask(observation)
    assert set(seen) == {"observation"}
    scores, slope = jax.value_and_grad(lambda x: jax.nn.softmax(mask_illegal(x, mask))[0])(jnp.array([0.0, 50.0]))
    assert scores == 1.0 and np.isfinite(slope).all()
    plain = jnp.ones(3)
    assert split_mask(plain)[0] is plain and split_mask(plain)[1] is None and mask_illegal(plain, None) is plain
