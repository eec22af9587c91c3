"""An adapter next to its suite: the same keys and actions, in one compiled program."""

import copy
import pickle
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.agent_groups import draw
from purerl.prng import fast
from purerl.spaces import MultiDiscrete


class Transition(NamedTuple):
    """What either side says of one step."""

    observation: object
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array


class SideBySide(NamedTuple):
    """Arrays [B, T] of both sides; `first` and `suite_first` [B] are the observations of reset."""

    first: object
    suite_first: object
    ours: Transition
    suite: Transition
    contained: np.ndarray
    running: np.ndarray  # bool[B, T], False after the first ending


def legal_action(space, key, observation):
    """Draw a uniform action, among the legal ones where the observation has a mask."""
    if not isinstance(space, MultiDiscrete) or "action_mask" not in observation:
        return draw(space, key, observation)
    logits = jnp.where(observation["action_mask"], 0.0, -jnp.inf)
    keys, parts = jax.random.split(key, len(space.nvec)), jnp.split(logits, np.cumsum(space.nvec)[:-1])
    return jnp.stack([jax.random.categorical(keys[i], part) for i, part in enumerate(parts)]).astype(jnp.int32)


def run(env, suite_reset, suite_step, keys, steps, our_key):
    """One episode per key on both sides, stepped on after its end."""

    def one(key):
        state, observation = env.reset(key)
        with jax.numpy_dtype_promotion("standard"):
            suite_state, suite_first = suite_reset(key)

        def body(carry, key):
            state, observation, suite_state, running = carry
            action = legal_action(env.action_space, jax.random.fold_in(key, 1), observation)
            state, step = env.step(our_key(key), state, action)
            with jax.numpy_dtype_promotion("standard"):
                suite_state, suite = suite_step(key, suite_state, action)
            suite = Transition(*jax.tree.map(jnp.asarray, suite))
            contained = env.observation_space.contains(step.observation)
            ours = Transition(
                observation=step.observation, reward=step.reward, terminated=step.terminated, truncated=step.truncated
            )
            carry = state, step.observation, suite_state, running & ~step.terminated & ~step.truncated
            return carry, (ours, suite, contained, running)

        with jax.numpy_dtype_promotion("standard"):
            suite_state = jax.tree.map(lambda x: jnp.asarray(x, jnp.asarray(x).dtype), suite_state)
        carry = state, observation, suite_state, jnp.bool_(True)
        _, out = jax.lax.scan(body, carry, jax.random.split(key, steps))
        return SideBySide(observation, suite_first, *out)

    return jax.vmap(one)(keys)


@pytest.fixture
def side_by_side():
    """Return (env, suite_reset, suite_step, num_envs, steps) -> SideBySide, the usual properties checked.

    suite_reset: key -> (suite state, observation); suite_step: (key, suite state, action) -> (suite state,
    (observation, reward, terminated, truncated)); our_key: which key our step gets where the suite's gets `key`;
    told: whether the suite tells an ending from a time limit even where both come at once.
    """

    def check(env, suite_reset, suite_step, num_envs=8, steps=40, seed=0, told=True, our_key=lambda key: key):
        keys = jax.random.split(fast(jax.random.key(seed)), num_envs)
        program = jax.jit(run, static_argnums=(1, 2, 4, 5))
        out = jax.tree.map(np.asarray, program(env, suite_reset, suite_step, keys, steps, our_key))
        ours, suite = (jax.tree.map(lambda x: x[out.running], side) for side in (out.ours, out.suite))
        for x, y in zip(jax.tree.leaves(out.first), jax.tree.leaves(out.suite_first), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
        for x, y in zip(jax.tree.leaves(ours.observation), jax.tree.leaves(suite.observation), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
        for x, y in zip(jax.tree.leaves(ours.reward), jax.tree.leaves(suite.reward), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
            assert x.dtype == np.float32
        terminated, truncated = suite.terminated.astype(bool), suite.truncated.astype(bool)
        np.testing.assert_array_equal(ours.terminated | ours.truncated, terminated | truncated)
        if told:
            np.testing.assert_array_equal(ours.terminated, terminated)
        else:  # in the last step before the limit the suite does not say which it was
            np.testing.assert_array_equal(ours.terminated[~truncated], terminated[~truncated])
        assert out.contained[out.running].all()
        assert not (out.ours.terminated & out.ours.truncated).any()
        check_contract(env)
        return out

    return check


def check_contract(env):
    """The state keeps its structure, the observation belongs to the space, and the environment is data."""
    key = fast(jax.random.key(1))
    state, observation = jax.eval_shape(env.reset, key)
    action = jax.eval_shape(env.action_space.sample, key)
    after, step = jax.eval_shape(env.step, key, state, action)

    def shapes(tree):
        leaves, structure = jax.tree.flatten(tree)
        return [(x.shape, x.dtype, x.weak_type) for x in leaves], structure

    assert shapes(state) == shapes(after)
    assert shapes(observation) == shapes(step.observation)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), observation) == jax.tree.map(
        lambda x: (x.shape, jnp.dtype(x.dtype)), env.observation_space.struct
    )
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert jax.tree.structure(twin) == jax.tree.structure(env)
    assert (step.terminated.dtype, step.truncated.dtype) == (jnp.bool_, jnp.bool_)
    assert all(value.shape == () and value.dtype == jnp.float32 for value in step.info.values())


@pytest.fixture
def refused():
    """Return (env_id, **parameters) -> the line that `purerl.make` refuses them with."""

    def line(env_id, **parameters):
        with pytest.raises(purerl.InputError) as error:
            purerl.make(env_id, **parameters)
        assert "\n" not in str(error.value)
        return str(error.value)

    return line
