"""Environments of other libraries on the host, against those libraries."""

import multiprocessing
import os
import signal
import sys
from multiprocessing import forkserver

import gymnasium
import jax
import numpy as np
import pytest

import purerl
from purerl.algos.ppo import PPOConfig, ppo
from purerl.envs.adapters import gymnasium as adapter
from purerl.errors import InputError
from purerl.extensions.host.replay_failure import play_again
from purerl.extensions.host.trainer import HostSettings, make_host_trainer
from purerl.host_environment import EnvironmentFailure
from purerl.trust.names import CurrentFolder

pytestmark = pytest.mark.suites


@pytest.mark.parametrize(("num_envs", "processes"), [(2, 1), (6, 3), (3, 3)])
def test_gymnasium_steps_are_gymnasiums(num_envs, processes, monkeypatch):
    monkeypatch.setattr(adapter, "_cores", lambda: processes)
    source = purerl.make("gymnasium/CartPole-v1", max_episode_steps=12)
    assert source.observation_space.struct == purerl.make("CartPole-v1").observation_space.struct
    env = source.open(num_envs, seed=5, parallel=processes > 1)
    assert len(multiprocessing.active_children()) == (processes if processes > 1 else 0)
    first = env.reset(None)
    oracles = [gymnasium.make("CartPole-v1", max_episode_steps=12) for _ in range(num_envs)]
    over = np.zeros(num_envs, bool)
    np.testing.assert_array_equal(first, [oracle.reset(seed=5 + i)[0] for i, oracle in enumerate(oracles)])
    truncations, rng = 0, np.random.default_rng(0)
    for _ in range(60):
        action = rng.integers(0, 2, num_envs)
        step = env.step(action, None, 0)
        for i, oracle in enumerate(oracles):
            if over[i]:
                expected = oracle.reset()[0]
                assert not step.mask[i] and step.reward[i] == 0 and not step.terminated[i] and not step.truncated[i]
                over[i] = False
            else:
                expected, reward, terminated, truncated, _ = oracle.step(action[i])
                assert (step.reward[i], step.terminated[i]) == (reward, terminated) and step.mask[i]
                assert step.truncated[i] == (truncated and not terminated)
                over[i] = terminated or truncated
                truncations += bool(step.truncated[i])
            np.testing.assert_array_equal(step.observation[i], expected)
    assert truncations > 3
    env.close()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("num_envs", "cores", "processes"), [(8, 2, 2), (7, 2, 7), (9, 2, 3), (64, 16, 16), (128, 1, 1), (3, 16, 3)]
)
def test_environments_are_shared_out_equally(num_envs, cores, processes):
    assert adapter.processes(num_envs, cores) == processes


def test_gymnasium_reports_who_raised():
    class Broken(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)

        def reset(self, seed=None, options=None):
            self.bad = seed == 8
            return np.zeros(1, np.float32), {}

        def step(self, action):
            if self.bad:
                raise RuntimeError("no more")
            return np.zeros(1, np.float32), 0.0, False, False, {}

    gymnasium.register("RaisesOfOne-v0", Broken)
    env = purerl.make("gymnasium/RaisesOfOne-v0").open(3, seed=7, parallel=False)
    env.reset(None)
    with pytest.raises(RuntimeError, match="no more") as caught:
        env.step(np.zeros(3, int), None, 0)
    assert caught.value.env_id == 1
    env.close()


@pytest.mark.parametrize("cores", [1, 2])
def test_parts_of_a_tuple_are_numbered(cores, monkeypatch):
    monkeypatch.setattr(adapter, "_cores", lambda: cores)
    source = purerl.make("gymnasium/Blackjack-v1")
    assert {name: part.n for name, part in source.observation_space.spaces.items()} == {"0": 32, "1": 11, "2": 2}
    env, oracles = source.open(4, seed=3, parallel=cores > 1), [gymnasium.make("Blackjack-v1") for _ in range(4)]
    expected = np.array([oracle.reset(seed=3 + i)[0] for i, oracle in enumerate(oracles)])
    for action in (None, 1):
        if action is not None:
            expected = np.array([oracle.step(action)[0] for oracle in oracles])
        given = source.prepare(env.reset(None) if action is None else env.step(np.full(4, action), None, 0).observation)
        assert {name: (x.shape, x.dtype) for name, x in given.items()} == dict.fromkeys("012", ((4,), np.int32))
        np.testing.assert_array_equal(np.stack([given[name] for name in "012"], 1), expected)
    env.close()


