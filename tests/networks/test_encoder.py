"""Torsos for every kind of observation, and recurrence that never leaks across an episode's end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import registry
from purerl.catalog.algorithms import ALGORITHMS
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import InputError
from purerl.networks.encoder import NetworkConfig, encoder, recurrent_encoder
from purerl.networks.torsos import RNNS
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete
from purerl.types import EnvironmentSpec
from purerl.wrappers import Situations

IMAGE = Box(low=0, high=255, shape=(84, 84, 4), dtype=jnp.uint8)
GRID = Box(low=0, high=1, shape=(10, 10, 4), dtype=jnp.bool_)
SPACES = {
    "vector": Box(low=-1.0, high=1.0, shape=(3,)),
    "discrete": Discrete(n=5),
    "multi-discrete": MultiDiscrete(nvec=(3, 2)),
    "grid": GRID,
    "dict": Dict(spaces={"grid": GRID, "speed": Box(low=0.0, high=1.0), "level": Discrete(n=3)}),
    "masked": Dict(
        spaces={
            "observation": Box(low=-1.0, high=1.0, shape=(3,)),
            "action_mask": Box(low=0, high=1, shape=(2,), dtype=jnp.bool_),
        }
    ),
}
SMALL = NetworkConfig(hidden_sizes=(8,))


def batch(space, key, shape):
    keys = jax.random.split(key, shape)
    return jax.vmap(jax.vmap(space.sample))(keys)


@pytest.mark.long
@pytest.mark.parametrize(("name", "core"), [*((name, "none") for name in SPACES), ("dict", "gru"), ("vector", "lstm")])
def test_every_observation_and_core(name, core, key):
    space = SPACES[name]
    base = recurrent_encoder(space, SMALL, core, 6)
    params = base.init(key)
    observation = batch(space, key, (4, 2))
    done = jnp.array([[False, False], [True, False], [False, False], [False, False]])
    features, after = base.unroll(params, base.initial_carry(2), observation, done)
    assert features.shape == (4, 2, base.size) and features.dtype == jnp.float32
    carry, initial_carry = base.initial_carry(2), base.initial_carry(2)
    for t in range(4):
        one, carry = base.step(params, carry, jax.tree.map(lambda x, t=t: x[t], observation))
        np.testing.assert_allclose(one, features[t], atol=1e-5)
        clear = lambda new, old, t=t: jnp.where(done[t][:, None], new, old)
        assert jax.tree.all(jax.tree.map(lambda x, y, t=t: jnp.allclose(x, y[t], atol=1e-5), carry, after))
        carry = jax.tree.map(clear, initial_carry, carry)


@pytest.mark.long
@pytest.mark.parametrize("core", RNNS)
def test_memory_does_not_leak_over_an_ending(core, key):
    space = SPACES["vector"]
    base = recurrent_encoder(space, SMALL, core, 64)
    params = base.init(key)
    observation = batch(space, key, (6, 1))

    def later(observation, done):
        return jnp.sum(base.unroll(params, base.initial_carry(1), observation, done)[0][3:])

    done = jnp.zeros((6, 1), bool)
    leak = jax.grad(later)(observation, done.at[2].set(True))
    np.testing.assert_array_equal(leak[:3], 0.0)
    assert jnp.any(jax.grad(later)(observation, done)[:3] != 0.0)


@pytest.mark.long_for("auto-space3", "impala-space1", "mlp-space2", "nature-space0")
@pytest.mark.parametrize(("kind", "space"), [("nature", IMAGE), ("impala", IMAGE), ("mlp", GRID), ("auto", IMAGE)])
def test_image_torsos(kind, space, key):
    base = encoder(space, NetworkConfig(network=kind, hidden_sizes=(16,)))
    features, _ = base.step(base.init(key), (), batch(space, key, (1, 2)))
    assert features.shape == (1, 2, 16) and bool(jnp.all(jnp.isfinite(features)))


def test_bytes_are_scaled_and_integers_are_one_hot(key):
    base = encoder(Discrete(n=5), SMALL)
    params = base.init(key)
    assert jax.tree.leaves(params)[1].shape[0] == 5
    scaled = encoder(Box(low=0, high=255, shape=(3,), dtype=jnp.uint8), SMALL)
    plain = encoder(Box(low=0.0, high=1.0, shape=(3,)), SMALL)
    params = plain.init(key)
    bright = scaled.step(params, (), jnp.array([255, 0, 51], jnp.uint8))[0]
    np.testing.assert_allclose(bright, plain.step(params, (), jnp.array([1.0, 0.0, 0.2]))[0], rtol=1e-6)


@pytest.mark.long
def test_bfloat16_computes_near_float32_and_returns_float32(key):
    space = SPACES["vector"]
    full, half = (encoder(space, NetworkConfig(precision=precision)) for precision in ("float32", "bfloat16"))
    params, observation = full.init(key), batch(space, key, (2, 3))
    x, y = full.step(params, (), observation)[0], half.step(params, (), observation)[0]
    assert y.dtype == jnp.float32
    np.testing.assert_allclose(x, y, atol=0.05)
    assert jnp.any(x != y)


@pytest.mark.long
def test_the_mask_of_legal_actions_is_not_looked_at(key):
    space = SPACES["masked"]
    base = encoder(space, SMALL)
    params = base.init(key)
    observation = batch(space, key, (1, 4))
    other = observation | {"action_mask": ~observation["action_mask"]}
    np.testing.assert_array_equal(base.step(params, (), observation)[0], base.step(params, (), other)[0])


@pytest.mark.long
def test_the_global_state_is_for_critics_alone(key):
    space = Dict(spaces={"global_state": Box(low=-1.0, high=1.0, shape=(5,)), "seen": SPACES["vector"]})
    for core in ("none", "gru"):
        base = recurrent_encoder(space, SMALL, core, 6)
        params, observation = base.init(key), batch(space, key, (4, 2))
        other = observation | {"global_state": observation["global_state"] + 1.0}
        unrolled = [
            base.unroll(params, base.initial_carry(2), x, jnp.zeros((4, 2), bool)) for x in (observation, other)
        ]
        jax.tree.map(np.testing.assert_array_equal, *unrolled)
        wide = recurrent_encoder(space, SMALL, core, 6, sees_global_state=True)
        rows = [
            max(x.shape[0] for x in jax.tree.leaves(of.init(key)) if x.ndim == 2 and x.shape[1] == 8)
            for of in (base, wide)
        ]
        assert rows[1] >= 8 and (core == "gru" or rows == [3, 8])


@pytest.mark.parametrize("name", [name for name, entry in ALGORITHMS.items() if not entry.teams])
def test_without_hidden_layers_an_algorithm_is_linear_or_says_so(name):
    factory, kind = registry.algorithm(name)
    action = Discrete(n=3) if "discrete" in ALGORITHMS[name].actions else Box(low=-1.0, high=1.0, shape=(2,))
    spec = EnvironmentSpec(SPACES["vector"], action)
    try:
        model = {"model": Situations(CartPole()).model} if kind.plans else {}
        algorithm = factory(spec, kind(hidden_sizes=()).resumed(), **model)
    except InputError as error:
        assert "hidden_sizes is empty" in str(error)
        return
    agent = jax.eval_shape(algorithm.init, jax.random.key(0))
    if model:  # which acts on situations of that environment
        return
    carry = jax.eval_shape(lambda: algorithm.initial_carry(2))
    seen = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    act = lambda agent, carry, seen: algorithm.act(agent, carry, jax.random.key(0), seen, False)[0]
    assert jax.eval_shape(act, agent, carry, seen).shape[0] == 2
