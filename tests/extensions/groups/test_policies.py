"""Runs of several groups, whose agents leave or take turns: saved and resumed, and on two devices."""

import dataclasses
import shutil

import jax
import numpy as np
import pytest

import purerl
from purerl.devices.sharding import make_mesh
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.games.coin_game import CoinGame
from purerl.errors import InputError
from purerl.run import checkpoint, opening
from purerl.run.plan import made, make_plan, saved_progress, settings_text
from purerl.settings.runs import settings
from tests.helpers.groups import SMALL, assembled, run_trainer

FLAGS = {"num_envs": 4, "rollout_length": 8, "hidden_sizes": (8,), "normalize_reward": True, "devices": 1}


LEAVING = settings(
    "a2c",
    "tests.helpers.leaving:Leaving",
    FLAGS | {"total_timesteps": 32 * 6, "groups": {"taggers": {"learning_rate": 1e-2}}},
    {"num_runners": 4, "time_limit": 20},
)
REPLAYED = {"num_envs": 4, "hidden_sizes": (8,), "devices": 1, "total_timesteps": 4 * 200}
REPLAYED |= {"learning_starts": 60, "batch_size": 16, "replay_capacity": 400}
TURNS = settings("dqn", "tests.helpers.nim:Nim", REPLAYED | {"groups": {"second": {"policy": "first"}}}, {})
RUNS = {"leaving": (LEAVING, 2), "turns": (TURNS, 19)}  # the settings, and updates before and after it is saved


def begun(kind, mesh):
    """Return (plan, its first progress, a function that takes some updates)."""
    chosen, updates = RUNS[kind]
    plan = make_plan(chosen, mesh)
    functions = plan.parts
    step = lambda progress, fresh: functions.advance(progress, functions.setup, np.int32(updates), np.bool_(fresh))
    return plan, functions.init(functions.seeds, functions.setup), step


@pytest.fixture(scope="module", params=RUNS)
def alone(request):
    """Return (kind, plan, step, the run halfway on the host, at the end and its means) on one device."""
    plan, progress, step = begun(request.param, make_mesh(1))
    progress, _ = step(progress, True)
    halfway = jax.device_get(progress)
    progress, means = step(progress, False)
    return request.param, plan, step, halfway, jax.device_get(progress), jax.device_get(means)


@pytest.mark.long_for("turns")
def test_a_saved_run_of_several_groups_goes_on_to_the_same_bits(alone, tmp_path):
    kind, plan, step, halfway, straight, means = alone
    if kind == "leaving":
        assert set(halfway.state.agent) == {"runners", "taggers"}
        assert not halfway.state.observation["active"]["runners"].all()
    else:
        assert halfway.state.agent["open turns"]["first"].exists.any() and means.metrics.algorithm["loss"] > 0
    updates = RUNS[kind][1]
    checkpoint.save(tmp_path, updates, halfway, {"members": 1, "settings": settings_text(plan)}, 1)
    found = saved_progress(plan, tmp_path, updates)
    further, others = jax.device_get(step(plan.parts.placed(found.progress), False))
    same = lambda x, y: np.testing.assert_array_equal(_bits(x), _bits(y))
    jax.tree.map(same, further, straight)
    jax.tree.map(np.testing.assert_array_equal, others, means)


@pytest.mark.long
def test_groups_on_two_devices(alone):
    """Half of the environments on each, the same run up to rounding."""
    kind, _, _, _, straight, means = alone
    _, progress, step = begun(kind, make_mesh(2, {"data": 2}))
    progress, _ = step(progress, True)
    progress, others = step(progress, False)
    close = lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-4)
    jax.tree.map(close, jax.device_get(progress.state.agent), straight.state.agent)
    jax.tree.map(close, jax.device_get(others.metrics.algorithm), means.metrics.algorithm)
    shards = jax.tree.leaves(progress.state.observation)[0].addressable_shards
    assert [shard.data.shape[:2] for shard in shards] == [(1, 2)] * 2


def _bits(x):
    return jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x


@pytest.mark.long
def test_settings_of_groups_become_policies():
    config = assembled(CoinGame(), red={"learning_rate": 1e-3, "hidden_sizes": 16}).config
    assert config.policies["red"].config.learning_rate == 1e-3
    assert config.policies["red"].config.hidden_sizes == (16,) and config.policies["blue"].config == SMALL
    config = assembled(CoinGame(), red={"policy": "blue"}).config
    assert config.policies["blue"].groups == ("blue", "red") and set(config.policies) == {"blue"}
    state, metrics = run_trainer(assembled(CoinGame(), red={"frozen": "random"}), updates=1)
    learned = metrics.algorithm
    assert state.agent["red"] == () and "blue/policy_loss" in learned and not any("red/" in name for name in learned)
    assert assembled(CartPole()).config == SMALL


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"rod": {"learning_rate": 1.0}}, "unknown group of CoinGame 'rod': did you mean 'red'"),
        ({"red": {"learning_rat": 1.0}}, "unknown setting of red 'learning_rat': did you mean 'learning_rate'"),
        ({"red": {"num_envs": 3}}, "red.num_envs: all policies of a run share num_envs"),
        ({"red": {"policy": "green"}}, "unknown group in red.policy 'green'"),
        ({"red": {"policy": "blue", "learning_rate": 1.0}}, "group 'red' has the policy of 'blue'"),
        ({"red": {"policy": "blue"}, "blue": {"policy": "red"}}, "owns a shared policy"),
        ({"red": {"learning_rate": "fast"}}, "red.learning_rate is 'fast'; it must be: number"),
        ({"red": {"frozen": "nowhere"}}, "there is no run in nowhere"),
    ],
)
def test_settings_that_cannot_be(groups, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        assembled(CoinGame(), **groups)


@pytest.mark.long
def test_groups_that_start_from_a_run_have_its_settings_unless_others_are_given(tmp_path):
    """Settings of the run and of its groups; once a run has begun, the run that it started from is not needed."""
    flags = FLAGS | {"total_timesteps": 32, "learning_rate": 0.5}
    source, groups = tmp_path / "source", {"red": {"entropy_coefficient": 0.25}}
    assert (
        opening.start(settings("a2c", "CoinGame", flags | {"evaluations": 0, "groups": groups}), source, plain=True)
        == 0
    )
    chosen = settings("a2c", "CoinGame", {"start": str(source), "learning_rate": 0.125})
    config = made(chosen).trainer().config
    of_groups = {name: policy.config for name, policy in config.policies.items()}
    assert {name: (of.learning_rate, of.entropy_coefficient, of.hidden_sizes) for name, of in of_groups.items()} == {
        "red": (0.125, 0.25, (8,)),
        "blue": (0.125, chosen.config.entropy_coefficient, (8,)),
    }
    trained = purerl.load_run(source).agent(0)
    jax.tree.map(np.testing.assert_array_equal, config.policies["red"].agent.params, trained["red"].params)
    shutil.rmtree(source)
    again = made(dataclasses.replace(chosen, begun=True)).trainer().config
    assert {name: policy.config for name, policy in again.policies.items()} == of_groups
