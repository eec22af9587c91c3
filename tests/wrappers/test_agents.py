"""Wrappers of environments of several agents."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.mappo import MAPPOConfig
from purerl.algos.ppo import PPOConfig, ppo
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.particle.spread import Spread
from purerl.envs.tag.continuous import TagContinuous
from purerl.envs.tag.grid_world import TagGridWorld
from purerl.errors import InputError
from purerl.extensions.groups.joint import multi_agent, policies_for
from purerl.loop.train import make_trainer
from purerl.testing import check_environment
from purerl.wrappers import (
    ActionMask,
    ActionRepeat,
    AgentIds,
    Cast,
    Flatten,
    FrameStack,
    PreviousActionReward,
    RecordEpisode,
    RewardClip,
    RewardScale,
)

TAG = TagContinuous(num_taggers=2, num_runners=3)
GRID = TagGridWorld(num_taggers=2)  # discrete actions, one each
GROUPS = {"runners": 1, "taggers": 2}
WRAPPERS = {
    "mask": lambda env: ActionMask(env, legal=some_legal),
    "repeat": lambda env: ActionRepeat(env, num_repeats=2),
    "ids": AgentIds,
    "cast": lambda env: Cast(env, dtype=jnp.float16),
    "flatten": lambda env: Flatten(AgentIds(env)),
    "stack": lambda env: FrameStack(env, num_frames=3),
    "previous": PreviousActionReward,
    "record": lambda env: RecordEpisode(env, max_length=4),
    "clip": lambda env: RewardClip(env, low=-0.5, high=0.5),
    "scale": lambda env: RewardScale(env, scale=3.0, shift=1.0),
}


def some_legal(state):
    return {
        group: jnp.arange(GRID.action_space.spaces[group].space.n) % (2 + jnp.arange(n)[:, None]) == 0
        for group, n in GROUPS.items()
    }


@functools.cache
def two_steps(name=None):
    """Return (first observation, the two actions, the two time steps, the last state) in a wrapper, or without."""
    env = WRAPPERS[name](GRID) if name else GRID
    actions = jax.vmap(GRID.action_space.sample)(jax.random.split(jax.random.key(1), 2))
    alone = [jax.tree.map(lambda x, i=i: x[i], actions) for i in range(2)]

    @jax.jit
    def play():
        state, first = env.reset(jax.random.key(0))
        state, one = env.step(jax.random.key(2), state, alone[0])
        state, two = env.step(jax.random.key(3), state, alone[1])
        return first, [one, two], state

    first, told, state = jax.device_get(play())
    return first, jax.device_get(alone), told, state


@pytest.mark.long
def test_every_agent_is_shown_its_number():
    env = AgentIds(TAG)

    @jax.jit
    def played():
        state, first = env.reset(jax.random.key(0))
        action = env.action_space.sample(jax.random.key(1))
        return first, *(of.step(jax.random.key(2), state, action)[1] for of in (env, TAG))

    first, step, plain = played()
    numbers = {"runners": [0, 1, 2], "taggers": [3, 4]}
    for observation in (first, step.observation):
        assert set(observation) == set(first) >= {"runners", "taggers"}
        for group, rows in numbers.items():
            np.testing.assert_array_equal(observation[group]["agent_id"], np.eye(5, dtype=np.float32)[rows])
    rest = {**step.observation, **{group: step.observation[group]["observation"] for group in numbers}}
    jax.tree.map(np.testing.assert_array_equal, rest, plain.observation)


@pytest.mark.long
@pytest.mark.parametrize("name", ["mask", "repeat", "ids", "cast", "flatten", "stack", "previous", "record"])
def test_the_contract_holds(name):
    check_environment(WRAPPERS[name](GRID))


@pytest.mark.long
def test_the_contract_holds_where_agents_leave():
    check_environment(AgentIds(TAG))


@pytest.mark.long
def test_what_each_agent_is_shown():
    plain_first, actions, plain, _ = two_steps()
    for group, n in GROUPS.items():
        seen = lambda name, step=1, group=group: two_steps(name)[2][step].observation[group]
        frames = [plain_first[group], *(step.observation[group] for step in plain)]
        np.testing.assert_allclose(seen("stack"), np.concatenate(frames, axis=-1))
        np.testing.assert_allclose(seen("stack", 0), np.concatenate([frames[0], frames[0], frames[1]], axis=-1))
        shown = seen("previous")
        np.testing.assert_array_equal(shown["observation"], frames[2])
        choices = GRID.action_space.spaces[group].space.n
        np.testing.assert_array_equal(shown["previous_action"], np.eye(choices)[actions[1][group]])
        np.testing.assert_allclose(shown["previous_reward"], plain[1].reward[group][:, None])
        flat = seen("flatten")
        assert flat.shape == (n, 3 + frames[0].shape[-1])
        np.testing.assert_allclose(flat[:, 3:], frames[2])
        assert seen("cast").dtype == jnp.float16
        np.testing.assert_array_equal(seen("mask")["action_mask"], some_legal(None)[group])


@pytest.mark.long
def test_rewards_of_groups():
    _, _, plain, _ = two_steps()
    for group in GROUPS:
        rewards = lambda name, group=group: [step.reward[group] for step in two_steps(name)[2]]
        for number, step in enumerate(plain):
            reward = step.reward[group]
            np.testing.assert_allclose(rewards("scale")[number], (reward + 1.0) * 3.0, rtol=1e-6)
            np.testing.assert_allclose(rewards("clip")[number], np.clip(reward, -0.5, 0.5))
        *_, state = two_steps("record")
        expected = np.zeros((4, GROUPS[group]))
        expected[:2] = [step.reward[group] for step in plain]
        np.testing.assert_allclose(state.outer.reward[group], expected)

    @jax.jit
    def repeated():
        key, action = jax.random.key(3), GRID.action_space.sample(jax.random.key(4))
        state, _ = GRID.reset(jax.random.key(0))
        _, both = ActionRepeat(GRID, num_repeats=2).step(key, state, action)
        total = dict.fromkeys(GROUPS, 0.0)
        for one in jax.random.split(key, 2):
            state, step = GRID.step(one, state, action)
            total = {group: total[group] + step.reward[group] for group in GROUPS}
        return both.reward, total

    jax.tree.map(lambda found, sum_: np.testing.assert_allclose(found, sum_, rtol=1e-6), *repeated())


@pytest.mark.long
@pytest.mark.parametrize(("algorithm", "config"), [(ppo, PPOConfig(num_minibatches=1)), (dqn, DQNConfig(batch_size=4))])
def test_agents_of_wrapped_groups_learn(algorithm, config):
    small = {"num_envs": 2, "rollout_length": 4, "hidden_sizes": (4,), "total_timesteps": 64}
    small |= {"learning_starts": 8, "replay_capacity": 64} if algorithm is dqn else {"num_epochs": 1}
    config = dataclasses.replace(config, **small)
    env = RewardScale(FrameStack(PreviousActionReward(GRID), num_frames=2), scale=0.1)
    trainer = make_trainer(multi_agent, env, policies_for(env, algorithm, config))
    state = jax.jit(trainer.init)(jax.random.key(0))
    before = state.agent["taggers"].params
    step = jax.jit(trainer.step)
    for _ in range(3):
        state, _ = step(state)
    after = state.agent["taggers"].params
    changed = [not np.array_equal(a, b) for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)]
    assert any(changed) and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after))


@pytest.mark.long
def test_the_policy_sees_the_number_and_so_does_a_centralized_critic():
    env = AgentIds(Spread())
    config = MAPPOConfig(num_envs=2, rollout_length=4, num_minibatches=1, num_epochs=1, hidden_sizes=(4,))
    trainer = make_trainer(multi_agent, env, policies_for(env, ppo, config))
    state = jax.jit(trainer.init)(jax.random.key(0))
    inputs = {name: state.agent["agents"].params[name] for name in ("body", "critic_body")}
    sizes = {name: max(leaf.shape[0] for leaf in jax.tree.leaves(part)) for name, part in inputs.items()}
    assert sizes == {"body": 14 + 3, "critic_body": 14 + 3 + 42}


@pytest.mark.long
def test_a_single_agent_has_no_number():
    with pytest.raises(InputError, match="AgentIds needs groups of agents; CartPole has a single agent"):
        jax.eval_shape(AgentIds(CartPole()).reset, jax.random.key(0))
