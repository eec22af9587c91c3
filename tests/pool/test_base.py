"""Pools of ours: nothing lost or doubled, bad input, jit, Gymnasium's and other libraries' use of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from purerl import pool
from purerl.errors import InputError
from purerl.spaces import Box, Discrete
from purerl.types import Environment, TimeStep, number, pytree

NUM = 5


@pytree
class Ledger(Environment):
    """Observes what it was told: the steps of the episode and the sum of the actions since it was made."""

    time_limit: int = number(default=4)

    def reset(self, key):
        state = (jnp.int32(0), jnp.int32(0))
        return state, jnp.stack(state)

    def step(self, key, state, action):
        state = (state[0] + 1, state[1] * 3 + action + 1)
        return state, TimeStep(
            observation=jnp.stack(state),
            reward=action.astype(jnp.float32),
            terminated=jnp.array(False),
            truncated=state[0] >= self.time_limit,
            info={},
        )

    @property
    def observation_space(self):
        return Box(low=0, high=10**6, shape=(2,), dtype=jnp.int32)

    @property
    def action_space(self):
        return Discrete(n=100)


class Oracle:
    """The same in plain Python: one environment."""

    def __init__(self):
        self.over, self.elapsed, self.ledger = True, 0, 0

    def step(self, action):
        if self.over:
            self.over, self.elapsed, self.ledger = False, 0, 0
            return 0, 0.0, False, 0
        self.elapsed, self.ledger = self.elapsed + 1, self.ledger * 3 + action + 1
        self.over = self.elapsed >= 4
        return self.ledger, float(action), self.over, self.elapsed


@pytest.fixture(scope="module")
def ledgers():
    """Pools of the test's own environment, by batch size; each test continues where the last one stopped."""
    return {size: pool.make(f"{__name__}:Ledger", num_envs=NUM, batch_size=size) for size in (0, 2)}


def checked(oracles, sent, result):
    observation, reward, terminated, truncated, info = result
    for i, env_id in enumerate(info["env_id"].tolist()):
        ledger, rewarded, over, elapsed = oracles[env_id].step(sent.pop(env_id))
        assert (observation[i, 1], reward[i], truncated[i], info["elapsed_step"][i]) == (
            ledger,
            rewarded,
            over,
            elapsed,
        )
        assert not terminated[i]
    return info["env_id"].tolist()


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_sends_lose_and_double_nothing(ledgers, data):
    """Thousands of sends and receives in random order and size: every action arrives once, where it was sent to."""
    env = ledgers[data.draw(st.sampled_from([0, 2]))]
    env.reset(seed=0) if not env.is_async else env._restart(np.arange(NUM))
    oracles = [Oracle() for _ in range(NUM)]
    if not env.is_async:
        for oracle in oracles:
            oracle.step(0)
    sent, order = {}, []
    for _ in range(60):
        free = [i for i in range(NUM) if i not in sent]
        receive = order and (not free or data.draw(st.booleans()))
        if receive and (not env.is_async or len(order) >= 2):
            arrived = checked(oracles, sent, env.recv())
            expected = order[:2] if env.is_async else order
            assert arrived == expected
            order = order[len(arrived) :]
        elif free:
            ids = data.draw(st.permutations(free))[: data.draw(st.integers(1, len(free)))]
            actions = data.draw(st.lists(st.integers(0, 99), min_size=len(ids), max_size=len(ids)))
            env.send(np.array(actions), np.array(ids))
            sent |= dict(zip(ids, actions, strict=True))
            order += ids
    assert set(sent) == set(order) and len(order) == len(set(order))


def test_what_was_sent_first_is_received_first():
    """Also where a batch leaves a part of what was sent."""
    env = pool.make(f"{__name__}:Ledger", num_envs=NUM, batch_size=2)
    env.send(np.zeros(3, int), np.array([4, 1, 0]))
    env.send(np.zeros(2, int), np.array([2, 3]))
    assert [env.recv()[-1]["env_id"].tolist() for _ in range(2)] == [[4, 1], [0, 2]]


