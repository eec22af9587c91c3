"""JaxMARL's environments step as JaxMARL says; its agents are groups."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.agent_groups import draw
from purerl.algos.mappo import MAPPOConfig
from purerl.algos.ppo import ppo
from purerl.errors import InputError
from purerl.extensions.groups.joint import multi_agent, policies_for
from purerl.loop.train import make_trainer
from purerl.testing import check_environment

pytestmark = pytest.mark.suites

jaxmarl = pytest.importorskip("jaxmarl", reason="it is not installed: pip install 'purerl[jaxmarl]'")


def side_by_side(env, suite, steps):
    """One episode on both sides from the same keys: what either returns at every step, ours first."""

    def run(key):
        state, observation = env.reset(key)
        with jax.numpy_dtype_promotion("standard"):
            _, theirs = suite.reset(key)

        def body(carry, key):
            state, observation, theirs = carry
            action = draw(env.action_space, key, observation)
            state, step = env.step(key, state, action)
            chosen = {a: action[g][i] for g, agents in env._layout.groups.items() for i, a in enumerate(agents)}
            with jax.numpy_dtype_promotion("standard"):
                seen, theirs, reward, done, _ = suite.step_env(key, theirs, chosen)
            return (state, step.observation, theirs), (step, seen, reward, done)

        return jax.lax.scan(body, (state, observation, theirs), jax.random.split(key, steps))[1]

    return jax.tree.map(np.asarray, jax.jit(run)(jax.random.key(0)))


def hold_to(env, step, seen, reward, done):
    """Compare what agents see and are paid until the first ending; return its index, that of the last step if none."""
    over = done["__all__"]
    first = int(np.argmax(over)) if over.any() else len(over) - 1
    for group, agents in env._layout.groups.items():
        ours = step.observation[group]
        ours = ours["observation"] if isinstance(ours, dict) else ours
        for i, agent in enumerate(agents):
            np.testing.assert_allclose(ours[: first + 1, i], seen[agent][: first + 1], atol=1e-5)
            np.testing.assert_allclose(step.reward[group][: first + 1, i], reward[agent][: first + 1], atol=1e-5)
    assert np.array_equal((step.terminated | step.truncated)[: first + 1], over[: first + 1])
    return first


@pytest.mark.parametrize(
    ("name", "groups", "steps"),
    [
        ("MPE_simple_tag_v3", {"adversary": 3, "agent": 1}, 28),
        ("HeuristicEnemySMAX", {"ally": 5}, 60),
    ],
)
def test_steps_as_jaxmarl_does(name, groups, steps):
    env = purerl.make(f"jaxmarl/{name}")
    assert {group: space.n for group, space in env.action_space.spaces.items()} == groups
    with jax.numpy_dtype_promotion("standard"):
        suite = jaxmarl.make(name)
    step, seen, reward, done = side_by_side(env, suite, steps)
    first = hold_to(env, step, seen, reward, done)
    fallen = 0
    for group, agents in env._layout.groups.items():
        for i, agent in enumerate(agents):
            alive = ~np.logical_or.accumulate(done[agent])[:first]
            if name == "HeuristicEnemySMAX":  # the fallen stand still, and are paid for what their team does
                alone = step.observation[group]["action_mask"][:first, i].sum(axis=1) == 1
                assert alone[~alive].all()
                fallen += not alive.all()
                alive = np.ones_like(alive)
            assert np.array_equal(step.observation["active"][group][:first, i], alive)
    if name.startswith("MPE"):
        assert step.truncated[first] and not step.terminated.any() and first in (24, 25), "its time limit"
    else:
        assert fallen and step.terminated[first] and "global_state" in env.observation_space.spaces


MPE = ["simple_v3", "simple_spread_v3", "simple_push_v3", "simple_crypto_v3", "simple_adversary_v3"]
MPE += ["simple_reference_v3", "simple_speaker_listener_v4", "simple_world_comm_v3"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", [*[f"MPE_{game}" for game in MPE], "switch_riddle", "coin_game", "overcooked", "hanabi"]
)
def test_trajectories(name):
    env = purerl.make(f"jaxmarl/{name}")
    with jax.numpy_dtype_promotion("standard"):
        suite = jaxmarl.make(name)
    step, *theirs = side_by_side(env, suite, 110)
    first = hold_to(env, step, *theirs)
    if name == "coin_game" or name.startswith("MPE"):
        assert step.truncated[first] and not step.terminated[: first + 1].any()


def test_maps_and_kitchens_are_given_by_name():
    env = purerl.make("jaxmarl/HeuristicEnemySMAX", scenario="3m")
    assert {group: space.n for group, space in env.action_space.spaces.items()} == {"ally": 3}
    kitchen = purerl.make("jaxmarl/overcooked", layout="coord_ring")
    assert kitchen.observation_space.spaces["agent"].space.shape[:2] == (5, 5)
    with pytest.raises(InputError, match="unknown layout of jaxmarl/overcooked 'cramped': did you mean 'cramped_room'"):
        purerl.make("jaxmarl/overcooked", layout="cramped")


def test_shaped_rewards_of_overcooked_are_added():
    plain, shaped = (purerl.make("jaxmarl/overcooked", layout="cramped_room", shaped_reward=x) for x in (0.0, 0.5))
    suite = plain._env

    def run(key):
        state, observation = plain.reset(key)

        def body(carry, key):
            state, observation = carry
            action = draw(plain.action_space, key, observation)
            _, more = shaped.step(key, state, action)
            chosen = {agent: action["agent"][i] for i, agent in enumerate(suite.agents)}
            with jax.numpy_dtype_promotion("standard"):
                told = suite.step_env(key, state.suite, chosen)[4]["shaped_reward"]
            state, step = plain.step(key, state, action)
            extra = jnp.stack([told[agent] for agent in suite.agents])
            return (state, step.observation), (more.reward["agent"] - step.reward["agent"], extra)

        return jax.lax.scan(body, (state, observation), jax.random.split(key, 400))[1]

    added, extra = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), 8))
    np.testing.assert_allclose(added, 0.5 * extra, atol=1e-6)
    assert (extra > 0).any()
    with pytest.raises(InputError, match="has no shaped rewards; overcooked"):
        purerl.make("jaxmarl/MPE_simple_spread_v3", shaped_reward=1.0)


def test_contract_and_training():
    env = purerl.make("jaxmarl/MPE_simple_spread_v3", global_state=True)
    check_environment(env, name="spread", num_steps=40, eager=False)
    config = MAPPOConfig(num_envs=2, rollout_length=8, hidden_sizes=(8,))
    trainer = make_trainer(multi_agent, env, policies_for(env, ppo, config))
    state, metrics = jax.jit(lambda key: trainer.step(trainer.init(key)))(jax.random.key(0))
    assert (
        all(jnp.isfinite(metrics.algorithm[name]) for name in ("policy_loss", "value_loss")) and state.num_updates == 1
    )


def test_what_is_refused(refused):
    assert "did you mean 'MPE_simple_tag_v3'" in refused("jaxmarl/MPE_simple_tag_v2")
    assert "num_agents is an ndarray" in refused("jaxmarl/MPE_simple_spread_v3", num_agents=np.ones(3))
