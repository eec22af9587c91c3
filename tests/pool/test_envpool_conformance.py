"""One script, run on the real EnvPool and on ours: the same shapes, dtypes, keys, order and reset timing."""

import warnings

import numpy as np
import pytest

from purerl import pool

pytestmark = pytest.mark.suites

TASKS = ("CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1")


@pytest.fixture(scope="module")
def real():
    envpool = pytest.importorskip("envpool", reason="pip install 'purerl[envpool]'")
    warnings.filterwarnings("ignore", category=UserWarning)
    return envpool


def described(value):
    """What a program can see of a result but its numbers."""
    if isinstance(value, dict):
        return {name: described(part) for name, part in value.items()}
    if hasattr(value, "_fields"):  # dm_env's TimeStep and State
        return {"type": type(value).__name__} | {name: described(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple):
        return [described(part) for part in value]
    return type(value).__name__, value.dtype.name, value.shape, value.flags.writeable


def actions_for(space, count):
    if hasattr(space, "n"):
        return np.arange(count) % space.n
    return np.full((count, *space.shape), 0.5, np.float32)


def lasting(env, count):
    """Everything that the script can see: descriptions, and the numbers that do not depend on chance."""
    seen = [len(env), env.is_async, env.all_env_ids.tolist(), env.num_envs, env.render_mode]
    seen += [str(env.metadata["autoreset_mode"]), env.is_vector_env, env.single_action_space == env.action_space]
    seen += [env.observation_space.shape, env.observation_space.dtype.name, str(env.action_space)]

    def look(result):
        info = result[-1]
        numbers = [np.asarray(x).tolist() for x in (*result[2:-1], info["env_id"], info["elapsed_step"])]
        seen.append((described(result), numbers))

    look(env.reset())
    for _ in range(2 * 3 + 3):  # limits of 3 steps: two whole episodes
        look(env.step(actions_for(env.action_space, count)))
    some = np.array([2, 0])
    look(env.step(actions_for(env.action_space, 2), some))
    look(env.reset(some))
    look(env.reset(options={"reset_mask": np.arange(count) == 1}))
    env.send(actions_for(env.action_space, 2), np.array([1, 3]))
    look(env.recv())
    look(env.step({"action": actions_for(env.action_space, 2), "env_id": np.array([3, 1], np.int32)}))
    return seen


@pytest.mark.parametrize("task", TASKS)
def test_gymnasium_script(real, task):
    settings = {"num_envs": 4, "seed": 1, "max_episode_steps": 3, "num_threads": 1}
    theirs = lasting(real.make(task, env_type="gymnasium", **settings), 4)
    ours = lasting(pool.make(task, env_type="gymnasium", **settings), 4)
    for one, other in zip(theirs, ours, strict=True):
        assert one == other


def test_first_step_without_a_reset_resets(real):
    for make in (real.make_gymnasium, pool.make_gymnasium):
        observation, reward, terminated, truncated, info = make("CartPole-v1", num_envs=3, seed=0).step(np.ones(3, int))
        assert (info["elapsed_step"] == 0).all() and (reward == 0).all() and not (terminated | truncated).any()
        assert (np.abs(observation) <= 0.05).all()


def test_dm_script(real):
    def seen(make, **settings):
        env = make("CartPole-v1", num_envs=2, seed=0, max_episode_steps=3, **settings)
        steps = [env.reset(), *[env.step(np.array([0, 1])) for _ in range(6)]]
        specs = [described_spec(spec) for spec in (*env.observation_spec()[:1], env.observation_spec().obs)]
        numbers = [(s.step_type.tolist(), s.reward.tolist(), s.discount.tolist()) for s in steps]
        return [described(step) for step in steps], numbers, specs, described_spec(env.action_spec())

    def described_spec(spec):
        return type(spec).__name__, tuple(spec.shape), np.dtype(spec.dtype).name, spec.name

    assert seen(real.make_dm) == seen(pool.make_dm, strict_envpool=True)
    shapes, numbers, specs, action = seen(pool.make_dm)
    theirs = seen(real.make_dm)
    assert (shapes, specs, action) == (theirs[0], theirs[2], theirs[3])
    assert [discount for _, _, discount in numbers] == [[1.0, 1.0]] * 7  # a time limit is not an ending
    assert [step_type for step_type, _, _ in numbers] == [[0, 0], [1, 1], [1, 1], [2, 2], [0, 0], [1, 1], [1, 1]]


def test_what_a_dm_state_of_acrobot_holds(real):
    """The two angles as well, after the observation."""
    theirs, ours = (module.make_dm("Acrobot-v1", num_envs=2) for module in (real, pool))
    assert described(theirs.reset().observation) == described(ours.reset().observation)
    assert theirs.observation_spec()._fields == ours.observation_spec()._fields
    specs = [{k: (v.dtype, v.shape) for k, v in e.spec.state_array_spec.items()} for e in (theirs, ours)]
    assert specs[0] == specs[1] and "info:state" in specs[0]


def test_partial_batches(real):
    def seen(make):
        env = make("CartPole-v1", num_envs=6, batch_size=2, seed=0, num_threads=1)
        env.async_reset()
        found = [env.is_async]
        age = np.zeros(6, int)
        for _ in range(12):
            result = env.recv()
            ids = result[-1]["env_id"]
            assert (result[-1]["elapsed_step"] == age[ids]).all()
            age[ids] += 1
            found.append(described(result))
            env.send(np.zeros(len(ids), np.int32), ids)
        return found, sorted(age.tolist())

    assert seen(real.make_gymnasium) == seen(pool.make_gymnasium)


@pytest.mark.parametrize("make_name", ["make_gymnasium", "make_dm"])
def test_seeds(real, make_name):
    def first(module, **settings):
        result = getattr(module, make_name)("CartPole-v1", **settings).reset()
        return result[0] if make_name == "make_gymnasium" else result.observation.obs

    for module in (real, pool):
        three, four = first(module, num_envs=3, seed=3), first(module, num_envs=3, seed=4)
        np.testing.assert_array_equal(three, first(module, num_envs=3, seed=3))
        np.testing.assert_array_equal(three[1:], four[:2])
        np.testing.assert_array_equal(first(module, num_envs=3, seed=[5, 3, 5])[[1, 0, 2]][0], three[0])


def limit_steps(env, limit, steps=60):
    """(how many episodes ended by falling on the limit's step, how many were cut there), told by the physics."""
    fell_told, fell_untold = 0, 0
    env.reset()
    for _ in range(steps):
        observation, _, terminated, truncated, info = env.step(np.zeros(len(env), np.int32))
        fallen = (np.abs(observation[:, 2]) > 12 * 2 * np.pi / 360) & (info["elapsed_step"] == limit)
        fell_told += (fallen & terminated & ~truncated).sum()
        fell_untold += (fallen & truncated & ~terminated).sum()
        assert not (terminated & truncated).any()
    return fell_told, fell_untold


def test_an_ending_on_the_step_of_the_limit(real):
    settings = {"num_envs": 32, "seed": 0, "max_episode_steps": 9}
    told, untold = limit_steps(real.make_gymnasium("CartPole-v1", **settings), 9)
    assert told == 0 and untold > 10  # the defect
    told, untold = limit_steps(pool.make_gymnasium("CartPole-v1", **settings, strict_envpool=True), 9)
    assert told == 0 and untold > 10
    told, untold = limit_steps(pool.make_gymnasium("CartPole-v1", **settings), 9)
    assert told > 10 and untold == 0


def test_xla(real):
    import jax
    import jax.numpy as jnp

    def seen(make):
        env = make("CartPole-v1", num_envs=3, seed=0, max_episode_steps=3, num_threads=1)
        env.reset()
        handle, _, _, step = env.xla()
        go = lambda handle, _: step(handle, jnp.zeros(3, jnp.int32))
        handle, results = jax.lax.scan(go, handle, None, 6)
        shapes = jax.tree.map(lambda x: (x.shape, x.dtype.name), results)
        return shapes, [np.asarray(x).tolist() for x in (results[3], results[4]["elapsed_step"], results[4]["env_id"])]

    assert seen(real.make_gymnasium) == seen(pool.make_gymnasium)


def test_make_spec(real):
    theirs, ours = real.make_spec("CartPole-v1"), pool.make_spec("CartPole-v1")
    assert str(theirs.action_space) == str(ours.action_space)
    assert theirs.observation_space.shape == ours.observation_space.shape
    assert set(theirs.state_array_spec) == set(ours.state_array_spec)
    assert set(theirs.action_array_spec) == set(ours.action_array_spec)
    for name in ("num_envs", "batch_size", "seed", "max_episode_steps"):
        assert getattr(theirs.config, name) == getattr(ours.config, name)


def test_forwarded_to_the_real_one(real):
    env = pool.make("envpool/CartPole-v1", num_envs=2, seed=5)
    np.testing.assert_array_equal(env.reset()[0], real.make_gymnasium("CartPole-v1", num_envs=2, seed=5).reset()[0])
    assert type(env).__name__ == "CartPoleGymnasiumEnvPool"
    assert pool.make_spec("envpool/CartPole-v1").config.max_episode_steps == 500
    with pytest.raises(pool.InputError, match="CartPole-v1"):
        pool.make("envpool/CartPol-v1")
    with pytest.raises(pool.InputError, match="batch_size 3 is above num_envs 2"):
        pool.make("envpool/CartPole-v1", num_envs=2, batch_size=3)
    with pytest.raises(pool.InputError, match="rejects"):
        pool.make("envpool/CartPole-v1", num_envs=2, color=3)