@pytest.mark.long
def test_bad_input(ledgers):
    env, partial = ledgers[0], ledgers[2]
    env.reset(seed=0)
    wrong = {
        "actions have shape .3.; 5 environments take .5.": lambda: env.step(np.zeros(3, int)),
        "env_id is .7.; allowed": lambda: env.step(np.zeros(1, int), np.array([7])),
        "names an environment twice": lambda: env.step(np.zeros(2, int), np.array([1, 1])),
        "nothing to receive": env.recv,
        "render_mode='rgb_array'": env.render,
        "allowed: reset_mask": lambda: env.reset(options={"mask": 1}),
        "one True at least": lambda: env.reset(options={"reset_mask": np.zeros(NUM, bool)}),
        "did you mean 'CartPole-v1'": lambda: pool.make("CartPol-v1"),
        "env_type": lambda: pool.make("CartPole-v1", env_type="gymnasum"),
        "did you mean 'num_envs'": lambda: pool.make("CartPole-v1", num_env=3),
        "batch_size 3 is above num_envs 2": lambda: pool.make("CartPole-v1", num_envs=2, batch_size=3),
        "num_envs is 0": lambda: pool.make("CartPole-v1", num_envs=0),
        "seed lists 2 numbers for 3": lambda: pool.make("CartPole-v1", num_envs=3, seed=[1, 2]),
        "max_episode_steps is 0": lambda: pool.make("CartPole-v1", max_episode_steps=0),
        "did you mean 'gravity'": lambda: pool.make("CartPole-v1", parameters={"gravty": 1.0}),
    }
    for message, call in wrong.items():
        with pytest.raises(InputError, match=message):
            call()
    partial._restart(np.arange(NUM))
    partial.send(np.zeros(1, int), np.array([3]))
    with pytest.raises(InputError, match=r"environment 3 still steps: .* allowed now: 0, 1, 2, 4"):
        partial.send(np.zeros(2, int), np.array([2, 3]))
    with pytest.raises(InputError, match="1 environments were sent to, recv waits for 2"):
        partial.recv()
    partial.send(np.zeros(1, int), np.array([0]))  # what was refused has changed nothing
    assert partial.recv()[-1]["env_id"].tolist() == [3, 0]


@pytest.fixture(scope="module")
def cartpole():
    return pool.make("CartPole-v1", num_envs=4, seed=7, output="jax")


@pytest.mark.long
def test_handle_scans_like_steps(cartpole):
    cartpole.reset(seed=7)
    handle, _, _, step = cartpole.xla()
    actions = jnp.array(np.random.default_rng(0).integers(0, 2, (60, 4)), jnp.int32)
    last, results = jax.jit(lambda handle: jax.lax.scan(step, handle, actions))(handle)
    for t in range(60):  # the handle is a copy: the pool goes its own way from there
        one = cartpole.step(np.asarray(actions[t]))
        np.testing.assert_allclose(one[0], results[0][t], rtol=1e-5, atol=1e-6)
        for own, scanned in zip(jax.tree.leaves(one[1:]), jax.tree.leaves(results[1:]), strict=True):
            np.testing.assert_array_equal(own, scanned[t])
    assert int(last.waiting) == 0 and isinstance(one[0], jax.Array)
    np.testing.assert_array_equal(np.from_dlpack(one[0]), one[0])


@pytest.mark.long
def test_handle_can_be_vmapped_and_sharded(cartpole):
    cartpole.reset(seed=7)
    handle, _, _, step = cartpole.xla()
    actions = jnp.array([0, 1, 1, 0], jnp.int32)
    expected = jax.jit(step)(handle, actions)[1]
    two = jax.tree.map(lambda x: jnp.stack([x, x]), handle)
    both = jax.jit(jax.vmap(step))(two, jnp.stack([actions, 1 - actions]))[1]
    np.testing.assert_allclose(both[0][0], expected[0], rtol=1e-6, atol=1e-6)
    assert not np.allclose(both[0][1], expected[0])
    mesh = jax.make_mesh((2,), ("env",), axis_types=(AxisType.Auto,))
    spread = lambda x: NamedSharding(mesh, PartitionSpec("env") if x.ndim else PartitionSpec())
    place = lambda x: jax.device_put(x, spread(x))
    sharded = jax.jit(step)(jax.tree.map(place, handle), place(actions))[1]
    assert len(sharded[0].sharding.device_set) == 2
    np.testing.assert_allclose(sharded[0], expected[0], rtol=1e-6, atol=1e-6)


