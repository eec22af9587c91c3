"""The settings of a pool and what they are refused for."""

import numpy as np
import pytest

from purerl import pool
from purerl.envs.bsuite.catch import Catch
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import InputError
from purerl.pool.config import PoolConfig, PoolSpec, limit_of, make_environment
from purerl.wrappers import ActionRepeat, FrameStack, RewardScale, TimeLimit


def test_defaults_are_filled_in_from_the_environment():
    config = PoolConfig.of(CartPole(time_limit=70), {"num_envs": 3, "render_mode": None})
    assert (config.max_episode_steps, config.batch_size, config.seed) == (70, 3, 42)
    np.testing.assert_array_equal(config.seeds, [42, 43, 44])
    listed = PoolConfig.of(CartPole(), {"num_envs": 2, "seed": np.array([9, 4]), "batch_size": 1})
    np.testing.assert_array_equal(listed.seeds, [9, 4])
    assert listed.batch_size == 1
    assert PoolConfig.of(Catch(), {}).max_episode_steps is None and limit_of(Catch()) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_env": 2}, "unknown setting of a pool 'num_env': did you mean 'num_envs'"),
        ({"num_envs": 0}, "num_envs is 0; it must be at least 1"),
        ({"num_envs": 2, "batch_size": 3}, "batch_size 3 is above num_envs 2"),
        ({"num_envs": 2, "batch_size": -1}, "batch_size is -1; it must be at least 0"),
        ({"num_envs": 3, "seed": [1, 2]}, "seed lists 2 numbers for 3 environments"),
        ({"max_num_players": 2}, "pools of ours have one player"),
        ({"render_mode": "human"}, "render_mode is 'human'; allowed: rgb_array"),
        ({"output": "torch"}, "unknown output 'torch'.*numpy"),
    ],
)
def test_settings_that_cannot_be(given, message):
    with pytest.raises(InputError, match=message):
        PoolConfig.of(CartPole(), given)


def test_limits():
    assert make_environment("CartPole-v1", {"gravity": 3.0}, None) == ("CartPole-v1", CartPole(gravity=3.0))
    assert make_environment("CartPole-v1", {}, 9)[1] == CartPole(time_limit=9)
    assert make_environment("Catch", {}, 5)[1] == TimeLimit(Catch(), time_limit=5)
    with pytest.raises(InputError, match="max_episode_steps is 0"):
        make_environment("CartPole-v1", {}, 0)
    with pytest.raises(InputError, match="gymnasium/CartPole-v1 already runs on the host"):
        make_environment("gymnasium/CartPole-v1", {}, None)
    with pytest.raises(InputError, match=r"pools support single-agent environments only; Spread has groups \(agents\)"):
        make_environment("Spread", {}, None)
    with pytest.raises(InputError, match="pass them to CartPole when you make it: gravity"):
        make_environment(CartPole(), {"gravity": 3.0}, None)


@pytest.mark.long
def test_a_pool_of_an_environment_in_wrappers():
    doubled = RewardScale(CartPole(time_limit=9), scale=2.0)
    made = pool.make(doubled, num_envs=3, seed=1)
    plain = pool.make("CartPole-v1", num_envs=3, seed=1, max_episode_steps=9)
    np.testing.assert_array_equal(made.reset()[0], plain.reset()[0])
    for number in range(9):
        action = np.full(3, number % 2)
        one, two = made.step(action), plain.step(action)
        np.testing.assert_array_equal(one[0], two[0])
        np.testing.assert_array_equal(one[1], 2 * two[1])
    assert one[3].all() and pool.make_spec(doubled).task_id == "RewardScale"


def test_old_ids_are_todays_with_what_they_had():
    assert pool.make_spec("CartPole-v0").config.max_episode_steps == 200
    assert pool.make_spec("CartPole-v0", max_episode_steps=7).config.max_episode_steps == 7
    assert pool.make_spec("Pendulum-v0").config.max_episode_steps == 200
    assert {"CartPole-v0", "Pendulum-v0", "CartPole-v1"} <= set(pool.list_all_envs())


def test_a_spec_names_everything_that_is_sent_and_received():
    spec = PoolSpec("CartPole-v1", CartPole(), PoolConfig.of(CartPole(), {"num_envs": 2}))
    assert spec.config.num_envs == 2 and spec.reward_threshold == 475.0
    state, action = spec.state_array_spec, spec.action_array_spec
    assert state["obs"].shape == [4] and state["reward"].dtype == np.float32
    assert (action["action"].dtype, action["action"].shape) == (np.int32, [-1])
    assert spec.observation_space.shape == (4,) and spec.action_space.n == 2
    assert repr(spec).startswith("PoolSpec(CartPole-v1, num_envs=2, ")


def test_what_envpools_scripts_read_of_a_spec():
    spec = pool.make_spec("CartPole-v1", num_envs=4, base_path="/somewhere")
    action, env_id = spec.action_array_spec["action"], spec.action_array_spec["env_id"]
    assert (action.minimum, action.maximum, action.shape) == (0, 1, [-1]) and (env_id.minimum, env_id.maximum) == (0, 3)
    torque = pool.make_spec("Pendulum-v1").action_array_spec["action"]
    assert (torque.minimum, torque.maximum, torque.shape) == (-2.0, 2.0, [-1, 1])
    assert spec.reward_threshold == spec.config.reward_threshold == 475.0 and spec.config.base_path == "/somewhere"
    assert pool.make_spec("Pendulum-v1").reward_threshold is None
    high = [4.8, np.inf, 24 * np.pi / 180, np.inf]
    np.testing.assert_allclose(spec.observation_space.high, high, rtol=1e-6)
    np.testing.assert_allclose(spec.observation_space.low, [-x for x in high], rtol=1e-6)


def test_a_limit_reaches_the_environment_in_wrappers():
    stack = FrameStack(CartPole(), num_frames=2)
    assert limit_of(stack) == 500
    _, longer = make_environment(stack, {}, 1000)
    assert isinstance(longer, FrameStack) and int(longer.env.time_limit) == 1000 == limit_of(longer)
    repeated = ActionRepeat(CartPole(), num_repeats=2)
    assert limit_of(repeated) is None and limit_of(make_environment(repeated, {}, 9)[1]) == 9
