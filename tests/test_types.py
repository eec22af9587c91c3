"""The contracts: what follows from a config, a rollout and an environment."""

import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.types import Config, Environment, Rollout, TimeStep, number, pytree


def test_an_episode_is_done_for_either_reason():
    flags = jnp.array([[True, False, False]]), jnp.array([[False, True, False]])
    nothing = jnp.zeros((1, 3))
    rollout = Rollout(
        observation=nothing, action=nothing, reward=nothing, terminated=flags[0], truncated=flags[1],
        next_observation=nothing, extras=(), carry=(),
    )  # fmt: skip
    np.testing.assert_array_equal(rollout.done, [[True, True, False]])
    assert rollout.mask is None, "all steps count unless something else is said"


def test_steps_of_an_update():
    config = Config(num_envs=6, rollout_length=7)
    assert config.steps_per_update == 42 and config.samples_per_gradient == 42


@pytree
class Lamp(Environment):
    """An environment that has only what must be."""

    power: float = number(default=2.0)


@pytest.mark.long
def test_what_an_environment_may_leave_out():
    lamp = Lamp()
    state = {"light": np.float32([1.5, 2.0]), "on": np.bool_(True)}
    assert [line.split()[0] for line in lamp.render_text(state).splitlines()] == ["light", "on"]
    with pytest.raises(InputError, match="Lamp has no picture"):
        lamp.render(state)
    for call in (lambda: lamp.reset(None), lambda: lamp.step(None, state, 0), lambda: lamp.observe(state)):
        with pytest.raises(NotImplementedError):
            call()


@pytest.mark.long
def test_a_time_step_cannot_end_for_both_reasons():
    for terminated in (True, False):
        for time_up in (True, False):
            step = TimeStep.transition(jnp.zeros(1), jnp.float32(0), terminated=terminated, time_up=time_up)
            assert (bool(step.terminated), bool(step.truncated)) == (terminated, time_up and not terminated)
            assert bool(step.done) == (terminated or time_up) and step.terminated.dtype == jnp.bool_
            late = step.truncate(jnp.array(True))
            assert bool(late.truncated) == (not terminated) and bool(late.terminated) == terminated
    going = TimeStep.transition(jnp.zeros(1), jnp.float32(0))
    assert not going.done and going.info == {}
