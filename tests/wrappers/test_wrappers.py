"""Wrappers: each against what it says, in any order where order should not matter."""

import copy
import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import wrappers
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.classic.pendulum import Pendulum
from purerl.errors import InputError
from purerl.prng import fast
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete
from purerl.testing import check_environment
from purerl.types import Environment, TimeStep, number, pytree
from purerl.wrappers import (
    ActionMask,
    ActionRepeat,
    Cast,
    Flatten,
    FrameStack,
    PreviousActionReward,
    RecordEpisode,
    Redraw,
    RewardClip,
    RewardScale,
    StickyActions,
    TimeLimit,
)


@pytree
class Counter(Environment):
    """Counts; the observation is (count, last action), the reward the count, the end at `end`. Knows no chance."""

    end: int = number(default=7)

    def reset(self, key):
        state = jnp.zeros(2, jnp.int32)
        return state, state.astype(jnp.float32)

    def step(self, key, state, action):
        state = jnp.stack([state[0] + 1, action])
        done = state[0] >= self.end
        reward = state[0].astype(jnp.float32)
        return state, TimeStep(state.astype(jnp.float32), reward, done, jnp.array(False), {})

    @property
    def observation_space(self):
        return Box(low=0, high=np.array([9, 4], np.float32), shape=(2,))

    @property
    def action_space(self):
        return Discrete(n=5)


@pytree
class Parts(Environment):
    """An observation of every kind of space, and a mask."""

    def reset(self, key):
        return jnp.int32(1), self._observe(jnp.int32(1))

    def step(self, key, state, action):
        return state, TimeStep(self._observe(state), jnp.float32(0), jnp.array(False), jnp.array(False), {})

    def _observe(self, state):
        return {
            "picture": jnp.full((2, 2, 1), 200, jnp.uint8),
            "which": jnp.int32(2),
            "pair": jnp.array([1, 0], jnp.int32),
            "action_mask": jnp.array([True, False, True]),
        }

    @property
    def observation_space(self):
        return Dict(
            spaces={
                "picture": Box(low=0, high=255, shape=(2, 2, 1), dtype=jnp.uint8),
                "which": Discrete(n=3),
                "pair": MultiDiscrete(nvec=(2, 3)),
                "action_mask": Box(low=0, high=1, shape=(3,), dtype=jnp.bool_),
            }
        )

    @property
    def action_space(self):
        return Discrete(n=3)


def even_actions(state):
    return jnp.arange(5) % 2 == 0


def play(env, actions, key=None):
    """Return (first observation, time steps) under these actions, past endings too."""
    key = fast(jax.random.key(0)) if key is None else key

    @jax.jit
    def run(env):
        key_reset, key_run = jax.random.split(key)
        state, observation = env.reset(key_reset)

        def step(state, xs):
            state, timestep = env.step(xs[0], state, xs[1])
            return state, timestep

        state, timestep = jax.lax.scan(step, state, (jax.random.split(key_run, len(actions)), actions))
        return state, observation, timestep

    return jax.device_get(run(env))


ACTIONS = jnp.array([1, 2, 3, 4, 1, 2, 3, 4], jnp.int32)


def test_time_limit_truncates_but_not_what_terminates():
    _, _, timestep = play(TimeLimit(Counter(end=5), time_limit=3), ACTIONS)
    np.testing.assert_array_equal(np.flatnonzero(timestep.truncated), [2, 3])
    np.testing.assert_array_equal(np.flatnonzero(timestep.terminated), [4, 5, 6, 7])
    assert not (timestep.truncated & timestep.terminated).any()


