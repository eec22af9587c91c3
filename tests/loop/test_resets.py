"""Reset policies: equal runs, no start used twice, and resets only where they are needed."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from purerl.algos.ppo import PPOConfig, ppo
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import InputError
from purerl.loop.train import make_trainer
from purerl.loop.vector import VectorEnvironment, vectorize
from purerl.prng import GENERATORS, fast, renew
from purerl.spaces import Box, Discrete
from purerl.types import Environment, TimeStep, number, pytree

NUM_ENVS, LENGTH = 6, 60


class Place(NamedTuple):
    value: jax.Array
    left: jax.Array
    noise: jax.Array


@pytree
class Episodes(Environment):
    """Episodes of 1 .. `longest` steps (or exactly so many); the observation is a number drawn by the reset."""

    longest: int = number(default=5)
    fixed: bool = number(default=False)
    bonus: float = number(default=0.0)

    def reset(self, key):
        key_value, key_length = jax.random.split(key)
        length = jax.random.randint(key_length, (), 1, self.longest + 1)
        state = Place(
            value=jax.random.uniform(key_value), left=jnp.where(self.fixed, self.longest, length), noise=jnp.float32(0)
        )
        return state, self._observe(state)

    def step(self, key, state, action):
        state = Place(value=state.value, left=state.left - 1, noise=state.noise + jax.random.uniform(key))
        done = state.left <= 0
        step = TimeStep(
            observation=self._observe(state),
            reward=jnp.float32(1) + self.bonus,
            terminated=done & (action == 0),
            truncated=done & (action != 0),
            info={},
        )
        return state, step

    def _observe(self, state):
        return jnp.stack([state.value, state.left.astype(jnp.float32)])

    @property
    def observation_space(self):
        return Box(low=0, high=100, shape=(2,))

    @property
    def action_space(self):
        return Discrete(n=2)


def play(vector: VectorEnvironment, key, length=LENGTH):
    """Return (the first and last state and observation, what was seen at each step)."""
    key_reset, key_run = jax.random.split(key)
    first = vector.reset(key_reset)

    def step(carry, time):
        state, _ = carry
        key_step = jax.random.fold_in(key_run, time)
        action = jax.random.randint(key_step, (vector.num_envs,), 0, 2)
        state, observation, timestep = vector.step(key_step, state, action)
        return (state, observation), (observation, timestep, state.resets.episode)

    last, seen = jax.lax.scan(step, first, jnp.arange(length))
    return first, last, seen


@pytest.fixture(scope="module")
def played():
    run = jax.jit(play, static_argnames="length")
    return {
        policy: jax.device_get(run(vectorize(Episodes(), NUM_ENVS, policy, pool_size=4), fast(jax.random.key(3))))
        for policy in ("prefetch", "always", "pool", "auto")
    }


@pytest.mark.long
def test_prefetched_and_always_give_the_same_run(played):
    for other in ("always", "auto"):
        prefetched, always = played["prefetch"], played[other]
        for one, two in zip(jax.tree.leaves(prefetched[2]), jax.tree.leaves(always[2]), strict=True):
            np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(prefetched[1][1], always[1][1])
        for one, two in zip(jax.tree.leaves(prefetched[1][0][:4]), jax.tree.leaves(always[1][0][:4]), strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.long
def test_episode_e_of_environment_i_starts_where_the_key_says(played):
    env, (first, _, (observation, timestep, episode)) = Episodes(), played["prefetch"]
    keys = jax.random.split(jax.random.split(fast(jax.random.key(3)))[0], NUM_ENVS)
    start = jax.jit(lambda i, e: env.reset(renew(jax.random.fold_in(keys[i], e)))[1])
    done = timestep.terminated | timestep.truncated
    assert done[:-1][done[1:]].any(), "some episode should have lasted one step: then two resets in a row are needed"
    starts = []
    for i in range(NUM_ENVS):
        np.testing.assert_array_equal(first[1][i], start(i, 0))
        starts.append(first[1][i, 0])
        for time in np.flatnonzero(done[:, i]):
            np.testing.assert_array_equal(observation[time, i], start(i, int(episode[time, i])))
            starts.append(observation[time, i, 0])
        np.testing.assert_array_equal(episode[:, i], np.cumsum(done[:, i]))
    assert len(starts) > 90 and len(set(map(float, starts))) == len(starts), "a start was used twice"


@pytest.mark.long
def test_starts_are_uniform(played):
    _, _, (observation, timestep, _) = played["prefetch"]
    values = observation[..., 0][timestep.terminated | timestep.truncated]
    assert stats.kstest(values, "uniform").pvalue > 1e-4


@pytest.mark.long
def test_pool_draws_from_its_starts_alone(played):
    first, _, (observation, timestep, _) = played["pool"]
    pool = np.asarray(first[0].resets.pool[1])
    assert pool.shape == (4, 2)
    done = timestep.terminated | timestep.truncated
    begun = np.concatenate([first[1], observation[done]])
    which = (begun[:, None] == pool[None]).all(-1)
    assert (which.sum(1) == 1).all()
    assert stats.chisquare(which.sum(0)).pvalue > 1e-4
    others = [leaf for policy in ("prefetch", "always") for leaf in [played[policy][0][0].resets.pool]]
    assert others == [None, None]


@pytest.mark.long
def test_resets_are_computed_once_in_an_episode_length():
    calls = []

    class Counting(Episodes):
        def reset(self, key):
            jax.debug.callback(lambda: calls.append(1))
            return super().reset(key)

    counting = pytree(Counting)
    vector = vectorize(counting(longest=9, fixed=True), NUM_ENVS, "prefetch")
    jax.block_until_ready(jax.jit(play, static_argnames="length")(vector, fast(jax.random.key(0)), length=90))
    jax.effects_barrier()
    assert NUM_ENVS < len(calls) <= 11 * NUM_ENVS


def branches(jaxpr):
    """Yield the shapes of the predicates of all branches in a jaxpr."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "cond":
            yield eqn.invars[0].aval.shape
        for value in eqn.params.values():
            for sub in value if isinstance(value, tuple | list) else (value,):
                if hasattr(sub, "jaxpr"):
                    yield from branches(sub.jaxpr)
                elif hasattr(sub, "eqns"):
                    yield from branches(sub)


