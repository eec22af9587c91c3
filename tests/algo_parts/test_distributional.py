"""Distributional targets and losses against independent NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import make, make_train
from purerl.algo_parts.distributional import atoms, expectation, project, quantile_huber
from purerl.algos.c51 import C51Config, c51
from purerl.algos.qrdqn import QRDQNConfig, qrdqn
from purerl.algos.rainbow import RainbowConfig, rainbow
from purerl.errors import InputError
from purerl.networks.q_networks import NoisyDense, QNetwork
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(2,)), Discrete(n=2))


def numpy_projection(z, p, support):
    """Bellemare et al.'s algorithm 1, by its loop over atoms and floor and ceiling."""
    v_min, v_max, step = support[0], support[-1], support[1] - support[0]
    m = np.zeros((z.shape[0], support.size))
    for n in range(z.shape[0]):
        for i in range(z.shape[1]):
            b = (min(max(z[n, i], v_min), v_max) - v_min) / step
            low, high = int(np.floor(b)), int(np.ceil(b))
            if low == high:
                m[n, low] += p[n, i]
            else:
                m[n, low] += p[n, i] * (high - b)
                m[n, high] += p[n, i] * (b - low)
    return m


def test_projection_equals_the_papers_loop():
    rng = np.random.default_rng(0)
    support = np.linspace(-3, 4, 15)
    z = rng.normal(scale=3, size=(6, 15))
    z[0] = support
    p = rng.dirichlet(np.ones(15), size=6)
    ours = project(*(jnp.asarray(x, jnp.float32) for x in (z, p, support)))
    assert np.allclose(ours, numpy_projection(z, p, support), atol=1e-5)
    assert np.allclose(ours[0], p[0], atol=1e-6)


def test_quantile_huber_equals_a_loop():
    rng = np.random.default_rng(1)
    quantiles, targets, kappa = rng.normal(size=(4, 5)), rng.normal(size=(4, 3)), 0.7
    expected = np.zeros(4)
    for n in range(4):
        for i in range(5):
            for j in range(3):
                u = targets[n, j] - quantiles[n, i]
                h = 0.5 * u * u if abs(u) <= kappa else kappa * (abs(u) - 0.5 * kappa)
                expected[n] += abs((2 * i + 1) / 10 - (u < 0)) * h / kappa / 3
    ours = quantile_huber(jnp.asarray(quantiles, jnp.float32), jnp.asarray(targets, jnp.float32), kappa)
    assert np.allclose(ours, expected, rtol=1e-5)


def test_quantile_regression_finds_the_quantiles():
    targets = jnp.broadcast_to(jnp.linspace(0.0, 10.0, 1001), (1, 1001))
    loss = lambda q: quantile_huber(q, targets, 0.01)[0]
    q = jax.lax.fori_loop(0, 3000, lambda i, q: q - 0.05 * jax.grad(loss)(q), jnp.zeros((1, 5)))
    assert np.allclose(q[0], [1.0, 3.0, 5.0, 7.0, 9.0], atol=0.1)


def test_noisy_layer_is_its_mean_without_noise_and_has_the_stated_spread(key):
    layer = NoisyDense(3)
    x = jnp.ones((2, 16))
    params = layer.init(key, x)
    inner = params["params"]
    assert np.allclose(layer.apply(params, x), x @ inner["kernel"] + inner["bias"], atol=1e-6)
    assert np.allclose(inner["kernel_spread"], 0.5 / 4) and np.allclose(inner["bias_spread"], 0.5 / 4)
    draws = jax.vmap(lambda k: layer.apply(params, x, rngs={"noise": k}))(jax.random.split(key, 20_000))
    assert np.allclose(draws[:, 0], draws[:, 1]), "one noise for the batch"
    assert np.allclose(draws.mean(0), layer.apply(params, x), atol=0.03)
    # f(e) has variance E|e| = sqrt(2 / pi): 16 products of two, and one for the bias.
    m = np.sqrt(2 / np.pi)
    mean_f_in = 16 * m  # variance of the sum over inputs of f(e_in)
    assert np.allclose(draws.std(0), 0.5 / 4 * np.sqrt(mean_f_in * m + m), rtol=0.03)


ATOMS = {"v_min": 0.0, "v_max": 10.0}
FAMILY = [
    (c51, C51Config, ATOMS),
    (qrdqn, QRDQNConfig, {"num_quantiles": 3, "kappa": 0.1}),
    (rainbow, RainbowConfig, ATOMS),
]


