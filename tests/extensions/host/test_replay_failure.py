"""A recorded failure raises the same error when it is replayed."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.errors import InputError
from purerl.extensions.host.replay_failure import play_again
from purerl.extensions.host.trainer import HostSettings, make_host_trainer
from purerl.host_environment import EnvironmentFailure
from purerl.types import Algorithm, Config


class Fragile(gymnasium.Env):
    """Raises once what its actions and its chance make together says so, and tells it."""

    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(5)

    def __init__(self, after=20):
        self.after, self.steps, self.ledger = after, 0, 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        self.ledger = (3 * self.ledger + int(action) + int(self.np_random.integers(5))) % 1_000_003
        if self.steps > self.after and self.ledger % 7 == 0:
            raise RuntimeError(f"step {self.steps}, ledger {self.ledger}")
        return np.zeros(1, np.float32), 1.0, bool(self.np_random.random() < 0.2), False, {}


@pytest.fixture(scope="module")
def fragile():
    gymnasium.register("Fragile-v0", Fragile)
    yield "gymnasium/Fragile-v0"
    del gymnasium.registry["Fragile-v0"]


def wandering():
    """An algorithm that acts at random."""

    def act(agent, memory, key, observation, explore):
        return jax.random.randint(key, observation.shape[:1], 0, 5, jnp.int32), memory, {}

    return Algorithm(
        init=lambda key: jnp.int32(0),
        initial_carry=lambda n: (),
        act=act,
        update=lambda agent, key, rollout: (agent, {}),
    )


@pytest.mark.parametrize("evaluation", [False, True])
def test_it_raises_the_same_again(fragile, evaluation, tmp_path):
    source, config = purerl.make(fragile), Config(num_envs=2, rollout_length=8)
    settings = HostSettings(mode="serial", failures=tmp_path)
    trainer = make_host_trainer(wandering(), source, config, settings)
    state = trainer.init(jax.random.key(4))
    with pytest.raises(EnvironmentFailure) as told:
        for i in range(100):
            if evaluation:
                trainer.evaluate(state.agent, jax.random.key(i), 3)  # starts episodes everywhere, each time
            else:
                state, _ = trainer.step(state)
    trainer.close()
    (notes,) = tmp_path.glob("failure-*.json")
    assert ("evaluation" in notes.name) == evaluation
    with pytest.raises(RuntimeError) as again:
        play_again(notes)
    assert str(again.value) in str(told.value)


def test_nothing_to_play(tmp_path):
    with pytest.raises(InputError, match=r"failure-0.json does not exist"):
        play_again(tmp_path / "failure-0.npz")
    notes = tmp_path / "failure-0.json"
    for damaged in ("", "[]", "{", '{"steps": 1}', "[" * 100_000):
        notes.write_text(damaged)
        with pytest.raises(InputError, match=r"cannot read .*failure-0|failure-0.json is damaged"):
            play_again(notes)
    more = '"parameters": {}, "seed": 0, "num_envs": 2, "group": 0, "resets": [0]'
    notes.write_text(f'{{"environment": "gymnasium/CartPole-v1", {more}, "from_step": 7, "steps": 100007}}')
    with pytest.raises(InputError, match="only the last 100,000 steps were kept"):
        play_again(notes)
    notes.write_text(f'{{"environment": "CartPole-v1", {more}, "from_step": 0, "steps": 1}}')
    with pytest.raises(InputError, match="is a JAX environment"):
        play_again(notes)


class ResetsOnce(Fragile):
    """Raises in its second reset."""

    def reset(self, seed=None, options=None):
        if self.steps:
            raise RuntimeError("not again")
        return super().reset(seed=seed)

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps == 5, False, {}


def test_a_reset_that_raises_is_replayed(tmp_path):
    gymnasium.register("ResetsOnce-v0", ResetsOnce)
    settings = HostSettings(mode="serial", failures=tmp_path)
    source = purerl.make("gymnasium/ResetsOnce-v0")
    trainer = make_host_trainer(wandering(), source, Config(num_envs=2, rollout_length=8), settings)
    state = trainer.init(jax.random.key(4))
    with pytest.raises(EnvironmentFailure, match="not again"):
        for i in range(3):
            trainer.evaluate(state.agent, jax.random.key(i), 2)
    trainer.close()
    with pytest.raises(RuntimeError, match="not again"):
        play_again(tmp_path / "failure-evaluation.json")
    (tmp_path / "failure-evaluation.npz").write_bytes(b"x")
    with pytest.raises(InputError, match=r"failure-evaluation.npz is damaged"):
        play_again(tmp_path / "failure-evaluation.json")