def test_frame_stack_shows_the_last_frames():
    env = FrameStack(Counter(), num_frames=3)
    _, first, timestep = play(env, ACTIONS)
    np.testing.assert_array_equal(first, np.zeros(6))
    np.testing.assert_array_equal(timestep.observation[0], [0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(timestep.observation[4], [3, 3, 4, 4, 5, 1])
    np.testing.assert_array_equal(np.broadcast_to(env.observation_space.high, (6,)), [9, 4] * 3)
    with pytest.raises(InputError, match="FrameStack takes observations in a Box, not in a Discrete"):
        _ = FrameStack(Parts(), num_frames=2).observation_space


def test_flatten_puts_all_parts_in_a_row():
    env = Flatten(Parts())
    _, first, timestep = play(env, ACTIONS[:2])
    # pair (1, 0) as one-hot of 2 and of 3, then the picture, then which = 2 of 3: names in alphabetical order.
    expected = [0, 1, 1, 0, 0, 200, 200, 200, 200, 0, 0, 1]
    np.testing.assert_array_equal(first["observation"], expected)
    np.testing.assert_array_equal(timestep.observation["observation"], [expected] * 2)
    np.testing.assert_array_equal(first["action_mask"], [True, False, True])
    space = env.observation_space.spaces["observation"]
    np.testing.assert_array_equal(space.high, [1] * 5 + [255] * 4 + [1] * 3)
    assert bool(env.observation_space.contains(first))


def test_sticky_actions_repeat_as_often_as_they_should():
    actions = jnp.tile(ACTIONS, 500)
    _, _, timestep = play(StickyActions(Counter(), probability=0.25), actions)
    done, given = timestep.observation[:, 1].astype(int), np.asarray(actions)
    before = np.concatenate([[0], done[:-1]])
    assert ((done == given) | (done == before)).all()
    free = given != before
    assert abs((done[free] != given[free]).mean() - 0.25) < 0.035
    _, _, never = play(StickyActions(Counter(), probability=0.0), actions)
    np.testing.assert_array_equal(never.observation[:, 1], given)
    _, _, always = play(StickyActions(Counter(), probability=1.0), actions)
    assert (always.observation[:, 1] == 0).all()


def test_action_repeat_adds_rewards_up_to_the_end():
    _, _, timestep = play(ActionRepeat(Counter(end=7), num_repeats=3), ACTIONS[:3])
    np.testing.assert_array_equal(timestep.reward, [1 + 2 + 3, 4 + 5 + 6, 7])
    np.testing.assert_array_equal(timestep.observation[:, 0], [3, 6, 7])
    np.testing.assert_array_equal(timestep.terminated, [False, False, True])


def test_rewards_are_scaled_and_clipped():
    _, _, timestep = play(RewardScale(Counter(), scale=0.5, shift=-2.0), ACTIONS)
    np.testing.assert_allclose(timestep.reward, (np.arange(1, 9) - 2) * 0.5)
    _, _, timestep = play(RewardClip(Counter(), low=2.0, high=5.0), ACTIONS)
    np.testing.assert_array_equal(timestep.reward, [2, 2, 3, 4, 5, 5, 5, 5])


def test_previous_action_and_reward_are_shown():
    env = PreviousActionReward(Counter())
    _, first, timestep = play(env, ACTIONS)
    np.testing.assert_array_equal(first["previous_action"], np.zeros(5))
    np.testing.assert_array_equal(first["previous_reward"], [0])
    np.testing.assert_array_equal(timestep.observation["previous_action"].argmax(-1), ACTIONS)
    np.testing.assert_array_equal(timestep.observation["previous_action"].sum(-1), np.ones(8))
    np.testing.assert_array_equal(timestep.observation["previous_reward"][:, 0], timestep.reward)
    _, flat, _ = play(Flatten(env), ACTIONS)
    assert flat.shape == (2 + 5 + 1,)
    _, masked, _ = play(PreviousActionReward(Parts()), ACTIONS[:2] % 3)
    assert set(masked) == {"observation", "previous_action", "previous_reward", "action_mask"}
    assert set(masked["observation"]) == {"picture", "which", "pair"}


def test_action_mask_is_shown_and_narrowed():
    _, first, timestep = play(ActionMask(Counter(), legal=even_actions), ACTIONS)
    np.testing.assert_array_equal(first["action_mask"], [True, False, True, False, True])
    np.testing.assert_array_equal(timestep.observation["observation"][:, 1], ACTIONS)
    only_first = ActionMask(ActionMask(Counter(), legal=even_actions), legal=lambda state: jnp.arange(5) < 2)
    np.testing.assert_array_equal(play(only_first, ACTIONS)[1]["action_mask"], [True, False, False, False, False])
    with pytest.raises(InputError, match="ActionMask takes discrete actions, not a Box"):
        _ = ActionMask(Pendulum(), legal=even_actions).observation_space


def test_cast_changes_boxes_alone():
    env = Cast(Parts(), dtype=jnp.float16)
    _, first, _ = play(env, ACTIONS[:1])
    assert first["picture"].dtype == np.float16 and first["which"].dtype == np.int32
    assert first["action_mask"].dtype == np.bool_
    assert bool(env.observation_space.contains(first))


def test_record_keeps_the_episode():
    state, _, timestep = play(RecordEpisode(Counter(), max_length=5), ACTIONS)
    record = state.own
    np.testing.assert_array_equal(record.observation[:, 0], [0, 1, 2, 3, 4, 5])
    np.testing.assert_array_equal(record.action, ACTIONS[:5])
    np.testing.assert_array_equal(record.reward, timestep.reward[:5])
    assert record.length == 8


def redraw_end(key, env):
    return dataclasses.replace(env, end=jax.random.randint(key, (), 1, 5))


WRAPPED = {
    "time limit": TimeLimit(CartPole(), time_limit=9),
    "frame stack": FrameStack(CartPole(), num_frames=3),
    "flatten": Flatten(PreviousActionReward(CartPole())),
    "sticky actions": StickyActions(Pendulum(), probability=0.25),
    "action repeat": ActionRepeat(CartPole(), num_repeats=2),
    "reward scale": RewardClip(RewardScale(Pendulum(), scale=0.1)),
    "previous action and reward": PreviousActionReward(Pendulum()),
    "action mask": ActionMask(Counter(), legal=even_actions),
    "cast": Cast(CartPole(), dtype=jnp.float16),
    "record": RecordEpisode(CartPole(), max_length=4),
    "redraw": Redraw(Counter(), redraw=redraw_end),
}


@pytest.mark.parametrize("name", ["flatten", "sticky actions", "action mask", "record", "redraw"])
def test_a_wrapped_environment_keeps_the_contract(name):
    check_environment(WRAPPED[name])


@pytest.mark.parametrize("name", WRAPPED)
def test_wrappers_are_data(name):
    env = WRAPPED[name]
    for copied in (copy.deepcopy(env), pickle.loads(pickle.dumps(env)), jax.tree.map(lambda x: x, env)):
        assert copied == env
        assert jax.tree.structure(copied) == jax.tree.structure(env)
    assert type(env.unwrapped) in (CartPole, Pendulum, Counter)


def test_every_wrapper_is_tested():
    public = {getattr(wrappers, name) for name in wrappers.__all__}
    classes = {x for x in public if isinstance(x, type) and issubclass(x, Environment)} - {wrappers.Wrapper}
    seen = set()
    for env in WRAPPED.values():
        while isinstance(env, wrappers.Wrapper):
            seen.add(type(env))
            env = env.env
    assert seen == classes


def test_numbers_may_be_vmapped():
    def ends(time_limit, scale):
        env = RewardScale(TimeLimit(Counter(), time_limit=time_limit), scale=scale)
        state, _ = env.reset(fast(jax.random.key(0)))
        _, timestep = env.step(fast(jax.random.key(0)), state, jnp.int32(0))
        return timestep.truncated, timestep.reward

    truncated, reward = jax.vmap(ends)(jnp.array([1, 2]), jnp.array([3.0, 4.0]))
    np.testing.assert_array_equal(truncated, [True, False])
    np.testing.assert_array_equal(reward, [3.0, 4.0])


@pytest.mark.parametrize(
    "one, two",
    [
        (lambda e: TimeLimit(e, time_limit=4), lambda e: FrameStack(e, num_frames=2)),
        (lambda e: TimeLimit(e, time_limit=4), lambda e: RewardScale(e, scale=0.5)),
        (lambda e: TimeLimit(e, time_limit=4), lambda e: StickyActions(e, probability=0.5)),
        (lambda e: FrameStack(e, num_frames=2), lambda e: StickyActions(e, probability=0.5)),
        (lambda e: FrameStack(e, num_frames=2), lambda e: RewardClip(e, high=3.0)),
        (lambda e: Cast(e, dtype=jnp.float16), lambda e: FrameStack(e, num_frames=2)),
        (lambda e: ActionMask(e, legal=even_actions), lambda e: RewardScale(e, shift=1.0)),
    ],
    ids=["limit-stack", "limit-scale", "limit-sticky", "stack-sticky", "stack-clip", "cast-stack", "mask-scale"],
)
def test_order_does_not_matter_where_it_should_not(one, two):
    _, first, timestep = play(one(two(Counter())), ACTIONS)
    _, other_first, other_taken = play(two(one(Counter())), ACTIONS)
    for x, y in zip(jax.tree.leaves((first, timestep)), jax.tree.leaves((other_first, other_taken)), strict=True):
        np.testing.assert_array_equal(x, y)


def test_bounds_may_be_traced():
    @jax.jit
    def high(speed):
        env = Flatten(PreviousActionReward(FrameStack(Pendulum(max_velocity=speed), num_frames=2)))
        return env.observation_space.high

    np.testing.assert_array_equal(high(5.0)[:6], [1, 1, 5, 1, 1, 5])


def test_wrappers_that_draw_nothing_leave_the_environment_its_numbers():
    key = fast(jax.random.key(4))
    bare, wrapped = Pendulum(), TimeLimit(RewardScale(RecordEpisode(Pendulum(), max_length=3)), time_limit=50)
    actions = jnp.zeros((4, 1))
    np.testing.assert_array_equal(play(bare, actions, key)[2].observation, play(wrapped, actions, key)[2].observation)