class Offset(gymnasium.Env):
    """Checks that what it is sent lies in its space: a tuple of choices that do not begin at 0, and a level."""

    observation_space = gymnasium.spaces.Tuple(
        [gymnasium.spaces.Discrete(3, start=-1), gymnasium.spaces.Box(0, 1, (2,))]
    )
    action_space = gymnasium.spaces.Tuple(
        [
            gymnasium.spaces.Discrete(2, start=5),
            gymnasium.spaces.MultiDiscrete([3, 2], start=[1, 5]),
            gymnasium.spaces.Box(np.array([0.1]), np.array([0.3]), dtype=np.float64),
        ]
    )

    def reset(self, seed=None, options=None):
        return (-1, np.zeros(2, np.float32)), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return (1, np.ones(2, np.float32)), 0.0, False, False, {}


def test_actions_are_in_the_environments_own_space():
    gymnasium.register("Offset-v0", Offset, max_episode_steps=9)
    source = purerl.make("gymnasium/Offset-v0")
    env = source.open(4, seed=0, parallel=False)
    np.testing.assert_array_equal(source.prepare(env.reset(None))["0"], np.zeros(4))
    ends = jax.tree.map(lambda *xs: np.stack(xs), *(_end(source.action_space, top) for top in (False, True) * 2))
    np.testing.assert_array_equal(source.prepare(env.step(ends, None, 0).observation)["0"], np.full(4, 2))
    env.close()


def _end(space, top):
    """Return the least or the greatest element."""
    at = (
        {"0": 1, "1": np.array([2, 1]), "2": np.float32([0.3])}
        if top
        else {"0": 0, "1": [0, 0], "2": np.float32([0.1])}
    )
    return jax.tree.map(lambda x, s: np.asarray(x, s.dtype), at, space.struct, is_leaf=lambda x: isinstance(x, list))


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1", "Blackjack-v1", "Pendulum-v1", "Offset-v0"])
def test_a_trained_policy_acts_in_gymnasiums_own_loop(name, tmp_path):
    if name == "Offset-v0":
        gymnasium.register(name, Offset, max_episode_steps=9)
    small = {"num_envs": 2, "rollout_length": 8, "num_minibatches": 2, "hidden_sizes": (8,), "total_timesteps": 16}
    run = purerl.train(
        "ppo", f"gymnasium/{name}", out=tmp_path / "run", sampler="serial", display="none", eval_episodes=1, **small
    )
    env, policy = gymnasium.make(name), run.policy()
    observation, _ = env.reset(seed=0)
    for _ in range(3):
        action = policy(observation)
        assert env.action_space.contains(action)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()


def test_ppo_learns_on_gymnasium():
    config = PPOConfig(
        num_envs=8,
        rollout_length=64,
        num_minibatches=4,
        hidden_sizes=(32, 32),
        learning_rate=3e-3,
        total_timesteps=30_000,
    )
    trainer = make_host_trainer(ppo, purerl.make("gymnasium/CartPole-v1"), config, HostSettings(mode="serial"))
    state = trainer.init(jax.random.key(0))
    returns = []
    for _ in range(40):
        state, metrics = trainer.step(state)
        returns.append(float(metrics.episodes["episode_return"]))
    trainer.close()
    assert returns[0] < 40 and np.nanmean(returns[-5:]) > 2.5 * returns[0]


def test_bad_gymnasium():
    with pytest.raises(InputError, match="did you mean 'CartPole-v1'"):
        purerl.make("gymnasium/CartPol-v1")
    with pytest.raises(InputError, match="cannot be made: TypeError"):
        purerl.make("gymnasium/CartPole-v1", color="red")


@pytest.mark.parametrize(
    ("error", "missing"),
    [
        (ModuleNotFoundError("No module named 'imageio'", name="imageio"), "imageio"),
        (gymnasium.error.DependencyNotInstalled("Box2D is not installed, you can install it by ..."), "Box2D"),
    ],
)
def test_what_is_missing_is_told_with_its_remedy(error, missing, monkeypatch):
    def make(name, **parameters):
        raise error

    monkeypatch.setattr(gymnasium, "make", make)
    with pytest.raises(InputError, match=rf"CartPole-v1 needs {missing}: pip install 'purerl\[gymnasium\]'"):
        purerl.make("gymnasium/CartPole-v1")


@pytest.mark.parametrize("what", ["step", "reset"])
def test_a_process_that_dies_is_told_with_its_exit_code(what, monkeypatch, recwarn):
    """And the others end: nothing waits for them, nor tells of them later."""
    monkeypatch.setattr(adapter, "_cores", lambda: 2)
    env = purerl.make("gymnasium/CartPole-v1").open(4, seed=0, parallel=True)
    env.reset(None)
    env.step(np.zeros(4, int), None, 0)
    first, second = env._vector._vector.processes
    second.kill()
    with pytest.raises(ChildProcessError, match=r"^its process died \(exit code -9\)$"):
        for _ in range(2):
            env.step(np.zeros(4, int), None, 0) if what == "step" else env.reset(None)
    env.close()
    first.join(5.0)
    assert not first.is_alive() and not multiprocessing.active_children()
    assert not [str(warning.message) for warning in recwarn if "close" in str(warning.message)]


