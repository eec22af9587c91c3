"""brax's environments step as brax says, start afresh, and distinguish truncation from termination."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brax import envs

import purerl
from purerl.errors import InputError
from purerl.prng import fast
from tests.helpers import suites

pytestmark = pytest.mark.suites


def compare(side_by_side, name, steps, limit, num_envs=4, **options):
    env = purerl.make(f"brax/{name}", time_limit=limit, **options)
    out = side_by_side(env, *suites.brax(name, limit, **options), num_envs=num_envs, steps=steps)
    assert out.ours.truncated.nonzero()[1].min() == limit - 1, "truncated by the time limit, not before"
    return out


def test_the_light_one(side_by_side):
    out = compare(side_by_side, "fast", steps=12, limit=10)
    assert out.ours.truncated[:, 9].all()


def test_a_swimmer_swims():
    """Its fluid needs an argument of `clip` that JAX dropped."""
    env = purerl.make("brax/swimmer")
    state, _ = jax.eval_shape(env.reset, jax.random.key(0))
    _, step = jax.eval_shape(env.step, jax.random.key(0), state, jnp.zeros(2))
    assert step.observation.shape == env.observation_space.shape == (8,)


def test_inverted_pendulum_on_spring(side_by_side):
    # half of the poles stand for 18 steps: some of the 16 fall and some are truncated, however a machine rounds
    out = compare(side_by_side, "inverted_pendulum", steps=20, limit=18, num_envs=16, backend="spring")
    assert out.ours.terminated[out.running].any(), "a pole that falls has ended, not run out of time"
    assert len(np.unique(out.first, axis=0)) == 16, "every episode has a start of its own"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "backend"),
    [("reacher", "generalized"), ("ant", "spring"), ("hopper", "positional"), ("inverted_pendulum", "mjx")],
)
def test_other_tasks_and_backends(name, backend, side_by_side):
    out = compare(side_by_side, name, steps=12, limit=10, backend=backend)
    assert len(np.unique(out.first, axis=0)) == 4


def test_spaces_and_metrics(key):
    env = purerl.make("brax/ant", backend="spring")
    assert env.observation_space.shape == (27,)
    assert (env.action_space.low, env.action_space.high, env.action_space.shape) == (-1.0, 1.0, (8,))
    state, _ = jax.eval_shape(env.reset, fast(key))
    step = jax.eval_shape(env.step, key, state, jnp.zeros(8))[1]
    assert {"x_velocity", "reward_survive"} <= set(step.info)
    assert env.time_limit == 1000
    wider = purerl.make("brax/ant", exclude_current_positions_from_observation=False)
    assert wider.observation_space.shape == (29,)


def test_what_is_refused(refused):
    assert "did you mean 'ant'" in refused("brax/antt")
    assert "did you mean 'backend'" in refused("brax/ant", bakend="spring")
    assert "did you mean 'spring'" in refused("brax/ant", backend="sprin")
    assert "time_limit" in refused("brax/ant", time_limit=0)
    assert "backend" in refused("brax/fast", backend="spring"), "it has no physics"
    assert "cannot be made" in refused("brax/ant", use_contact_forces=True)


def test_names_are_those_of_brax():
    from purerl.envs.adapters.brax import names

    assert {"ant", "halfcheetah", "humanoid", "reacher", "walker2d"} <= set(names())


def test_the_user_s_folder_stays_empty(tmp_path, monkeypatch):
    """MuJoCo has a warning for the models of some tasks."""
    from purerl.envs.adapters import brax

    monkeypatch.chdir(tmp_path)
    brax._build.__wrapped__("hopper", ())
    assert not list(tmp_path.iterdir())


def test_an_object_of_the_users_steps_as_the_named_one():
    given, named = (
        purerl.from_brax(envs.get_environment("fast"), time_limit=10),
        purerl.make("brax/fast", time_limit=10),
    )
    assert (given.observation_space, given.action_space) == (named.observation_space, named.action_space)
    seen = [env.step(jax.random.key(1), env.reset(jax.random.key(0))[0], jnp.ones(1))[1] for env in (given, named)]
    jax.tree.map(np.testing.assert_array_equal, *seen)
    with pytest.raises(InputError, match=r"has brax's AutoResetWrapper; pass env\.unwrapped"):
        purerl.from_brax(envs.create("fast"))
