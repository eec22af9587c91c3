"""Q networks: shapes, duelling heads and noisy layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.dqn import DQNConfig, dqn
from purerl.networks.q_networks import NoisyDense, QHead, q_network, quantile_network
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec

OBSERVATION = Box(low=-1.0, high=1.0, shape=(2,))


def small(**changes):
    settings = {"num_envs": 4, "batch_size": 64, "replay_capacity": 64, "learning_starts": 64, "learning_rate": 0.05}
    return DQNConfig(
        **{**settings, "rollout_length": 4, "num_gradient_steps": 20, "target_update_interval": 5, **changes}
    )


@pytest.mark.parametrize("dueling", [False, True])
def test_networks_have_the_stated_shapes(key, dueling):
    network = q_network(OBSERVATION, 3, small(hidden_sizes=(8, 6)), dueling=dueling)
    params = jax.eval_shape(network.init, key)
    assert jax.eval_shape(network.apply, params, jnp.zeros((5, 2))).shape == (5, 3)
    atoms = q_network(OBSERVATION, 3, small(hidden_sizes=(8, 6)), num_atoms=7, dueling=dueling)
    assert jax.eval_shape(lambda key: atoms.apply(atoms.init(key), jnp.zeros((5, 2))), key).shape == (5, 3, 7)
    sizes = sum(leaf.size for leaf in jax.tree.leaves(params))
    plain = (2 * 8 + 8) + (8 * 6 + 6) + (6 * 3 + 3)
    assert sizes == (plain + (8 * 6 + 6) + (6 + 1) if dueling else plain)


@pytest.mark.long_for("False", "True")
@pytest.mark.parametrize("dueling", [False, True])
def test_quantiles_of_a_level_do_not_depend_on_the_others(key, dueling):
    network = quantile_network(OBSERVATION, 3, small(hidden_sizes=(8, 6)), embedding_size=4, dueling=dueling)
    params = network.init(key)
    seen, tau = jax.random.normal(key, (5, 2)), jax.random.uniform(key, (5, 7))
    together = network.at(params, seen, tau)
    assert together.shape == (5, 3, 7)
    np.testing.assert_allclose(network.at(params, seen, tau[:, 2:3])[..., 0], together[..., 2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(network.at(params, seen[0], tau[0]), together[0], rtol=1e-5, atol=1e-6)


def test_the_embedding_of_a_level_by_hand(key):
    network = quantile_network(OBSERVATION, 2, small(hidden_sizes=(3,), activation="relu"), embedding_size=4)
    params, seen, tau = jax.tree.map(jnp.abs, network.init(key)), np.array([0.5, 0.2]), 0.1  # no unit is dead
    waves = np.cos(np.pi * np.arange(4) * tau)
    dense = lambda name, x: x @ np.asarray(params[name]["kernel"]) + np.asarray(params[name]["bias"])
    hidden = seen * np.maximum(dense("Dense_0", waves), 0.0)  # without layers below, the observation is the features
    head = {name: np.asarray(leaf["kernel"]) for name, leaf in params["head"].items()}
    expected = np.maximum(hidden @ head["Dense_0"], 0.0) @ head["Dense_1"]  # biases are initially 0
    found = network.at(params, jnp.asarray(seen, jnp.float32), jnp.array([tau]))
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-4)
    assert np.all(expected > 0.01)


@pytest.mark.long
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


@pytest.mark.long
def test_environments_explore_by_their_own_noise():
    """512 environments in one state choose several actions, distributed as by as many draws for one."""
    spec = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(3,)), Discrete(n=4))
    algorithm = dqn(spec, DQNConfig(noisy=True, hidden_sizes=(8,), learning_starts=128))
    agent = algorithm.init(jax.random.key(0))
    seen = jnp.broadcast_to(jnp.array([0.3, -0.2, 0.9]), (512, 3))
    act = jax.jit(lambda key, seen: algorithm.act(agent, (), key, seen, True)[0])
    side_by_side = np.bincount(act(jax.random.key(1), seen), minlength=4) / 512
    one = jax.vmap(lambda key: act(key, seen[:1])[0])(jax.random.split(jax.random.key(2), 2048))
    assert (side_by_side > 0.01).sum() > 1
    np.testing.assert_allclose(side_by_side, np.bincount(one, minlength=4) / 2048, atol=0.08)


@pytest.mark.long
def test_a_dueling_heads_advantages_have_no_mean(key):
    """Q of the first stream's outputs a and the second's v is v + a - mean a, computed from the parameters by hand."""
    head, x = QHead(num_actions=3, hidden_size=4, dueling=True), jax.random.normal(key, (5, 6))
    params = head.init(key, x)["params"]
    assert sorted(params) == ["Dense_0", "Dense_1", "Dense_2", "Dense_3"]
    layer = lambda name, x: x @ np.asarray(params[name]["kernel"]) + np.asarray(params[name]["bias"])
    advantage = layer("Dense_1", np.maximum(layer("Dense_0", np.asarray(x)), 0.0))
    value = layer("Dense_3", np.maximum(layer("Dense_2", np.asarray(x)), 0.0))
    expected = value + advantage - advantage.mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(head.apply({"params": params}, x), expected, atol=1e-5)
