"""Tag on a plane against the slow one, agent by agent; every step from the same state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.drawing import RED
from purerl.envs.tag.continuous import SHOWN, TagContinuous
from tests.envs.tag.tag_reference import SlowTag

CASES = {
    "defaults": TagContinuous(tagging_distance=0.05, edge_hit_penalty=-0.3, step_penalty=-0.02, step_reward=0.01),
    "all seen": TagContinuous(
        num_taggers=3,
        num_runners=4,
        side=5.0,
        tagging_distance=0.2,
        full_observation=True,
        max_speed=0.4,
        time_limit=30,
    ),
    "in chunks, few left": TagContinuous(
        num_taggers=4, num_runners=9, side=3.0, tagging_distance=0.08, num_neighbors=10, chunk=5, runner_skill=0.8
    ),
    "nobody leaves": TagContinuous(
        num_taggers=2,
        num_runners=3,
        side=2.0,
        tagging_distance=0.1,
        runner_exits=False,
        time_limit=25,
        num_neighbors=6,
    ),
}
STEPS = 1000


def joined(by_group):
    return np.concatenate([np.asarray(by_group["taggers"]), np.asarray(by_group["runners"])])


def as_lists(state):
    return {name: np.atleast_1d(np.asarray(value)).tolist() for name, value in state._asdict().items()}


def record(env, num_steps):
    """Random play as one program: (state, action) before, (state, time step) after, and the observation acted on."""

    def step(carry, key):
        state, observation = carry
        keys = jax.random.split(key, 3)
        action = env.action_space.sample(keys[0])
        after, timestep = env.step(keys[1], state, action)
        fresh = env.reset(keys[2])
        done = timestep.terminated | timestep.truncated
        following = jax.tree.map(lambda x, y: jnp.where(done, x, y), fresh, (after, timestep.observation))
        return following, (state, observation, action, after, timestep)

    keys = jax.random.split(jax.random.key(0), num_steps + 1)
    return jax.tree.map(np.asarray, jax.jit(lambda: jax.lax.scan(step, env.reset(keys[0]), keys[1:])[1])())


@pytest.mark.optimized  # a thousand steps bring different rounding to light
@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_thousand_steps_equal_the_slow_game(name):
    env = CASES[name]
    slow, played, unsure_of = SlowTag(env), record(env, STEPS), 0
    for t in range(STEPS):
        before, observation, action, after, timestep = jax.tree.map(lambda x, t=t: x[t], played)
        expected, rewards, terminated, truncated, unsure = slow.step(as_lists(before), joined(action).tolist())
        unsure_of += len(unsure)
        found = as_lists(after)
        for i in range(slow.n):
            for part in ("x", "y", "speed", "acceleration"):
                if (part, i) not in unsure:
                    assert found[part][i] == pytest.approx(expected[part][i], abs=2e-5), (t, part, i)
            turn = (found["direction"][i] - expected["direction"][i] + np.pi) % (2 * np.pi) - np.pi
            assert abs(turn) < 1e-5
            if ("active", i) not in unsure:
                assert found["active"][i] == expected["active"][i]
            if ("reward", i) not in unsure:
                assert joined(timestep.reward)[i] == pytest.approx(rewards[i], abs=1e-5), (t, i)
        assert found["present"] == [bool(x) for x in expected["present"]]
        if not any(part == "active" for part, _ in unsure):
            assert (bool(timestep.terminated), bool(timestep.truncated)) == (terminated, truncated)
        for state, seen in ((before, observation), (after, timestep.observation)):
            state = as_lists(state)
            rows, unsure = slow.observe(state | {"time": state["time"][0]})
            unsure_of += len(unsure)
            sure = [i for i in range(slow.n) if i not in unsure]
            np.testing.assert_allclose(joined(seen)[sure], np.array(rows)[sure], atol=1e-5)
            assert joined(seen["active"]).tolist() == state["active"]
    done = played[-1].terminated | played[-1].truncated
    assert done.sum() >= 5 and (played[-1].terminated.any() or name not in ("all seen", "in chunks, few left"))
    assert played[-1].info["tags"].max() > 0
    assert unsure_of < 0.3 * STEPS * slow.n, "too much is left to rounding for the comparison to mean much"


@pytest.mark.long
def test_other_order_of_agents_same_game():
    env = TagContinuous(num_taggers=3, num_runners=5, side=3.0, tagging_distance=0.1, num_neighbors=3)
    taggers, runners = np.array([2, 0, 1]), np.array([4, 2, 0, 1, 3])
    everyone = np.concatenate([taggers, runners + 3])
    state, _ = jax.jit(env.reset)(jax.random.key(5))
    step, sample = jax.jit(env.step), jax.jit(env.action_space.sample)
    shuffle = lambda state: jax.tree.map(lambda x: x[everyone] if x.ndim else x, state)
    other, tags = shuffle(state), 0
    for t in range(20):
        key = jax.random.key(t)
        action = sample(key)
        state, one = step(key, state, action)
        other, two = step(key, other, {"taggers": action["taggers"][taggers], "runners": action["runners"][runners]})
        for group, order in (("taggers", taggers), ("runners", runners)):
            np.testing.assert_allclose(one.reward[group][order], two.reward[group], atol=1e-5)
            np.testing.assert_allclose(one.observation[group][order], two.observation[group], atol=1e-4)
            assert np.array_equal(one.observation["active"][group][order], two.observation["active"][group])
        tags = int(state.tags)
        other = shuffle(state)  # rounding depends on the order of sums
    assert tags > 0


@pytest.mark.long
def test_what_agents_see_of_themselves():
    """Asked for, it comes after everything else; who has left sees zeros there too."""
    plain, more = (TagContinuous(num_taggers=2, num_runners=3, observe_own=own) for own in (False, True))
    state, _ = jax.jit(more.reset)(jax.random.key(0))
    state = state._replace(speed=jnp.arange(5) / 8, direction=jnp.arange(5.0), present=jnp.arange(5) != 3)
    without, beside = (jax.jit(env._observation)(state) for env in (plain, more))
    for group, numbers in (("taggers", [0, 1]), ("runners", [2, 3, 4])):
        less, seen = without[group], beside[group]
        assert seen.shape[1] == more.observation_space.spaces[group].space.shape[0] == less.shape[1] + 5
        assert np.array_equal(seen[:, :-5], less)
        for i, row in zip(numbers, np.asarray(seen), strict=True):
            own = [i / 8, np.cos(i), np.sin(i), state.x[i] / 10, state.y[i] / 10]
            np.testing.assert_allclose(row[-5:], own if i != 3 else np.zeros(5), atol=1e-5)


@pytest.mark.long
def test_chunks_change_nothing():
    small = TagContinuous(num_taggers=4, num_runners=15, num_neighbors=6, chunk=7)
    state, observation = jax.jit(small.reset)(jax.random.key(0))
    whole = jax.jit(TagContinuous(num_taggers=4, num_runners=15, num_neighbors=6)._observation)(state)
    jax.tree.map(np.testing.assert_array_equal, observation, whole)


@pytest.mark.long
def test_pictures_show_trails_and_tags():
    env = TagContinuous(num_taggers=2, num_runners=3, side=2.0, tagging_distance=0.12)
    _, _, _, after, _ = record(env, 40)
    states = [jax.tree.map(lambda x, t=t: x[t], after) for t in range(40)]
    images = env.render_episode(states)
    assert len(images) == 40 and images[0].shape == images[-1].shape and images[0].dtype == np.uint8
    assert (images[4] != env.render(states[4])).any(), "a picture of one state has no trails"
    tags = [t for t in range(1, 40) if (states[t].present & ~states[t].active).any()]
    red = [bool((image == RED).all(axis=2).any()) for image in images]
    assert red == [any(0 <= t - tag < SHOWN for tag in tags) for t in range(40)] and True in red
