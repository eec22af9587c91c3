"""Initialization: orthonormal, and it never hangs under a vmap over seeds."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.ppo import PPOConfig, ppo
from purerl.algos.sac import SACConfig, sac
from purerl.networks.torsos import CNNS, INITIALIZERS, ResidualMLP, Torso, apply, init, normal, orthogonal
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec
from purerl.xla import switches


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


@pytest.mark.parametrize("shape", [(40, 300), (300, 40), (3, 3, 8, 200)])
def test_normal_weights_have_the_variance_of_their_inputs(key, shape):
    weights = np.asarray(normal(3.0)(key, shape)).reshape(-1, shape[-1])
    assert weights.mean() == pytest.approx(0.0, abs=0.05)
    assert weights.var() == pytest.approx(9.0 / len(weights), rel=0.05)
    assert (np.abs(weights) > 2.5 * weights.std()).any()  # not truncated


@pytest.mark.parametrize("initializer", INITIALIZERS)
@pytest.mark.parametrize(("algorithm", "config"), [(dqn, DQNConfig), (ppo, PPOConfig), (sac, SACConfig)])
def test_the_setting_reaches_every_kernel(key, algorithm, config, initializer):
    action = Box(low=-1.0, high=1.0, shape=(3,)) if algorithm is sac else Discrete(n=3)
    spec = EnvironmentSpec(Box(low=0.0, high=1.0, shape=(10, 10, 4)), action)
    params = algorithm(spec, config(initializer=initializer, hidden_sizes=(32, 16))).init(key).params
    kernels = [np.asarray(x).reshape(-1, x.shape[-1]) for x in jax.tree.leaves(params) if x.ndim > 1]
    assert len(kernels) >= 4
    for kernel in kernels:
        gram = kernel @ kernel.T if kernel.shape[0] < kernel.shape[1] else kernel.T @ kernel
        scale = np.trace(gram) / len(gram)
        orthonormal = np.allclose(gram, scale * np.eye(len(gram)), atol=1e-3 * scale)
        assert orthonormal == (initializer == "orthogonal" or len(gram) == 1)


def test_many_seeds_initialize_in_time():
    """A batched QR hangs jaxlib on two cores; what takes its place must not. In a process that can be ended."""
    code = """
import jax
from purerl.algos.ppo import PPOConfig, ppo
from purerl.networks.torsos import orthogonal
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec
from purerl.xla import switches
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
    net, image = (
        CNNS[name](layer_norm=False, dtype=jnp.float32, initializer="orthogonal"),
        jax.random.uniform(key, (size, size, 2)),
    )
    params = init(net, key, image)
    slope = jax.jit(jax.grad(lambda x: jnp.sum(apply(net, params, x))))(image)
    assert np.all(np.abs(slope[-1]).sum(-1) > 0) and np.all(np.abs(slope[:, -1]).sum(-1) > 0)


@pytest.mark.parametrize("name", CNNS)
def test_images_in_parts_as_at_once(key, name, monkeypatch):
    """70 images: three parts of 24, the last of which lacks two; for two seeds side by side."""
    net = CNNS[name](layer_norm=name != "impala", dtype=jnp.float32, initializer="orthogonal")
    images = jax.random.uniform(key, (7, 10, 38, 38, 2))
    params = jax.vmap(lambda seed: init(net, seed, images[0, :1]))(jax.random.split(key))
    loss = lambda params, images: jnp.sum(jnp.sin(apply(net, params, images)))
    found = []
    for on in (True, False):
        monkeypatch.setattr(switches, "is_on", lambda _, on=on: on)
        shapes = jax.eval_shape(lambda p: apply(net, p, images), jax.tree.map(lambda x: x[0], params))
        found.append(jax.jit(jax.vmap(jax.value_and_grad(loss), (0, None)))(params, images))
        assert shapes.shape[:2] == (7, 10)
    close = lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-3, atol=5e-3 * float(np.abs(y).max()))
    jax.tree.map(close, *found)


def test_atari_networks_are_as_published(key):
    """Of 84 pixels nothing is padded: 9 x 9 x 32 features in 2013, 7 x 7 x 64 in 2015."""
    image = jnp.zeros((84, 84, 4))
    for name, features in (("mnih2013", 2592), ("nature", 3136)):
        net = CNNS[name](layer_norm=False, dtype=jnp.float32, initializer="orthogonal")
        made = lambda x, net=net: apply(net, init(net, key, x), x)
        assert jax.eval_shape(made, image).shape == (features,)


def test_residual_blocks_by_hand(key):
    """Two blocks of one width, then one of another, in NumPy."""
    module = ResidualMLP(hidden_sizes=(4, 4, 6), activation="relu")
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    params = init(module, key, jnp.zeros((1, 3)))
    given = jax.tree.map(lambda x: np.asarray(x, np.float64), params)

    def dense(index, x):
        layer = given[f"Dense_{index}"]
        return x @ layer["kernel"] + layer["bias"]

    def norm(index, x):
        layer = given[f"LayerNorm_{index}"]
        standard = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-6)
        return standard * layer["scale"] + layer["bias"]

    y = dense(0, x.astype(np.float64))
    y = y + dense(2, np.maximum(dense(1, norm(0, y)), 0.0))
    y = y + dense(4, np.maximum(dense(3, norm(1, y)), 0.0))
    y = dense(5, y)
    y = y + dense(7, np.maximum(dense(6, norm(2, y)), 0.0))
    np.testing.assert_allclose(apply(module, params, jnp.asarray(x)), norm(3, y), rtol=1e-4, atol=1e-5)


def test_a_count_goes_in_by_its_logarithm(key):
    """What a network makes of one number that counts is what it makes of the logarithm; arrays stay as they are."""
    count, number = (Torso(space=Box(low=-9999, high=9999, dtype=dtype)) for dtype in (jnp.int32, jnp.float32))
    steps = jnp.array([0, 1, -1, 4000])
    params = init(count, key, steps)
    told = jnp.array([0.0, np.log(2.0), -np.log(2.0), np.log(4001.0)])
    np.testing.assert_allclose(apply(count, params, steps), apply(number, params, told), atol=1e-5)
    several = Torso(space=Box(low=0, high=9999, shape=(2,), dtype=jnp.int32))
    both = jnp.array([[3, 4000]])
    params = init(several, key, both)
    as_floats = Torso(space=Box(low=0.0, high=9999.0, shape=(2,)))
    np.testing.assert_array_equal(apply(several, params, both), apply(as_floats, params, both.astype(jnp.float32)))
