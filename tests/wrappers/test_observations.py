"""Wrappers of observations."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.classic.pendulum import Pendulum
from purerl.errors import InputError
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete
from purerl.types import Environment, TimeStep, number, pytree
from purerl.wrappers import (
    ActionMask,
    Cast,
    Flatten,
    FrameStack,
    PreviousActionReward,
)
from tests.wrappers.counter import ACTIONS, Counter, even_actions, play


@pytree
class Parts(Environment):
    """An observation of every kind of space, and a mask."""

    def reset(self, key):
        return jnp.int32(1), self._observe(jnp.int32(1))

    def step(self, key, state, action):
        return state, TimeStep.transition(self._observe(state), jnp.float32(0))

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


def test_frame_stack_shows_the_last_frames():
    env = FrameStack(Counter(), num_frames=3)
    _, first, timestep = play(env, ACTIONS)
    np.testing.assert_array_equal(first, np.zeros(6))
    np.testing.assert_array_equal(timestep.observation[0], [0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(timestep.observation[4], [3, 3, 4, 4, 5, 1])
    np.testing.assert_array_equal(np.broadcast_to(env.observation_space.high, (6,)), [9, 4] * 3)
    with pytest.raises(InputError, match="FrameStack needs observations in a Box, not in a Discrete"):
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
    with pytest.raises(InputError, match="ActionMask needs discrete actions, not a Box"):
        _ = ActionMask(Pendulum(), legal=even_actions).observation_space


def test_cast_changes_boxes_alone():
    env = Cast(Parts(), dtype=jnp.float16)
    _, first, _ = play(env, ACTIONS[:1])
    assert first["picture"].dtype == np.float16 and first["which"].dtype == np.int32
    assert first["action_mask"].dtype == np.bool_
    assert bool(env.observation_space.contains(first))


def test_bounds_may_be_traced():
    @jax.jit
    def high(speed):
        env = Flatten(PreviousActionReward(FrameStack(Pendulum(max_velocity=speed), num_frames=2)))
        return env.observation_space.high

    np.testing.assert_array_equal(high(5.0)[:6], [1, 1, 5, 1, 1, 5])


@pytree
class WithGlobalState(Environment):
    """Shows a global state, which only a critic may see, next to its observation."""

    def reset(self, key):
        return jnp.int32(0), {"state": jnp.ones(3), "global_state": jnp.full(5, 7.0)}

    def step(self, key, state, action):
        return state, TimeStep.transition(self.reset(key)[1], jnp.float32(0))

    @property
    def observation_space(self):
        box = lambda n: Box(low=-9.0, high=9.0, shape=(n,))
        return Dict(spaces={"state": box(3), "global_state": box(5)})

    @property
    def action_space(self):
        return Discrete(n=2)


@pytest.mark.parametrize(
    "wrap", [Flatten, PreviousActionReward, FrameStack, Cast, lambda env: Flatten(PreviousActionReward(env))]
)
def test_a_global_state_stays_beside_what_the_agent_sees(wrap, key):
    """At the top, where networks leave it out, and as it is."""
    env = wrap(WithGlobalState())
    state, observation = env.reset(key)
    for seen in (observation, env.step(key, state, jnp.int32(1))[1].observation):
        assert env.observation_space.contains(seen)
        np.testing.assert_array_equal(seen["global_state"], np.full(5, 7.0))
        assert 7.0 not in np.concatenate([np.ravel(x) for x in jax.tree.leaves(seen | {"global_state": ()})])


@pytree
class Nested(WithGlobalState):
    """Shows a mask next to an observation that is itself a dict."""

    mask: Any = number(default=(True, True))

    def reset(self, key):
        return jnp.int32(0), {"observation": {"state": jnp.ones(3)}, "action_mask": jnp.asarray(self.mask)}

    @property
    def observation_space(self):
        inner = Dict(spaces={"state": Box(low=-9.0, high=9.0, shape=(3,))})
        return Dict(spaces={"observation": inner, "action_mask": Box(low=0, high=1, shape=(2,), dtype=jnp.bool_)})


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_mask_of_numbers_is_narrowed_to_flags(dtype, key):
    mask = jnp.array([2, 0]).astype(dtype)
    shown = ActionMask(Nested(mask=mask), legal=lambda state: jnp.array([True, True])).reset(key)[1]["action_mask"]
    assert shown.dtype == np.bool_ and shown.tolist() == [True, False]


@pytest.mark.long_for("Cast", "FrameStack")
@pytest.mark.parametrize("wrap", [Flatten, PreviousActionReward, FrameStack, Cast])
def test_spaces_of_nested_observations(wrap, key):
    env = wrap(Nested())
    assert env.observation_space.contains(env.reset(key)[1])