def small(config, **changes):
    settings = {"num_envs": 4, "rollout_length": 4, "batch_size": 64, "replay_capacity": 64, "learning_starts": 64}
    return config(**{**settings, "hidden_sizes": (16,), **changes})


@pytest.mark.parametrize(("factory", "config", "changes"), FAMILY, ids=["c51", "qrdqn", "rainbow"])
def test_a_time_limit_is_not_an_ending(factory, config, changes):
    """Reward 1 for ever is worth 1 / (1 - 0.8) = 5; were every second step an ending, 1.4 at the most for n = 3."""
    settings = small(
        config, discount=0.8, learning_rate=0.01, num_gradient_steps=10, target_update_interval=5, **changes
    )
    algorithm = factory(SPEC, settings)
    ends = jnp.broadcast_to((jnp.arange(4) % 2 == 1)[:, None], (4, 4))
    zeros = jnp.zeros((4, 4, 2))
    rollout = Rollout(zeros, jnp.zeros((4, 4), jnp.int32), jnp.ones((4, 4)), jnp.zeros_like(ends), ends, zeros, (), ())
    update = jax.jit(algorithm.update)
    agent = algorithm.init(jax.random.key(0))
    for i in range(60):
        agent, metrics = update(agent, jax.random.key(i), rollout)
    assert float(metrics["q_value"]) == pytest.approx(5.0, abs=0.35)


def test_categorical_loss_by_hand():
    """Two atoms, 0 and 1; the target moves all mass to reward + discount z."""
    logits = jnp.array([[[0.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 0.0]]])  # [state, action, atom]
    table = QNetwork(
        lambda key: logits, lambda params, observation, noise=None: params[observation[..., 0].astype(jnp.int32)]
    )
    batch = Transitions(
        jnp.array([[0.0, 0.0]]),
        jnp.array([1]),
        jnp.array([0.25]),
        jnp.array([0.5]),
        jnp.array([[1.0, 0.0]]),
        jnp.ones(1),
        jnp.zeros(1, jnp.int32),
    )
    memory = Replay(lambda: (), lambda s, _: s, lambda s, _: batch, lambda s, *_: s)
    config = small(C51Config, num_atoms=2, v_min=0.0, v_max=1.0)
    algorithm = c51(SPEC, config, network=table, replay=memory)
    agent = algorithm.init(jax.random.key(0))._replace(num_steps=jnp.int32(100))
    never = jnp.zeros((4, 4), bool)
    rollout = Rollout(jnp.zeros((4, 4, 2)), jnp.zeros((4, 4), jnp.int32), jnp.zeros((4, 4)), never, never, None, (), ())
    _, metrics = algorithm.update(agent, jax.random.key(0), rollout)
    # In state 1 action 1 is better (mean 0.5 against 0.12): mass 1/2 at 0.25 and 1/2 at 0.75, so m = (1/2, 1/2).
    log_p = -np.log1p(np.exp([1.0, -1.0]))
    assert float(metrics["loss"]) == pytest.approx(-0.5 * log_p.sum(), rel=1e-5)
    assert float(metrics["td_error"]) == pytest.approx(-0.5 * log_p.sum() - np.log(2), rel=1e-4)


def test_expectation_is_the_mean():
    support = atoms(C51Config(num_atoms=3, v_min=-1.0, v_max=3.0))
    assert np.allclose(support, [-1.0, 1.0, 3.0])
    assert float(expectation(jnp.log(jnp.array([0.2, 0.3, 0.5])), support)) == pytest.approx(1.6)


@pytest.mark.slow
def test_vmapped_rainbow_equals_solo_runs():
    config = small(RainbowConfig, rollout_length=2, num_atoms=5, v_min=0.0, v_max=50.0)
    train = make_train(rainbow, make("CartPole-v1"), config, total_timesteps=8 * 12)
    keys = jax.random.split(jax.random.key(3), 2)
    together, _ = jax.jit(jax.vmap(train))(keys)
    alone, _ = jax.jit(train)(keys[1])
    assert int(alone.agent.num_gradient_steps) == 5
    for one, many in zip(jax.tree.leaves(alone.agent), jax.tree.leaves(together.agent), strict=True):
        assert np.allclose(one, many[1], atol=1e-4)


def test_refuses_an_empty_support():
    with pytest.raises(InputError, match=r"v_min 1\.0 must be below v_max 1\.0"):
        c51(SPEC, small(C51Config, v_min=1.0, v_max=1.0))