@pytest.mark.long
def test_handle_with_partial_batches():
    env = pool.make(f"{__name__}:Ledger", num_envs=4, batch_size=2)
    env.async_reset()
    handle, recv, send, step = env.xla()
    recv, send, step = jax.jit(recv), jax.jit(send), jax.jit(step)
    handle, first = recv(handle)
    handle, second = recv(handle)
    assert first[4]["env_id"].tolist() == [0, 1] and second[4]["env_id"].tolist() == [2, 3]
    handle = send(handle, jnp.array([5, 6], jnp.int32), jnp.array([3, 0], jnp.int32))
    handle, result = step(handle, jnp.array([7, 8], jnp.int32), jnp.array([1, 2], jnp.int32))
    assert result[4]["env_id"].tolist() == [3, 0] and result[1].tolist() == [5.0, 6.0]
    handle, result = recv(handle)
    assert result[4]["env_id"].tolist() == [1, 2] and result[1].tolist() == [7.0, 8.0]


@pytest.mark.long_for("False", "True")
@pytest.mark.parametrize("inside_jit", [False, True])
def test_a_handle_is_the_pool_as_it_is_at_its_first_use(inside_jit):
    """Made before the reset, as EnvPool's scripts do; what it gives is what the pool itself gives."""
    env, beside = (pool.make("CartPole-v1", num_envs=3, seed=5) for _ in range(2))
    handle, recv, send, _ = env.xla()
    env.async_reset()
    beside.async_reset()
    if inside_jit:
        recv, send = jax.jit(recv), jax.jit(send)
    handle, first = recv(handle)
    np.testing.assert_array_equal(first[0], beside.recv()[0])
    assert first[4]["env_id"].tolist() == [0, 1, 2]
    action = np.array([1, 0, 1], np.int32)
    _, found = recv(send(handle, action))
    expected = beside.step(action)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6, atol=1e-6)
    assert found[4]["elapsed_step"].tolist() == expected[4]["elapsed_step"].tolist() == [1, 1, 1]


@pytest.mark.long
def test_a_step_after_a_synchronous_reset_is_a_step():
    env = pool.make("CartPole-v1", num_envs=2, seed=5)
    handle, _, _, step = env.xla()
    env.reset()
    assert jax.jit(step)(handle, jnp.array([0, 1], jnp.int32))[1][4]["elapsed_step"].tolist() == [1, 1]


def test_an_empty_or_full_handle_is_refused_inside_jit_too():
    env = pool.make("CartPole-v1", num_envs=2)
    handle, recv, send, _ = env.xla()
    with pytest.raises(InputError, match="nothing to receive: 0 environments were sent to, recv waits for 2"):
        jax.jit(recv)(handle)
    action = jnp.zeros(2, jnp.int32)
    with pytest.raises(InputError, match="2 environments are sent to while 2 of 2 wait"):
        jax.jit(lambda handle: send(send(handle, action), action))(handle)


def test_seed_warns_as_envpools_does():
    with pytest.warns(UserWarning, match="no effect"):
        pool.make("CartPole-v1").seed(1)


def test_pictures():
    env = pool.make("CartPole-v1", num_envs=2, render_mode="rgb_array")
    env.reset()
    pictures = env.render([0, 1])
    assert pictures.dtype == np.uint8 and pictures.shape[0] == 2 and pictures.shape[-1] == 3
    assert env.render().shape == (1, *pictures.shape[1:])
