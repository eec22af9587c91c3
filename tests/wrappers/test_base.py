"""Wrappers: each does what it says, in any order if order should not matter."""

import copy
import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl import wrappers
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.classic.pendulum import Pendulum
from purerl.errors import InputError
from purerl.host_environment import HostSource
from purerl.prng import fast
from purerl.testing import check_environment
from purerl.types import Environment
from purerl.wrappers import (
    ActionMask,
    ActionRepeat,
    Cast,
    DomainRandomization,
    Flatten,
    FrameStack,
    PreviousActionReward,
    RecordEpisode,
    RewardClip,
    RewardScale,
    StickyActions,
    TimeLimit,
)
from tests.wrappers.counter import ACTIONS, Counter, even_actions, play


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
    "redraw": DomainRandomization(Counter(), redraw=redraw_end),
}


@pytest.mark.long
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
    elsewhere = {wrappers.AgentIds, wrappers.Against, wrappers.Situations}  # test_agents.py, test_situations.py
    assert seen == classes - elsewhere


def test_numbers_may_be_vmapped():
    def ends(time_limit, scale):
        env = RewardScale(TimeLimit(Counter(), time_limit=time_limit), scale=scale)
        state, _ = env.reset(fast(jax.random.key(0)))
        _, timestep = env.step(fast(jax.random.key(0)), state, jnp.int32(0))
        return timestep.truncated, timestep.reward

    truncated, reward = jax.vmap(ends)(jnp.array([1, 2]), jnp.array([3.0, 4.0]))
    np.testing.assert_array_equal(truncated, [True, False])
    np.testing.assert_array_equal(reward, [3.0, 4.0])


@pytest.mark.long_for("limit-stack", "limit-sticky")
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


def test_wrappers_that_draw_nothing_leave_the_environment_its_numbers():
    key = fast(jax.random.key(4))
    bare, wrapped = Pendulum(), TimeLimit(RewardScale(RecordEpisode(Pendulum(), max_length=3)), time_limit=50)
    actions = jnp.zeros((4, 1))
    np.testing.assert_array_equal(play(bare, actions, key)[2].observation, play(wrapped, actions, key)[2].observation)


@pytest.mark.long
def test_what_cannot_be_wrapped_is_told():
    with pytest.raises(InputError, match=r"FrameStack needs an environment, not the text 'Catch': purerl.make"):
        FrameStack("Catch")
    with pytest.raises(InputError, match="RewardClip wraps environments in JAX, and gymnasium/Catch runs on the host"):
        RewardClip(Source())
    with pytest.raises(InputError, match="FrameStack: num_frames is 0; it must be at least 1"):
        FrameStack(CartPole(), num_frames=0)


class Source(HostSource):
    id = "gymnasium/Catch"


@pytest.mark.long
def test_an_action_has_the_name_that_the_wrapped_environment_gives():
    inside = purerl.make("pgx/tic_tac_toe")
    assert TimeLimit(inside, time_limit=20).action_text(4) == inside.action_text(4)