@pytest.mark.long
def test_vmapped_runs_keep_the_branch_and_the_results(played):
    vector = vectorize(Episodes(), NUM_ENVS, "prefetch")
    keys = jax.random.split(fast(jax.random.key(3)), 3)
    many = jax.vmap(jax.vmap(lambda key: play(vector, key)))
    assert list(branches(jax.make_jaxpr(many)(keys[None]).jaxpr)) == [()]
    together = jax.jit(many)(keys[None])
    alone = jax.jit(lambda key: play(vector, key))(keys[1])
    for one, two in zip(jax.tree.leaves(alone[2]), jax.tree.leaves(together[2]), strict=True):
        np.testing.assert_array_equal(one, two[0, 1])


@pytest.mark.long
def test_redraw_gives_each_episode_its_own_parameters():
    redraw = lambda key, env: dataclasses.replace(env, bonus=jax.random.uniform(key))
    vector = vectorize(Episodes(), NUM_ENVS, "prefetch", redraw=redraw)
    first, _, (_, timestep, episode) = jax.device_get(jax.jit(lambda key: play(vector, key))(fast(jax.random.key(5))))
    assert set(first[0].env_state.outer) == {"bonus"}, "only what changes is carried"
    drawn = {}
    for i in range(NUM_ENVS):
        running = 0
        for time in range(LENGTH):
            drawn.setdefault((i, running), set()).add(float(timestep.reward[time, i]) - 1.0)
            running = int(episode[time, i])
    assert all(len(bonus) == 1 for bonus in drawn.values()), "parameters changed within an episode"
    values = [min(bonus) for bonus in drawn.values()]
    assert len(values) > 90 and len(set(values)) == len(values)
    assert stats.kstest(values, "uniform").pvalue > 1e-4


@pytest.mark.long
def test_redrawn_physics_are_those_of_an_environment_made_so():
    redraw = lambda key, env: dataclasses.replace(env, gravity=jax.random.uniform(key, minval=5.0, maxval=15.0))
    vector = vectorize(CartPole(), 3, redraw=redraw)
    start, _ = jax.jit(vector.reset)(fast(jax.random.key(0)))
    gravity = start.env_state.outer["gravity"]
    assert len(np.unique(gravity)) == 3
    action = jnp.ones(3, jnp.int32)
    _, _, timestep = jax.jit(vector.step)(fast(jax.random.key(1)), start, action)
    for i in range(3):
        inner = type(start.env_state.inner)(*(field[i] for field in start.env_state.inner))
        _, alone = CartPole(gravity=float(gravity[i])).step(fast(jax.random.key(1)), inner, jnp.int32(1))
        np.testing.assert_allclose(timestep.observation[i], alone.observation, rtol=1e-6)


@pytest.mark.parametrize("prng", GENERATORS)
def test_a_run_takes_a_generator(prng):
    trainer = make_trainer(ppo, CartPole(), PPOConfig(num_envs=2, prng=prng))
    kinds = []
    jax.eval_shape(
        lambda key: kinds.append(jax.random.key_impl(trainer.init(key).vector.resets.key)), jax.random.key(0)
    )
    assert kinds == [jax.random.key_impl(jax.random.key(0, impl=GENERATORS[prng]))]


@pytest.mark.long
def test_a_run_takes_a_reset_policy():
    sizes = {"num_envs": 2, "rollout_length": 16, "num_epochs": 1, "num_minibatches": 1, "hidden_sizes": (4,)}
    config = PPOConfig(prng="rbg", reset_policy="pool", pool_size=8, **sizes)
    trainer = make_trainer(ppo, CartPole(), config)
    state, metrics = jax.jit(lambda key: trainer.step(trainer.init(key)))(jax.random.key(0))
    assert all(leaf.shape[0] == 8 for leaf in jax.tree.leaves(state.vector.resets.pool))
    assert np.isfinite(metrics.algorithm["policy_loss"])
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))


@pytest.mark.long
def test_bad_input_is_told():
    with pytest.raises(InputError, match="unknown reset policy 'prefetched': did you mean 'prefetch'"):
        vectorize(CartPole(), 2, "prefetched")
    vector = vectorize(CartPole(), 2, redraw=lambda key, env: dataclasses.replace(env, time_limit=None))
    with pytest.raises(InputError, match="redraw must return a CartPole"):
        vector.reset(fast(jax.random.key(0)))
