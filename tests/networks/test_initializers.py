"""Initializers: orthogonal and normal weights, and that the setting reaches every kernel."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.ppo import PPOConfig, ppo
from purerl.algos.sac import SACConfig, sac
from purerl.networks.initializers import INITIALIZERS, normal, orthogonal
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec


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


@pytest.mark.long
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


@pytest.mark.long
def test_many_seeds_initialize_in_time():
    """A batched QR hangs jaxlib on two cores; what takes its place must not. In a process that can be ended."""
    code = """
import jax
from purerl.algos.ppo import PPOConfig, ppo
from purerl.networks.initializers import orthogonal
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
