"""The replay against a plain list of transitions."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from purerl.errors import InputError
from purerl.prng import fast
from purerl.replay import uniform
from purerl.spaces import Box, Dict, Discrete
from purerl.types import EnvironmentSpec, Rollout

PIXELS = Dict(
    spaces={"frame": Box(low=0, high=255, shape=(2,), dtype=jnp.uint8), "seen": Box(low=0, high=1, dtype=bool)}
)


SPEC = EnvironmentSpec(PIXELS, Discrete(n=3))


DISCOUNT = 0.9


LENGTH, NUM_ENVS, CAPACITY = 3, 2, 14


add = jax.jit(uniform.add, donate_argnums=0)


gather = jax.jit(uniform.gather, static_argnames=("n_step", "between"))


draw = jax.jit(uniform.draw, static_argnames="batch_size")


class Slow:
    """A list of transitions per environment; the oldest give way when their rows are needed."""

    def __init__(self, num_envs, rows):
        self.steps = [[] for _ in range(num_envs)]
        self.rows = rows
        self.head_used = [False] * num_envs  # whether the newest step's successor lies where the next step will go

    def add(self, rollout):
        for env, steps in enumerate(self.steps):
            for t in np.flatnonzero(np.ones(len(rollout.reward)) if rollout.mask is None else rollout.mask[:, env]):
                self.head_used[env] = bool(t == len(rollout.reward) - 1 and not rollout.truncated[t, env])
                at = lambda tree: jax.tree.map(lambda x: np.asarray(x)[t, env], tree)  # noqa: B023
                steps.append(
                    {
                        "observation": at(rollout.observation),
                        "action": at(rollout.action),
                        "reward": float(rollout.reward[t, env]),
                        "next": at(rollout.next_observation),
                        "terminated": bool(rollout.terminated[t, env]),
                        "truncated": bool(rollout.truncated[t, env]),
                    }
                )

    def kept(self, env):
        """The newest steps that fit: one row each, and one more for the true successor of the last or a truncated."""
        room, kept = self.rows - self.head_used[env], []
        for index, step in enumerate(reversed(self.steps[env])):
            room -= 1 + step["truncated"]
            # A final observation's row may outlive its step, never the other way round.
            if room < 0:
                break
            kept.insert(0, len(self.steps[env]) - 1 - index)
        return kept

    def transitions(self, n_step):
        """All that can be drawn: {(frame, env): (action, reward, discount, next frame, frames between)}."""
        found = {}
        for env, steps in enumerate(self.steps):
            for start in self.kept(env):
                total, factor, at, between = 0.0, 1.0, start, []
                while True:
                    total += factor * steps[at]["reward"]
                    factor *= DISCOUNT
                    done = steps[at]["terminated"] or steps[at]["truncated"]
                    if done or at - start == n_step - 1:
                        break
                    at += 1
                    if at == len(steps):
                        break
                    between.append((round(factor, 4), *steps[at]["observation"]["frame"].tolist()))
                if at == len(steps):
                    continue
                discount = 0.0 if steps[at]["terminated"] else factor
                key = (*steps[start]["observation"]["frame"].tolist(), env)
                after = None if steps[at]["terminated"] else tuple(steps[at]["next"]["frame"].tolist())
                found[key] = (int(steps[start]["action"]), round(total, 4), round(discount, 4), after, tuple(between))
        return found


def make_rollout(ends, start):
    """A rollout whose observations are all different; `ends` i32[T, B]: 0 going, 1 terminated, 2 truncated."""
    length, num_envs = ends.shape
    frame = lambda number: np.stack([number % 256, number // 256], axis=-1).astype(np.uint8)
    number = start + np.arange(length * num_envs).reshape(length, num_envs)
    fresh = number + 30_000
    following = np.concatenate([number[1:], number[-1:] + num_envs])
    after = np.where(ends == 0, following, fresh)
    return Rollout(
        {"frame": jnp.asarray(frame(number)), "seen": jnp.asarray(number % 2 == 0)},
        jnp.asarray(number % 3, jnp.int32),
        jnp.asarray(number % 7, jnp.float32),
        jnp.asarray(ends == 1),
        jnp.asarray(ends == 2),
        {"frame": jnp.asarray(frame(after)), "seen": jnp.asarray(after % 2 == 0)},
        (),
        (),
    )


def everything(state, n_step):
    """All that a draw could find, in the form of `Slow.transitions`."""
    num_envs = state.flag.shape[1]
    places = jnp.arange(state.flag.size, dtype=jnp.int32)
    batch = jax.tree.map(np.asarray, gather(state, places, 1.0, DISCOUNT, n_step=n_step, between=True))
    found = {}
    for i in np.flatnonzero(batch.weight):
        key = (*batch.observation["frame"][i].tolist(), i % num_envs)
        assert key not in found
        assert batch.observation["seen"][i] == (key[0] % 2 == 0)
        after = tuple(batch.next_observation["frame"][i].tolist()) if batch.discount[i] else None
        seen = zip(batch.between.discount, batch.between.observation["frame"], strict=True) if n_step > 1 else ()
        found[key] = (
            int(batch.action[i]),
            round(float(batch.reward[i]), 4),
            round(float(batch.discount[i]), 4),
            after,
            tuple((round(float(factor[i]), 4), *frame[i].tolist()) for factor, frame in seen if factor[i]),
        )
    return found


AWAY = 3  # a step that does not count, if it follows an ending or another such step


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([0, 0, 0, 1, 2, AWAY]), min_size=6, max_size=6), min_size=1, max_size=12),
    st.sampled_from([1, 3]),
)
def test_holds_what_a_list_of_transitions_holds(rollouts, n_step):
    slow = Slow(NUM_ENVS, uniform.num_rows(CAPACITY, NUM_ENVS))
    state = uniform.create(SPEC, CAPACITY, NUM_ENVS)
    before = np.ones(NUM_ENVS, int)
    for i, codes in enumerate(rollouts):
        ends = np.array(codes).reshape(LENGTH, NUM_ENVS)
        for t in range(LENGTH):
            ends[t] = np.where((ends[t] == AWAY) & (before == 0), 0, ends[t])
            before = ends[t]
        rollout = make_rollout(ends, i * LENGTH * NUM_ENVS)._replace(mask=jnp.asarray(ends != AWAY))
        slow.add(rollout)
        state = add(state, rollout)
    assert everything(state, n_step) == slow.transitions(n_step)


def test_a_cut_is_no_ending():
    """Steps in rollouts that are cut before they are full are held as if in one rollout, stacks of frames, too."""
    space = Box(low=0, high=9, shape=(1, 2), dtype=jnp.uint8, stack=2)
    depth = uniform.stacks(spec := EnvironmentSpec(space, Discrete(n=3)))
    ends = np.array([[0, 0], [0, 2], [0, 0], [0, 0], [1, 0], [0, 0]])
    frame, episode = np.arange(1, 8), np.zeros((7, 2), int)
    episode[1:] = np.cumsum(ends > 0, axis=0)
    older = np.where(
        episode[:-1] == np.concatenate([episode[:1] - 1, episode[:-2]]), frame[:6, None] - 1, frame[:6, None]
    )
    after = np.broadcast_to(frame[1:, None], (6, 2))
    pair = lambda old, new: jnp.asarray(np.stack([old, new], axis=-1)[:, :, None], jnp.uint8)
    whole = Rollout(
        observation=pair(older, np.broadcast_to(frame[:6, None], (6, 2))),
        action=jnp.asarray(np.arange(12).reshape(6, 2) % 3, jnp.int32),
        reward=jnp.asarray(np.arange(12.0).reshape(6, 2), jnp.float32),
        terminated=jnp.asarray(ends == 1),
        truncated=jnp.asarray(ends == 2),
        next_observation=pair(after - 1, after),
        extras=(),
        carry=(),
    )

    def part(begin, num):
        rows = np.minimum(begin + np.arange(4), 5)
        counts = np.broadcast_to(np.arange(4)[:, None] < num, (4, 2))
        given = jax.tree.map(lambda x: x[rows], whole)
        cut = jnp.asarray((np.arange(4) == num - 1)[:, None] & (ends[rows] == 0))
        ended = {"terminated": given.terminated & counts, "truncated": given.truncated & counts | cut}
        return given._replace(**ended, mask=jnp.asarray(counts), cut=cut)

    once = uniform.add(uniform.create(spec, 40, 2), whole, depth)
    parts = uniform.create(spec, 40, 2)
    for begin, num in ((0, 1), (1, 2), (3, 0), (3, 3)):
        parts = uniform.add(parts, part(begin, num), depth)
    jax.tree.map(np.testing.assert_array_equal, once, parts)


def test_keeps_dtypes_and_stores_each_observation_once():
    state = uniform.create(SPEC, 1000, 10)
    assert state.observation["frame"].dtype == jnp.uint8 and state.observation["seen"].dtype == jnp.bool_
    each = 101 * 10 * (3 + 4 + 4 + 1)  # and the heads of ten environments, and how much is filled
    assert uniform.nbytes(SPEC, 1000, 10) == each + 4 * 10 + 4 == sum(leaf.nbytes for leaf in jax.tree.leaves(state))


def test_is_changed_in_place():
    """A donated storage keeps its memory, and a scan over additions needs no second one."""
    capacity = 100_000
    state = uniform.create(SPEC, capacity, NUM_ENVS)
    rollout = make_rollout(np.zeros((LENGTH, NUM_ENVS), int), 0)
    place = state.reward.unsafe_buffer_pointer()
    state = add(state, rollout)
    assert state.reward.unsafe_buffer_pointer() == place
    many = jax.jit(
        lambda s: jax.lax.scan(lambda s, _: (uniform.add(s, rollout), None), s, None, 10)[0], donate_argnums=0
    )
    needed = many.lower(state).compile().memory_analysis()
    assert needed.temp_size_in_bytes < uniform.nbytes(SPEC, capacity, NUM_ENVS) / 10


def test_draws_are_uniform_over_transitions():
    """Truncations leave rows where nothing starts; the others must be drawn equally often (chi-square)."""
    rng = np.random.default_rng(0)
    slow = Slow(NUM_ENVS, uniform.num_rows(CAPACITY, NUM_ENVS))
    state = uniform.create(SPEC, CAPACITY, NUM_ENVS)
    for i in range(9):
        rollout = make_rollout(rng.choice([0, 0, 1, 2], size=(LENGTH, NUM_ENVS)), i * LENGTH * NUM_ENVS)
        slow.add(rollout)
        state = add(state, rollout)
    places = draw(state, fast(jax.random.key(1)), batch_size=50_000)
    starts = np.asarray(state.flag).ravel() != uniform.NO_START
    assert starts.sum() == len(slow.transitions(1)) < starts.size - NUM_ENVS
    counts = np.bincount(np.asarray(places), minlength=starts.size)
    void = counts[~starts].sum() / counts.sum()
    assert void < 1.5 * np.mean(~starts) ** uniform.TRIES
    assert chisquare(counts[starts]).pvalue > 1e-3


def test_draws_from_a_part_that_is_filled():
    state = add(uniform.create(SPEC, 10_000, NUM_ENVS), make_rollout(np.zeros((LENGTH, NUM_ENVS), int), 0))
    places = draw(state, fast(jax.random.key(1)), batch_size=512)
    batch = gather(state, places, 1.0, DISCOUNT)
    found = np.unique(np.asarray(places)[np.asarray(batch.weight) > 0])
    assert sorted(found) == [0, 1, 2, 3, 4, 5]
    assert np.mean(np.asarray(batch.weight)) > 0.95


def test_scaled_words_are_floor_of_the_exact_product():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, 1000, dtype=np.uint64)
    for n in (1, 7, 2**16, 1_000_003, 2**32 - 1):
        exact = (words * np.uint64(n)) >> np.uint64(32)
        ours = uniform.scaled(jnp.asarray(words.astype(np.uint32)), jnp.uint32(n))
        assert np.array_equal(np.asarray(ours), exact.astype(np.uint32))


def test_sampling_costs_the_same_at_any_capacity():
    """The compiled program's arithmetic does not depend on the capacity."""

    def flops(capacity):
        state = jax.eval_shape(partial(uniform.create, SPEC, capacity, NUM_ENVS))
        sample = uniform.uniform(SPEC, capacity, NUM_ENVS, batch_size=64).sample
        cost = jax.jit(sample).lower(state, fast(jax.random.key(0))).compile().cost_analysis()
        return cost["flops"]

    assert flops(1_000_000) == flops(1_000)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            {"capacity": 100, "num_envs": 2, "batch_size": 128},
            "batch_size 128 is larger than .* capacity 100",
        ),
        ({"capacity": 100, "num_envs": 10, "batch_size": 8, "n_step": 11}, "n_step 11 is larger than"),
        ({"capacity": 10**13, "num_envs": 10, "batch_size": 8}, "MB; there are"),
    ],
)
def test_refuses_sizes_that_cannot_be(sizes, message):
    with pytest.raises(InputError, match=message):
        uniform.uniform(SPEC, **sizes)


def test_refuses_rollouts_that_do_not_fit():
    with pytest.raises(InputError, match="must hold at least"):
        add(uniform.create(SPEC, 8, NUM_ENVS), make_rollout(np.zeros((LENGTH, NUM_ENVS), int), 0))
