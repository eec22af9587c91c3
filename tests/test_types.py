"""The contracts: what follows from a config, a rollout and an environment."""

import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.types import Config, Environment, Rollout, number, pytree


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


def test_what_an_environment_may_leave_out():
    lamp = Lamp()
    assert lamp.for_self_play() is lamp
    state = {"light": np.float32([1.5, 2.0]), "on": np.bool_(True)}
    assert [line.split()[0] for line in lamp.render_text(state).splitlines()] == ["light", "on"]
    with pytest.raises(InputError, match="Lamp has no picture"):
        lamp.render(state)
    for call in (lambda: lamp.reset(None), lambda: lamp.step(None, state, 0), lambda: lamp.observe(state)):
        with pytest.raises(NotImplementedError):
            call()


def test_one_agent_of_a_group_sees_its_row():
    class Two(Lamp):
        def observe(self, state):
            return {"birds": jnp.stack([state, 10 * state])}

    seen = pytree(Two)().observe_agent(jnp.array([1.0, 2.0]), "birds", jnp.int32(1))
    np.testing.assert_array_equal(seen, [10.0, 20.0])
