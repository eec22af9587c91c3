"""Other libraries that learn CartPole through the pool, each judged by how it plays Gymnasium's own CartPole.

pip install stable-baselines3 'tianshou[eval]' tyro tensorboard
PURERL_CLEANRL_CHECKOUT=PATH pytest -m slow tests/pool/test_clients.py
"""

import os
import runpy
import sys
from pathlib import Path

import gymnasium
import gymnasium.utils.env_checker
import numpy as np
import pytest

from purerl import pool
from tests.helpers import envpool_shim

CLEANRL = Path(os.environ.get("PURERL_CLEANRL_CHECKOUT", "/nowhere"))
LEARNED = 195.0  # the return from which Gymnasium counted CartPole-v0 as solved; random play gets 22


@pytest.fixture
def torch():
    """One thread, because other workers compute at the same time."""
    torch = pytest.importorskip("torch", reason="pip install torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)


def played(act, episodes=20):
    """Return the mean return of a policy, f32[1, 4] -> i64[1], on Gymnasium's CartPole."""
    env, returns = gymnasium.make("CartPole-v1"), []
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        over, total = False, 0.0
        while not over:
            action = int(np.asarray(act(np.asarray(observation, np.float32)[None])).reshape(()))
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def for_stable_baselines3(env):
    """Return a pool as a `VecEnv`, as EnvPool's own example for stable-baselines3 does."""
    from stable_baselines3.common.vec_env import VecEnv, VecMonitor

    class Adapter(VecEnv):
        def __init__(self, venv):
            self.venv = venv
            super().__init__(venv.num_envs, venv.observation_space, venv.action_space)

        def step_async(self, actions):
            self.actions = actions

        def step_wait(self):
            observation, reward, terminated, truncated, _ = self.venv.step(self.actions)
            done = terminated | truncated
            infos = [{} for _ in range(self.num_envs)]
            if done.any():
                ended = np.flatnonzero(done)
                for i in ended:
                    infos[i] = {"terminal_observation": observation[i].copy(), "TimeLimit.truncated": truncated[i]}
                observation[ended] = self.venv.reset(ended)[0]
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

    return VecMonitor(Adapter(env))


SB3 = {
    "PPO": (60_000, {"n_steps": 64, "batch_size": 128, "n_epochs": 10, "learning_rate": 1e-3, "gae_lambda": 0.9}),
    "DQN": (
        60_000,
        {
            "learning_rate": 1e-3,
            "batch_size": 64,
            "buffer_size": 50_000,
            "learning_starts": 1_000,
            "train_freq": 32,
            "gradient_steps": 64,
            "target_update_interval": 256,
            "exploration_fraction": 0.2,
            "policy_kwargs": {"net_arch": [128, 128]},
        },
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("algorithm", SB3)
def test_stable_baselines3(algorithm, torch, record_property):
    stable_baselines3 = pytest.importorskip("stable_baselines3", reason="pip install stable-baselines3")
    steps, settings = SB3[algorithm]
    venv = for_stable_baselines3(pool.make("CartPole-v1", num_envs=8, seed=0))
    model = getattr(stable_baselines3, algorithm)("MlpPolicy", venv, seed=0, device="cpu", **settings)
    model.learn(steps)
    assert all(episode["r"] == episode["l"] for episode in model.ep_info_buffer)  # a reward of 1 per step
    score = played(lambda observation: model.predict(observation, deterministic=True)[0])
    record_property("return", score)
    assert score > LEARNED


class AsGymnasium029(gymnasium.vector.VectorWrapper):
    """A vector that resets with the step that ends an episode, and tells of it as Gymnasium did up to 0.29."""

    def __init__(self, env):
        super().__init__(env)
        self._return, self._length = np.zeros(env.num_envs), np.zeros(env.num_envs, int)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._return, self._length = self._return + reward, self._length + 1
        done = terminated | truncated
        if done.any():
            last = observation.copy()
            observation[done] = self.env.reset(options={"reset_mask": done})[0]
            episodes = [{"r": r, "l": n} for r, n in zip(self._return, self._length, strict=True)]
            told = [{"episode": episode} if over else None for episode, over in zip(episodes, done, strict=True)]
            info = {**info, "final_observation": last, "final_info": told}
            self._return[done], self._length[done] = 0, 0
        return observation, reward, terminated, truncated, info


SCRIPTS = {
    "ppo": "--total-timesteps 100000 --num-envs 8 --learning-rate 1e-3",
    "dqn": "--total-timesteps 100000 --learning-starts 1000 --train-frequency 2 --learning-rate 1e-3 --batch-size 64 "
    "--exploration-fraction 0.3 --target-network-frequency 250",
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not CLEANRL.is_dir(), reason="PURERL_CLEANRL_CHECKOUT names no checkout of CleanRL")
@pytest.mark.parametrize("script", SCRIPTS)
def test_cleanrl(script, torch, monkeypatch, tmp_path, record_property):
    """The script as it stands; only the class of vectors that it makes its environments with is another."""
    for package in ("tyro", "tensorboard"):
        pytest.importorskip(package, reason=f"pip install {package}")
    made = []

    def vector(thunks):
        made.append(pool.make("CartPole-v1", env_type="vector", num_envs=len(thunks), seed=1))
        return AsGymnasium029(made[-1])

    monkeypatch.setattr(gymnasium.vector, "SyncVectorEnv", vector)
    monkeypatch.setattr(sys, "argv", [f"{script}.py", *SCRIPTS[script].split()])
    monkeypatch.syspath_prepend(str(CLEANRL))
    monkeypatch.chdir(tmp_path)  # it writes there
    names = runpy.run_path(str(CLEANRL / "cleanrl" / f"{script}.py"), run_name="__main__")
    assert len(made) == 1 and made[0].closed
    scores = names["agent"].actor if script == "ppo" else names["q_network"]
    with torch.no_grad():
        score = played(lambda observation: scores(torch.tensor(observation)).argmax(1).numpy())
    record_property("return", score)
    assert score > LEARNED


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_tianshou(torch, monkeypatch, tmp_path, record_property):
    """Its own factory of EnvPool's environments, whose `import envpool` finds our pools."""
    for package in ("tianshou", "rliable"):
        pytest.importorskip(package, reason=f"pip install {package}")
    envpool_shim.install(monkeypatch)
    from tianshou.highlevel.config import OnPolicyTrainingConfig
    from tianshou.highlevel.env import EnvFactoryRegistered, EnvPoolFactory, VectorEnvType
    from tianshou.highlevel.experiment import ExperimentConfig, PPOExperimentBuilder
    from tianshou.highlevel.params.algorithm_params import PPOParams

    monkeypatch.chdir(tmp_path)
    envs = EnvFactoryRegistered(
        task="CartPole-v1", venv_type=VectorEnvType.DUMMY, envpool_factory=EnvPoolFactory(), render_mode_watch=None
    )
    training = OnPolicyTrainingConfig(
        max_epochs=6,
        epoch_num_steps=10_000,
        num_training_envs=8,
        num_test_envs=4,
        collection_step_num_env_steps=1_024,
        update_step_num_repetitions=8,
        batch_size=128,
    )
    experiment = (
        PPOExperimentBuilder(
            envs, ExperimentConfig(seed=0, device="cpu", watch=False, persistence_enabled=False), training
        )
        .with_ppo_params(PPOParams(lr=1e-3, gae_lambda=0.9, gamma=0.99))
        .with_actor_factory_default(hidden_sizes=(64, 64))
        .with_critic_factory_default(hidden_sizes=(64, 64))
        .build()
    )
    world = experiment.run("cartpole").world
    assert type(world.envs.training_envs).__name__ == "GymnasiumPool"
    policy = world.algorithm.policy
    score = played(lambda observation: policy.compute_action(observation[0]))
    record_property("return", score)
    assert score > LEARNED


WRAPPERS = {
    "RecordEpisodeStatistics": {},
    "NormalizeObservation": {},
    "NormalizeReward": {},
    "ClipReward": {"min_reward": 0, "max_reward": 0.5},
    "FlattenObservation": {},
    "DictInfoToList": {},
    "DtypeObservation": {"dtype": np.float64},
    "TransformReward": {"func": lambda reward: 2 * reward},
}
OF_BOXES = {"ClipAction": {}, "RescaleAction": {"min_action": -1.0, "max_action": 1.0}}
NEED = {"RescaleObservation": {"min_obs": -1.0, "max_obs": 1.0}}  # bounds of MountainCar


@pytest.mark.parametrize("env_type", ["gymnasium", "vector"])
@pytest.mark.parametrize("name", [*WRAPPERS, *OF_BOXES, *NEED])
def test_gymnasiums_vector_wrappers(name, env_type):
    task = "Pendulum-v1" if name in OF_BOXES else "MountainCar-v0" if name in NEED else "CartPole-v1"
    env = pool.make(task, env_type=env_type, num_envs=3, max_episode_steps=5)
    wrapped = getattr(gymnasium.wrappers.vector, name)(env, **(WRAPPERS | OF_BOXES | NEED)[name])
    observation, _ = wrapped.reset()
    assert observation.shape == (3, *env.single_observation_space.shape)
    for i in range(8):
        action = np.stack([wrapped.single_action_space.sample() for _ in range(3)])
        observation, reward, terminated, truncated, _ = wrapped.step(action)
        assert observation.shape[0] == 3 and np.isfinite(observation).all() and np.shape(reward) == (3,)
        assert (terminated | truncated).all() == (i in (4,))  # the limit; the step after it begins an episode
    wrapped.close()
    assert env.closed


class One(gymnasium.Env):
    """The only environment of a pool, for programs that take no vectors."""

    def __init__(self, task):
        self.pool = pool.make(task, num_envs=1, render_mode="rgb_array")
        self.observation_space, self.action_space = self.pool.observation_space, self.pool.action_space
        self.metadata, self.render_mode = {"render_modes": ["rgb_array"], "render_fps": 30}, "rgb_array"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        observation, _ = self.pool.reset(seed=seed)
        return self._one(observation), {}

    def step(self, action):
        observation, reward, terminated, truncated, _ = self.pool.step(np.asarray(action)[None])
        return self._one(observation), float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}

    def _one(self, observation):
        return int(observation[0]) if isinstance(self.observation_space, gymnasium.spaces.Discrete) else observation[0]

    def render(self):
        return self.pool.render()[0]


@pytest.mark.parametrize("task", ["CartPole-v1", "MountainCar-v0", "FrozenLake-v1"])
def test_gymnasiums_checker_of_environments(task, recwarn):
    """It looks at spaces, dtypes, seeds and pictures, of one environment."""
    gymnasium.utils.env_checker.check_env(One(task), skip_close_check=True)
    told = [str(warning.message) for warning in recwarn]
    known = ("infinity", "not having a spec")  # CartPole's bounds, as in Gymnasium's own; and no registered id
    assert not [line for line in told if not any(words in line for words in known)]
