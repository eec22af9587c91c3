"""Pools of ours: nothing lost or doubled, bad input, jit, Gymnasium's and other libraries' use of them."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from purerl import pool
from purerl.errors import InputError
from purerl.pool import engine
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
            jnp.stack(state), action.astype(jnp.float32), jnp.array(False), state[0] >= self.time_limit, {}
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
    """Pools of the test's own environment, by batch size; each test goes on where the last one stopped."""
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


def test_gymnasium_vector_environment():
    env = pool.make("CartPole-v1", env_type="vector", num_envs=3, seed=0)
    assert isinstance(env, gymnasium.vector.VectorEnv) and env.unwrapped is env
    assert env.observation_space == gymnasium.vector.utils.batch_space(env.single_observation_space, 3)
    wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    first, _ = wrapped.reset(seed=5)
    again, _ = wrapped.reset(seed=5)
    np.testing.assert_array_equal(first, again)
    assert env.observation_space.contains(first)
    env.action_space.seed(0)
    lengths, returns, ended_before, length = [], [], np.zeros(3, bool), np.zeros(3, int)
    for _ in range(80):
        _, _, terminated, truncated, info = wrapped.step(env.action_space.sample())
        length = np.where(ended_before, 0, length + 1)
        ended_before = terminated | truncated
        if "episode" in info:
            returns += info["episode"]["r"][ended_before].tolist()
            lengths += length[ended_before].tolist()
    assert lengths and returns == [float(n) for n in lengths]  # a reward of 1 for each step, none for a reset
    wrapped.close()
    assert env.closed


def test_pictures():
    env = pool.make("CartPole-v1", num_envs=2, render_mode="rgb_array")
    env.reset()
    pictures = env.render([0, 1])
    assert pictures.dtype == np.uint8 and pictures.shape[0] == 2 and pictures.shape[-1] == 3
    assert env.render().shape == (1, *pictures.shape[1:])


def test_a_loop_like_cleanrls():
    """The sampling loop of CleanRL's ppo_atari_envpool.py: its bookkeeping of returns must come out right."""
    envs = pool.make("CartPole-v1", env_type="gym", num_envs=4, seed=1)
    envs.single_action_space, envs.single_observation_space = envs.action_space, envs.observation_space
    assert envs.single_observation_space.shape == (4,)
    envs.reset()
    episode_return, finished = np.zeros(4), []
    rng = np.random.default_rng(0)
    for _ in range(120):
        _, reward, terminated, truncated, info = envs.step(rng.integers(0, envs.single_action_space.n, 4))
        episode_return += reward
        done = terminated | truncated
        np.testing.assert_array_equal(info["elapsed_step"], episode_return)
        finished += episode_return[done].tolist()
        episode_return[done] = 0
    assert len(finished) > 8 and 15 < np.mean(finished) < 35  # CartPole at random: about 22


def test_stable_baselines3():
    stable_baselines3 = pytest.importorskip("stable_baselines3", reason="pip install stable-baselines3")
    from stable_baselines3.common.vec_env import VecEnv, VecMonitor

    class Adapter(VecEnv):
        """As in EnvPool's own example for stable-baselines3."""

        def __init__(self, venv):
            self.venv = venv
            super().__init__(venv.num_envs, venv.observation_space, venv.action_space)

        def step_async(self, actions):
            self.actions = actions

        def step_wait(self):
            observation, reward, terminated, truncated, _ = self.venv.step(self.actions)
            done = terminated | truncated
            infos = [{} for _ in range(self.num_envs)]
            for i in np.flatnonzero(done):
                infos[i] = {"terminal_observation": observation[i].copy(), "TimeLimit.truncated": bool(truncated[i])}
                observation[i] = self.venv.reset(np.array([i]))[0][0]
            return observation, reward, done, infos

        def reset(self):
            return self.venv.reset()[0]

        def close(self):
            self.venv.close()

        def get_attr(self, attr_name, indices=None):
            return [None] * self.num_envs

        def set_attr(self, attr_name, value, indices=None):
            raise NotImplementedError

        def env_method(self, method_name, *args, indices=None, **kwargs):
            raise NotImplementedError

        def env_is_wrapped(self, wrapper_class, indices=None):
            return [False] * self.num_envs

    venv = VecMonitor(Adapter(pool.make("CartPole-v1", num_envs=4, seed=0)))
    model = stable_baselines3.PPO("MlpPolicy", venv, n_steps=64, batch_size=64, n_epochs=2, seed=0, device="cpu")
    model.learn(1024)
    lengths = [episode["l"] for episode in model.ep_info_buffer]
    assert len(lengths) > 10 and all(episode["r"] == episode["l"] for episode in model.ep_info_buffer)


def test_numbers_of_any_dtype_come_back_from_packing():
    values = {
        "bool": np.array([True, False, True]),
        "int8": np.array([-128, 0, 127], np.int8),
        "uint16": np.array([0, 1, 2**16 - 1], np.uint16),
        "int32": np.array([-(2**31), -1, 2**31 - 1], np.int32),
        "uint32": np.array([0, 7, 2**32 - 1], np.uint32),
        "float16": np.array([-6e-8, np.inf, 65504], np.float16),
        "float32": np.array([np.nan, -0.0, 1e-40], np.float32),
        "bfloat16": np.asarray(jnp.array([1.5, -2.0, 3e38], jnp.bfloat16)),  # is left as it is
        "vectors": np.arange(6, dtype=np.int8).reshape(3, 2),  # likewise
    }
    packed = engine.pack(jax.tree.map(jnp.asarray, values))
    assert len(packed.apart) == 2
    found = engine.unpack(packed, values)
    for name, value in values.items():
        assert found[name].dtype == value.dtype and found[name].flags.writeable
        np.testing.assert_array_equal(found[name].view(np.uint8), value.view(np.uint8), err_msg=name)
