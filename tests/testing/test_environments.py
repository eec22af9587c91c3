"""The suite finds each fault: one small environment, broken in one way at a time."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.spaces import Box, Dict
from purerl.testing import check_environment
from purerl.types import Environment, pytree
from tests.helpers.walk import Walk, WalkState


def replaced(change):
    """Return a step that changes the right one's results."""

    def step(self, key, state, action):
        after, taken = Walk.step(self, key, state, action)
        return change(self, state, after, taken)

    return step


def result(**fields):
    return replaced(
        lambda self, state, after, taken: (after, taken._replace(**{k: f(taken) for k, f in fields.items()}))
    )


class OtherState(NamedTuple):
    position: jax.Array
    steps: jax.Array


FIXED = np.random.default_rng(0)


FAULTS = {
    "gym's step": (
        {"step": replaced(lambda self, s, after, t: (t.observation, t.reward, t.terminated, t.truncated, {}))},
        r"step\(key, state, action\) returns a tuple of 5 .*it must return \(state, TimeStep\)",
    ),
    "reset without a state": (
        {"reset": lambda self, key: Walk.reset(self, key)[1]},
        r"reset\(key\) returns an array",
    ),
    "no reset": ({"reset": Environment.reset}, r"reset\(key\) is not implemented"),
    "no action space": ({"action_space": Environment.action_space}, "has no action_space"),
    "a space of another library": ({"action_space": property(lambda self: 2)}, "action_space is an int"),
    "dtype of a state's field": (
        {"step": replaced(lambda self, s, after, t: (after._replace(time=after.time.astype(jnp.float32)), t))},
        r"state\.time is float32\[\]; in the state from reset it is int32\[\]",
    ),
    "name of a state's field": (
        {"step": replaced(lambda self, s, after, t: (OtherState(after.position, after.time), t))},
        r"state\.steps is not in the state from reset, which has \.position, \.time",
    ),
    "shape of the observation in step": (
        {"step": result(observation=lambda t: t.observation[:1])},
        r"step.*observation is float32\[1\]; in .*observation_space it is float32\[2\]",
    ),
    "dtype of the observation in reset": (
        {"reset": lambda self, key: (Walk.reset(self, key)[0], jnp.zeros(2, jnp.int32))},
        r"reset.*observation is int32\[2\]; in .*observation_space it is float32\[2\]",
    ),
    "reward of a batch": ({"step": result(reward=lambda t: t.reward[None])}, r"reward is float32\[1\]; .* float32\[\]"),
    "reward of integers": ({"step": result(reward=lambda t: jnp.int32(1))}, r"reward is int32\[\]"),
    "flag of floats": ({"step": result(terminated=lambda t: jnp.float32(0))}, r"terminated is float32\[\]"),
    "info of words": ({"step": result(info=lambda t: {"at": jnp.zeros(3)})}, r"info\['at'\] is float32\[3\]"),
    "info without names": ({"step": result(info=lambda t: ())}, "info is a tuple"),
    "a branch on a traced number": (
        {"step": replaced(lambda self, s, after, t: (after, t) if self.length > 2 else (s, t))},
        r"asks for the value of a traced array.*test_environments\.py",
    ),
    "NumPy on a traced array": (
        {"step": result(reward=lambda t: jnp.float32(np.sin(np.asarray(t.reward))))},
        "gives a traced array to NumPy",
    ),
    "an exception": ({"step": replaced(lambda self, s, after, t: {}["x"])}, "fails: KeyError"),
    "a flag that is not a flag": ({"step": result(truncated=lambda t: t.terminated)}, "set together"),
    "observation outside": (
        {"observation_space": property(lambda self: Box(low=-1.5, high=5.0, shape=(2,)))},
        r"observation reached -[2-9].*; its space holds -1.5 \.\. 5",
    ),
    "NaN in the state": (
        {"step": replaced(lambda self, s, after, t: (after._replace(position=jnp.sqrt(after.position)), t))},
        r"state\.position became NaN",
    ),
    "infinite reward": ({"step": result(reward=lambda t: jnp.log(jnp.abs(t.reward) * 0))}, "reward became -inf"),
    "drawing from outside": (
        {"step": result(reward=lambda t: t.reward + jnp.float32(FIXED.uniform()))},
        "gave two results|differs",
    ),
    "other when compiled": (
        {"step": result(reward=lambda t: t.reward + (0.0 if isinstance(t.reward, jax.core.Tracer) else 1.0))},
        r"step 0 differs, eager against jit, in reward: ",
    ),
    "one start for all": (
        {"reset": lambda self, key: Walk.reset(self, jax.random.key(3))},
        "256 keys gave one state",
    ),
    "no end": ({"step": result(truncated=lambda t: t.truncated & False)}, "time_limit = 7 an episode continued"),
}


def broken(name, members) -> Any:
    return pytree(type(name, (Walk,), {"__annotations__": {}, **members}))()


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named(fault):
    members, message = FAULTS[fault]
    with pytest.raises(InputError, match=message) as caught:
        check_environment(broken("Broken", members), num_steps=32)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("Broken")


def test_a_sound_environment_passes():
    report = check_environment(Walk(), num_steps=32)
    assert report.subject == "Walk"
    assert {"jit = eager = vmap", "resets differ between keys"} <= {check.name for check in report.checks}
    assert "20 steps" in str(report)
    assert report.figures["bytes per observation"] == "8"


@pytest.mark.long
def test_a_class_that_is_no_pytree():
    class Plain(Walk.__base__):
        reset, step = Walk.reset, Walk.step
        observation_space, action_space = Walk.observation_space, Walk.action_space

    with pytest.raises(InputError, match="Plain is not a pytree"):
        check_environment(Plain())


@pytest.mark.long
def test_a_field_that_is_no_number():
    with pytest.raises(InputError, match=r"Walk\.length is a str; declare what is not a number with static"):
        check_environment(Walk(length="long"))  # type: ignore[arg-type]


@pytest.mark.long
def test_starts_may_be_equal_where_reset_draws_nothing_or_it_is_declared():
    still = broken("Still", {"reset": lambda self, key: Walk.reset(self, jax.random.key(3))})
    assert "as declared" in str(check_environment(still, num_steps=8, same_start=True, eager=False))

    def reset(self, key):
        nothing = jax.random.uniform(key, (0,))
        state = WalkState(jnp.sum(nothing), jnp.int32(0))
        return state, self.observe(state)

    assert "reset uses no randomness" in str(
        check_environment(broken("Plain", {"reset": reset}), num_steps=8, eager=False)
    )


@pytest.mark.long
def test_masks_are_respected_and_held_to():
    """Action 1 is never legal; taking it would put NaN into the state."""

    def observe(self, state):
        return {"observation": state.position[None], "action_mask": jnp.array([True, False])}

    def step(self, key, state, action):
        after, taken = Walk.step(self, key, state, action)
        return after._replace(position=jnp.where(action == 1, jnp.nan, after.position)), taken

    spaces = {
        "observation": Box(low=-5.0, high=5.0, shape=(1,)),
        "action_mask": Box(low=0, high=1, shape=(2,), dtype=bool),
    }
    space = property(lambda self: Dict(spaces=spaces))
    members = {"observe": observe, "observation_space": space, "step": step}
    check_environment(broken("Masked", members), num_steps=16, eager=False)
    members["observe"] = lambda self, state: observe(self, state) | {"action_mask": jnp.zeros(2, bool)}
    with pytest.raises(InputError, match=r"observation\['action_mask'\] allowed no action"):
        check_environment(broken("Masked", members), num_steps=16, eager=False)
