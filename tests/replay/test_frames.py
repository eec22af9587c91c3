"""Stacked frames that a replay keeps once, against stacks that were kept whole."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerl import make, make_train
from purerl.algos.dqn import DQNConfig, dqn
from purerl.prng import fast
from purerl.replay import frames, prioritized, storage, uniform
from purerl.replay.sequence_storage import SequenceSizes, nbytes
from purerl.replay.sequences import sequences
from purerl.replay.transitions import gather as gather_transitions
from purerl.spaces import Box, Dict, Discrete
from purerl.types import EnvironmentSpec, Rollout
from purerl.wrappers import ActionRepeat, FrameStack

DEPTH, LENGTH, NUM_ENVS, CAPACITY, DISCOUNT = 3, 3, 2, 14, 0.9


def spec(stack):
    seen = Box(low=0, high=30_000, shape=(2 * DEPTH,), dtype=jnp.int32, stack=stack)
    return EnvironmentSpec(Dict(spaces={"seen": seen, "other": Box(low=0, high=1, dtype=jnp.int32)}), Discrete(n=3))


SPEC, WHOLE = spec(DEPTH), spec(1)
STACKS = uniform.stacks(SPEC)
add = {True: jax.jit(lambda s, r: storage.add(s, r, STACKS)), False: jax.jit(storage.add)}
gather = {
    True: jax.jit(lambda s, at, n: gather_transitions(s, at, 1.0, DISCOUNT, n, depth=STACKS), static_argnums=2),
    False: jax.jit(lambda s, at, n: gather_transitions(s, at, 1.0, DISCOUNT, n), static_argnums=2),
}


class Player:
    """Environments whose frames are (number, environment), shown as stacks that begin with the first frame repeated."""

    def __init__(self):
        self.next = 1
        self.shown = [self.fresh(env) for env in range(NUM_ENVS)]
        self.over = [False] * NUM_ENVS

    def frame(self, env):
        self.next += 1
        return [self.next, env]

    def fresh(self, env):
        return self.frame(env) * DEPTH

    def play(self, ends):
        """Return a rollout; ends: 0 going, 1 terminated, 2 truncated, 3 a step after an ending that does not count."""
        ends = ends.copy()
        before, after = np.zeros((2, LENGTH, NUM_ENVS, 2 * DEPTH), np.int32)
        for t in range(LENGTH):
            for env in range(NUM_ENVS):
                before[t, env] = self.shown[env]
                if ends[t, env] == 3 and self.over[env]:
                    after[t, env] = self.shown[env]
                    continue
                ends[t, env] %= 3
                self.over[env] = ends[t, env] > 0
                self.shown[env] = [*self.shown[env][2:], *self.frame(env)]
                after[t, env] = self.shown[env]
                if ends[t, env]:
                    self.shown[env] = self.fresh(env)
        show = lambda stacks: {"seen": jnp.asarray(stacks), "other": jnp.asarray(stacks[..., -2] % 2)}
        action = jnp.asarray(before[..., -2] % 3)
        flags = (jnp.asarray(ends == 1), jnp.asarray(ends == 2))
        reward = jnp.asarray(before[..., -2] % 7, jnp.float32)
        return Rollout(show(before), action, reward, *flags, show(after), (), (), jnp.asarray(ends != 3))


def found(state, deduplicated, n_step):
    """Every transition that can be drawn, by the newest frame of its observation."""
    places = jnp.arange(state.flag.size, dtype=jnp.int32)
    batch = jax.tree.map(np.asarray, gather[deduplicated](state, places, n_step))
    rows = {}
    for i in np.flatnonzero(batch.weight):
        after = batch.next_observation["seen"][i].tolist() if batch.discount[i] else None
        seen = (batch.observation["seen"][i].tolist(), int(batch.observation["other"][i]))
        rows[seen[0][-2]] = (*seen, int(batch.action[i]), round(float(batch.reward[i]), 3), after)
    return rows


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([0, 0, 0, 0, 1, 2, 3]), min_size=6, max_size=6), min_size=1, max_size=12),
    st.sampled_from([1, 3]),
)
def test_stacks_are_those_that_were_seen(rollouts, n_step):
    """What is kept whole is the oracle; frames kept once give the same, and no transition less."""
    player = Player()
    once, whole = storage.create(SPEC, CAPACITY, NUM_ENVS), storage.create(WHOLE, CAPACITY, NUM_ENVS)
    everything = {}
    for ends in rollouts:
        rollout = player.play(np.array(ends).reshape(LENGTH, NUM_ENVS))
        once, whole = add[True](once, rollout), add[False](whole, rollout)
        everything |= found(whole, False, n_step)
        mine, theirs = found(once, True, n_step), found(whole, False, n_step)
        assert theirs.keys() <= mine.keys()
        assert all(mine[frame] == everything[frame] for frame in mine)


def test_memory_is_that_of_the_frames():
    image = Box(low=0, high=255, shape=(20, 20, 4), dtype=jnp.uint8, stack=4)
    deep = EnvironmentSpec(image, Discrete(n=3))
    flat = EnvironmentSpec(Box(low=0, high=255, shape=(20, 20, 4), dtype=jnp.uint8), Discrete(n=3))
    held = storage.nbytes(deep, 10_000, 10)
    assert held < 0.26 * storage.nbytes(flat, 10_000, 10)
    state = jax.eval_shape(lambda: storage.create(deep, 10_000, 10))
    assert abs(sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state)) - held) < 100


@pytest.mark.long
def test_prioritized_draws_find_whole_stacks_only():
    memory = prioritized.prioritized(SPEC, 40, NUM_ENVS, 40)
    player, rng = Player(), np.random.default_rng(0)
    state, whole = memory.init(), storage.create(WHOLE, 400, NUM_ENVS)
    for _ in range(30):
        rollout = player.play(rng.choice([0, 0, 0, 1, 2], size=(LENGTH, NUM_ENVS)))
        state, whole = jax.jit(memory.add)(state, rollout), add[False](whole, rollout)
    everything = found(whole, False, 1)
    batch = jax.tree.map(np.asarray, jax.jit(memory.sample)(state, fast(jax.random.key(0))))
    assert (batch.weight > 0).all()
    for seen, after, discount in zip(
        batch.observation["seen"].tolist(), batch.next_observation["seen"].tolist(), batch.discount, strict=True
    ):
        expected = everything[seen[-2]]
        assert seen == expected[0] and (discount == 0 or after == expected[-1])


@pytest.mark.long
def test_drawn_sequences_show_the_stacks_that_were_seen():
    """Frames kept once against stacks kept whole, at every step that counts; chunks begin in the midst of episodes."""
    sizes, memory = SequenceSizes(capacity=24, num_envs=NUM_ENVS, chunk=LENGTH, burn_in=3, train=3), jnp.zeros((2, 1))
    once, whole = (sequences(each, sizes, memory, 8) for each in (SPEC, WHOLE))
    steps = [(jax.jit(held.add), jax.jit(held.sample)) for held in (once, whole)]
    states, player, rng = [once.init(), whole.init()], Player(), np.random.default_rng(0)
    compared = 0
    for turn in range(12):
        rollout = player.play(rng.choice([0, 0, 0, 1, 2, 3], size=(LENGTH, NUM_ENVS)))
        error = jnp.asarray(rng.uniform(size=(LENGTH, NUM_ENVS)), jnp.float32)
        rollout = rollout._replace(extras={"td_error": error, "known": jnp.ones(error.shape, jnp.bool_)}, carry=memory)
        states = [put(state, rollout) for (put, _), state in zip(steps, states, strict=True)]
        if turn < 2:
            continue
        mine, theirs = (draw(state, jax.random.key(turn)) for (_, draw), state in zip(steps, states, strict=True))
        np.testing.assert_array_equal(mine.start, theirs.start)
        for name in ("seen", "other"):
            shown = [np.asarray(batch.observation[name])[np.asarray(mine.mask)] for batch in (mine, theirs)]
            np.testing.assert_array_equal(*shown)
            np.testing.assert_array_equal(mine.successor[name], theirs.successor[name])
        compared += int(mine.mask.sum())
    assert compared > 300
    image = Box(low=0, high=255, shape=(20, 20, 4), dtype=jnp.uint8, stack=4)
    deep, flat = (EnvironmentSpec(space, Discrete(n=3)) for space in (image, dataclasses.replace(image, stack=1)))
    long = SequenceSizes(capacity=8000, num_envs=2, chunk=40, burn_in=40, train=80)
    assert nbytes(deep, long, memory) < 0.31 * nbytes(flat, long, memory)


def test_a_frame_stack_says_so_and_an_action_repeat_around_it_does_not():
    env = FrameStack(make("CartPole-v1"), num_frames=4)
    assert env.observation_space.stack == 4
    assert ActionRepeat(env, num_repeats=2).observation_space.stack == 1
    assert frames.deepest(frames.depths(ActionRepeat(env, num_repeats=2).observation_space)) == 1


@pytest.mark.long
def test_learning_is_the_same_to_the_bit():
    """DQN on stacked CartPole: drawn stacks equal those kept whole, so every parameter does."""
    config = DQNConfig(num_envs=4, replay_capacity=400, batch_size=16, learning_starts=32, hidden_sizes=(8,))

    def whole(spec, config):
        held = uniform.uniform(spec._replace(observation_space=Box(low=-9.0, high=9.0, shape=(12,))), 400, 4, 16)
        return dqn(spec, config, replay=held)

    env = FrameStack(make("CartPole-v1"), num_frames=3)
    agents = [
        jax.jit(make_train(algorithm, env, config, total_timesteps=320))(jax.random.key(0))[0].agent
        for algorithm in (dqn, whole)
    ]
    assert int(agents[0].num_gradient_steps) > 50
    same = jax.tree.map(lambda x, y: np.allclose(x, y, atol=1e-6), agents[0].params, agents[1].params)
    assert jax.tree.all(same)


@pytest.mark.long_for("5")
@pytest.mark.parametrize("running", [0, 5])
def test_ages_by_hand(running):
    done = jnp.array([[0, 1, 0, 0, 1, 1]], bool).T
    counts = jnp.array([[1, 1, 0, 1, 1, 0]], bool).T
    age, after = frames.ages(jnp.array([running]), done, counts)
    assert age[:, 0].tolist() == [running, running + 1, 0, 0, 1, 0]
    assert after.tolist() == [0]