def test_processes_leave_the_signals_of_a_group_to_the_run(monkeypatch):
    """`timeout` and `scancel` signal the forkserver and the processes of environments as well."""
    monkeypatch.setattr(adapter, "_cores", lambda: 2)
    forkserver._forkserver._stop()  # that of an earlier test
    env = purerl.make("gymnasium/CartPole-v1").open(4, seed=0, parallel=True)
    env.reset(None)
    processes = env._vector._vector.processes
    for pid in (forkserver._forkserver._forkserver_pid, *(process.pid for process in processes)):
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            os.kill(pid, number)
    for _ in range(3):
        env.step(np.zeros(4, int), None, 0)
    assert all(process.is_alive() for process in processes)
    env.close()
    assert not any(process.is_alive() for process in processes)
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.parametrize("fault", ["raises in step", "raises in reset", "sys.exit in step"])
def test_what_a_process_raises_is_told_once_and_without_its_traceback(fault, monkeypatch, recwarn):
    monkeypatch.setattr(adapter, "_cores", lambda: 2)
    source = purerl.make("gymnasium/benchmarks.faults.broken:Broken-v0", fault=fault)
    env = source.open(2, seed=0, parallel=True)
    env.reset(None)
    with pytest.raises((KeyError, ValueError, ChildProcessError)):
        for _ in range(40):
            env.step(np.zeros(2, int), None, 0)
    env.abandon()
    assert not [str(warning.message) for warning in recwarn if "Traceback" in str(warning.message)]


CORRIDOR = """
import gymnasium, numpy
class Corridor(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)
    def reset(self, seed=None, options=None):
        return numpy.zeros(1, numpy.float32), {}
    def step(self, action):
        return numpy.ones(1, numpy.float32), 2.0, False, False, {}
gymnasium.register(id="Corridor-v0", entry_point=Corridor)
"""


def test_processes_find_a_module_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "corridor_of_test.py").write_text(CORRIDOR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.meta_path", [*sys.meta_path])
    monkeypatch.setattr(adapter, "_cores", lambda: 2)
    CurrentFolder.find(["corridor_of_test"])
    env = purerl.make("gymnasium/corridor_of_test:Corridor-v0").open(2, seed=0, parallel=True)
    env.reset(None)
    assert env.step(np.zeros(2, int), None, 0).reward.tolist() == [2.0, 2.0]
    env.close()


def joint():
    """Return a class that no other process can import, as one of a notebook."""

    class Joint(gymnasium.Env):
        """Takes a choice and a number at once, and pays their sum."""

        observation_space = gymnasium.spaces.Box(0, 1, (1,))
        action_space = gymnasium.spaces.Dict(
            choice=gymnasium.spaces.Discrete(3), number=gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        )

        def reset(self, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(1, np.float32), {}

        def step(self, action):
            if action["number"][0] > 0.99:
                raise RuntimeError("enough")
            return np.zeros(1, np.float32), float(action["choice"] + action["number"].sum()), False, False, {}

    return Joint


@pytest.mark.parametrize("processes", [1, 2])
def test_actions_of_several_parts(processes, monkeypatch, tmp_path):
    """With or without processes, and its failure is replayed."""
    monkeypatch.delitem(gymnasium.registry, "Joint-v0", raising=False)
    gymnasium.register("Joint-v0", joint())
    monkeypatch.setattr(adapter, "_cores", lambda: processes)
    source = purerl.make("gymnasium/Joint-v0")
    env = source.open(4, seed=0, parallel=processes > 1)
    env.reset(None)
    action = {"choice": np.array([0, 1, 2, 0]), "number": np.linspace(-1, 0.5, 8, dtype=np.float32).reshape(4, 2)}
    np.testing.assert_allclose(env.step(action, None, 0).reward, action["choice"] + action["number"].sum(1), rtol=1e-6)
    env.close()
    settings = HostSettings(mode="serial" if processes == 1 else "batched", failures=tmp_path)
    trainer = make_host_trainer(ppo, source, PPOConfig(num_envs=4, rollout_length=8, num_minibatches=2), settings)
    state = trainer.init(jax.random.key(0))
    with pytest.raises(EnvironmentFailure, match=r"raised in step .*enough"):
        for _ in range(200):
            state, _ = trainer.step(state)
    trainer.close()
    with pytest.raises(RuntimeError, match="enough"):
        play_again(tmp_path / "failure-0.json")
