"""Classic control against Gymnasium: the same step from the same state, thousands of times."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.registry import make

STEPS = 4000
# id: (range of the injected states, endings that must have been seen)
TASKS = {
    "CartPole-v1": ([2.3, 2.0, 0.2, 2.0], {"terminated"}),
    "Acrobot-v1": ([3.1, 3.1, 6.0, 6.0], {"terminated", "truncated"}),
    "MountainCar-v0": ([0.9, 0.07], {"terminated", "truncated"}),
    "MountainCarContinuous-v0": ([0.9, 0.07], {"terminated", "truncated"}),
    "Pendulum-v1": ([3.1, 8.0], {"truncated"}),
}


LEFT_WALL = {"MountainCar-v0": [-1.2, -0.07], "MountainCarContinuous-v0": [-1.2, -0.07]}


def coordinates(state):
    return np.array(state[:-1], np.float64)


@pytest.mark.parametrize("env_id", TASKS)
def test_a_step_from_anywhere_is_gymnasiums(env_id):
    count, scale, rng = 500, np.array(TASKS[env_id][0]), np.random.default_rng(1)
    env, oracle = make(env_id), gymnasium.make(env_id, disable_env_checker=True).unwrapped
    start, _ = env.reset(jax.random.key(0))
    columns = rng.uniform(LEFT_WALL.get(env_id, -scale), scale, (count, len(scale))).astype(np.float32)
    states = type(start)(*columns.T, jnp.zeros(count, jnp.int32))
    continuous = hasattr(oracle.action_space, "low")
    actions = rng.uniform(-3.0, 3.0, (count, 1)) if continuous else rng.integers(oracle.action_space.n, size=count)
    actions = actions.astype(np.float32 if continuous else np.int32)
    _, steps = jax.jit(jax.vmap(env.step, in_axes=(None, 0, 0)))(jax.random.key(0), states, actions)
    oracle.reset(seed=0)
    for i in range(count):
        oracle.state = columns[i].astype(np.float64)
        if env_id == "CartPole-v1":
            oracle.steps_beyond_terminated = None
        observation, reward, terminated, *_ = oracle.step(actions[i] if continuous else int(actions[i]))
        np.testing.assert_allclose(steps.observation[i], observation, rtol=2e-6, atol=3e-6)
        np.testing.assert_allclose(steps.reward[i], reward, rtol=2e-6, atol=3e-6)
        assert bool(steps.terminated[i]) == terminated


@pytest.mark.long
@pytest.mark.parametrize("env_id", TASKS)
def test_equals_gymnasium_step_for_step(env_id):
    scale, expected_endings = TASKS[env_id]
    env, oracle = make(env_id), gymnasium.make(env_id, disable_env_checker=True)
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    rng, key, seen, state = np.random.default_rng(0), jax.random.key(0), set(), None
    continuous = hasattr(oracle.action_space, "low")
    for n in range(STEPS):
        if state is None:
            oracle.reset(seed=n)
            state, _ = reset(key)
            start = rng.uniform(-np.array(scale), scale).astype(np.float32)
            state = type(state)(*map(jnp.float32, start), state.time)
        oracle.unwrapped.state = coordinates(state)
        action = oracle.action_space.low * rng.uniform(-1.5, 1.5) if continuous else rng.integers(oracle.action_space.n)
        action = np.asarray(action, np.float32 if continuous else np.int32)
        state, ours = step(key, state, action)
        observation, reward, terminated, truncated, _ = oracle.step(action if continuous else int(action))
        np.testing.assert_allclose(ours.observation, observation, rtol=2e-6, atol=3e-6)
        np.testing.assert_allclose(ours.reward, reward, rtol=2e-6, atol=3e-6)
        assert bool(ours.terminated) == terminated
        assert bool(ours.truncated) == (truncated and not terminated)
        if terminated or truncated:
            seen.add("terminated" if terminated else "truncated")
            state = None
    assert expected_endings <= seen


@pytest.mark.parametrize("env_id", TASKS)
def test_starts_as_gymnasium_does(env_id):
    env, oracle = make(env_id), gymnasium.make(env_id).unwrapped
    ours = np.array(jax.vmap(env.reset)(jax.random.split(jax.random.key(1), 2000))[1])
    theirs = np.array([oracle.reset(seed=n)[0] for n in range(2000)])
    np.testing.assert_allclose(ours.min(0), theirs.min(0), atol=0.02)
    np.testing.assert_allclose(ours.max(0), theirs.max(0), atol=0.02)
    spread = (theirs.max(0) - theirs.min(0)).max()
    np.testing.assert_allclose(ours.mean(0), theirs.mean(0), atol=0.05 * spread)
    np.testing.assert_allclose(ours.std(0), theirs.std(0), rtol=0.08, atol=1e-6)


@pytest.mark.parametrize("env_id", TASKS)
def test_spaces_are_gymnasiums(env_id):
    env, oracle = make(env_id), gymnasium.make(env_id)
    assert env.observation_space.shape == oracle.observation_space.shape
    if hasattr(oracle.action_space, "n"):
        assert env.action_space.n == oracle.action_space.n
    else:
        np.testing.assert_allclose(env.action_space.low, oracle.action_space.low[0])
        np.testing.assert_allclose(env.action_space.high, oracle.action_space.high[0])
    if env_id != "CartPole-v1":  # Gymnasium bounds two of CartPole's coordinates, beyond where an episode ends
        np.testing.assert_allclose(env.observation_space.low, oracle.observation_space.low)
        np.testing.assert_allclose(env.observation_space.high, oracle.observation_space.high)


@pytest.mark.long_for("Acrobot-v1-mass_2-values1", "CartPole-v1-gravity-values0", "MountainCar-v0-force-values2")
@pytest.mark.parametrize(
    ("env_id", "name", "values"),
    [
        ("CartPole-v1", "gravity", [9.8, 20.0]),
        ("Acrobot-v1", "mass_2", [1.0, 2.0]),
        ("MountainCar-v0", "force", [0.001, 0.002]),
        ("MountainCarContinuous-v0", "power", [0.001, 0.002]),
        ("Pendulum-v1", "length", [1.0, 2.0]),
    ],
)
def test_parameters_are_used_and_can_be_vmapped(env_id, name, values, key):
    def advance(value):
        env = make(env_id, **{name: value})
        action = jnp.ones(env.action_space.struct.shape, env.action_space.struct.dtype)
        action = 2 * action if env_id == "MountainCar-v0" else action
        return env.step(key, env.reset(key)[0], action)[1].observation

    observations = jax.vmap(advance)(jnp.array(values))
    assert not np.allclose(observations[0], observations[1], atol=1e-6)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("CartPole-v1", (400, 600)),
        ("MountainCar-v0", (400, 600)),
        ("Acrobot-v1", (500, 500)),
        ("Pendulum-v1", (500, 500)),
    ],
)
def test_pictures_are_of_gymnasiums_size(name, size, key):
    """The size is its `SCREEN_DIM`, or its screen_height and screen_width, for scripts that read a fixed size."""
    env = make(name)
    assert env.render(env.reset(key)[0]).shape == (*size, 3)


def test_a_pendulum_leans_to_the_left_at_angles_above_0(key):
    """As in Gymnasium's picture: there the angle turns against the clock."""
    env = make("Pendulum-v1")
    state = env.reset(key)[0]
    dark = (env.render(state._replace(angle=jnp.float32(jnp.pi / 2))) < 250).any(axis=(0, 2))
    assert dark[130:240].all() and not dark[270:].any()
