"""The loop: one trace for all numbers, everything can be vmapped, and a run is its steps."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import make_train, make_trainer
from purerl.algos.ppo import PPOConfig, ppo
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import InputError
from purerl.functional.objectives import Clip
from purerl.loop.train import collect, curve_points
from purerl.types import Algorithm

CONFIG = PPOConfig(
    num_envs=2,
    rollout_length=16,
    num_epochs=1,
    num_minibatches=1,
    hidden_sizes=(8,),
    total_timesteps=96,
    reset_policy="always",
)
NUM_UPDATES = 3


def arrays(tree):
    return [np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x) for x in tree]


def same(a, b, tolerance=None):
    for x, y in zip(arrays(jax.tree.leaves(a)), arrays(jax.tree.leaves(b)), strict=True):
        if tolerance is None:
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="module")
def alone():
    """A run of its own: (state, metrics)."""
    return jax.jit(make_train(ppo, CartPole(), CONFIG))(jax.random.key(0))


@pytest.fixture(scope="module")
def run():
    """A compiled run with everything that may vary as an argument, and the list of its traces."""
    traces = []

    def once(key, config, env, objective):
        traces.append(1)

        def algorithm(spec, config):
            return ppo(spec, config, objective=objective)

        state, metrics = make_train(algorithm, env, config, total_timesteps=96)(key)
        return state.agent.params, metrics

    return once, traces


@pytest.mark.long
def test_a_run_is_its_steps(alone):
    state, metrics = alone
    trainer = make_trainer(ppo, CartPole(), CONFIG)
    step = jax.jit(trainer.step)
    one, rows = jax.jit(trainer.init)(jax.random.key(0)), []
    for _ in range(NUM_UPDATES):
        one, row = step(one)
        rows.append(row)
    same(one, state)
    same(jax.tree.map(lambda *xs: jnp.stack(xs), *rows), metrics)


@pytest.mark.long
def test_shapes(alone):
    state, metrics = alone
    assert int(state.num_updates) == NUM_UPDATES
    assert all(value.shape == (NUM_UPDATES,) and value.dtype == jnp.float32 for value in metrics.flat().values())
    assert {"episode_return", "episode_length", "episodes"} <= set(metrics.episodes)
    assert "policy_loss" in metrics.algorithm


@pytest.mark.long
def test_one_trace_for_all_numbers(run, alone):
    once, traces = run
    traces.clear()
    compiled = jax.jit(once)
    key = jax.random.key(0)
    params, _ = compiled(key, CONFIG, CartPole(), Clip(epsilon=0.2))
    same(params, alone[0].agent.params, 1e-4)
    others = [
        (dataclasses.replace(CONFIG, learning_rate=1e-2), CartPole(), Clip(epsilon=0.2)),
        (dataclasses.replace(CONFIG, discount=0.5, gae_lambda=0.5), CartPole(), Clip(epsilon=0.2)),
        (CONFIG, CartPole(gravity=3.0), Clip(epsilon=0.2)),
        (CONFIG, CartPole(time_limit=5), Clip(epsilon=0.2)),
    ]
    for other in others:
        changed, _ = compiled(key, *other)
        assert any((x != y).any() for x, y in zip(jax.tree.leaves(changed), jax.tree.leaves(params), strict=True))
    assert len(traces) == 1


@pytest.mark.long
def test_everything_can_be_vmapped_at_once(run, alone):
    """Seeds, a number of the config, one of the environment and one of the objective: members equal runs made alone."""
    once, _ = run
    rates, gravities = jnp.array([2.5e-4, 1e-2, 1e-2]), jnp.array([9.8, 9.8, 3.0])
    epsilons, keys = jnp.array([0.2, 0.1, 0.3]), jax.random.split(jax.random.key(5), 3).at[0].set(jax.random.key(0))

    def member(key, rate, gravity, epsilon):
        return once(
            key, dataclasses.replace(CONFIG, learning_rate=rate), CartPole(gravity=gravity), Clip(epsilon=epsilon)
        )

    many = jax.jit(jax.vmap(member))(keys, rates, gravities, epsilons)
    same(jax.tree.map(lambda x: x[0], many[0]), alone[0].agent.params, 1e-3)
    compiled = jax.jit(once)
    for i in (1, 2):
        config = dataclasses.replace(CONFIG, learning_rate=float(rates[i]))
        single = compiled(keys[i], config, CartPole(gravity=float(gravities[i])), Clip(epsilon=float(epsilons[i])))
        same(jax.tree.map(lambda x, i=i: x[i], many[0]), single[0], 1e-3)


def test_less_than_one_rollout():
    with pytest.raises(InputError) as caught:
        make_train(ppo, CartPole(), CONFIG, total_timesteps=31)
    assert str(caught.value) == ("total_timesteps 31 is less than one rollout: num_envs x rollout_length = 32")


@pytest.mark.long
def test_curves_without_stacks():
    """Points of a curve against the stacked metrics of every update, reduced by NumPy."""
    config = dataclasses.replace(CONFIG, rollout_length=8, total_timesteps=16 * 7)
    keys = jax.random.split(jax.random.key(3), 3)
    full_state, full = jax.jit(jax.vmap(make_train(ppo, CartPole(), config)))(keys)
    state, points = jax.jit(jax.vmap(make_train(ppo, CartPole(), config, num_points=3)))(keys)
    same(state, full_state, 1e-4)
    full, points = jax.tree.map(np.asarray, (full.flat(), points.flat()))
    assert full.keys() == points.keys()
    assert np.isnan(full["episode_return"]).any(), "some updates should see no episode end"
    ends = curve_points(7, 3)
    for i, part in enumerate(np.split(np.arange(7), ends[:-1])):
        for member in range(3):
            count = full["episodes"][member, part]
            assert points["episodes"][member, i] == count.sum()
            for name in full:
                values, found = full[name][member, part], points[name][member, i]
                if name in ("episode_return", "episode_length"):
                    some = count > 0
                    expected = np.average(values[some], weights=count[some]) if some.any() else np.nan
                elif name.endswith(("_min", "_max")):
                    reduce = np.fmin if name.endswith("_min") else np.fmax
                    expected = reduce.reduce(values)
                elif name != "episodes":
                    expected = values.mean()
                else:
                    continue
                np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.long
def test_memory_of_a_curve_does_not_grow_with_the_run():
    def outputs(total_timesteps):
        train = make_train(ppo, CartPole(), CONFIG, total_timesteps=total_timesteps, num_points=5)
        return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(train, jax.random.key(0))))

    assert outputs(32 * 5) == outputs(32 * 100_000)


@pytest.mark.parametrize("num_points", [0, 4])
def test_points_that_cannot_be(num_points):
    with pytest.raises(InputError) as caught:
        make_train(ppo, CartPole(), CONFIG, num_points=num_points)
    assert str(caught.value) == f"num_points is {num_points}; it must be at least 1 and at most the 3 updates"


def observer(spec, config):
    """An algorithm that learns nothing; its memory counts its steps."""

    def act(agent, carry, key, observation, explore):
        carry = carry + 1
        return jax.random.randint(key, observation.shape[:1], 0, 2, jnp.int32), carry, {"memory": carry}

    return Algorithm(
        init=lambda key: (),
        initial_carry=lambda n: jnp.zeros(n, jnp.int32),
        act=act,
        update=lambda agent, key, rollout: (agent, {}),
    )


@pytest.mark.long
@pytest.mark.optimized  # else an observation that is computed twice differs in its last bits
def test_rollouts_hold_what_happened():
    """Observations follow one another, except across episode ends; the carry is reset with each episode."""
    config = dataclasses.replace(CONFIG, rollout_length=40, num_envs=3)
    trainer = make_trainer(observer, CartPole(), config)
    state = trainer.init(jax.random.key(1))
    go = jax.jit(lambda state, key: collect(trainer.algorithm, trainer.vector, state, key, 40))
    state, first = go(state, jax.random.key(2))
    after, second = go(state, jax.random.key(3))
    for rollout in (first, second):
        done = np.asarray(rollout.done)
        assert done.any()
        shown = np.asarray(rollout.observation)[1:]
        np.testing.assert_array_equal(shown[~done[:-1]], np.asarray(rollout.next_observation)[:-1][~done[:-1]])
        assert (np.abs(shown[done[:-1]]) <= 0.05).all()  # CartPole's starts
        assert (np.abs(np.asarray(rollout.next_observation)[done]).max(-1) > 0.2).all()  # and its true endings
        count = np.asarray(rollout.carry).copy()
        for t in range(40):
            count += 1
            np.testing.assert_array_equal(rollout.extras["memory"][t], count)
            count[done[t]] = 0
    np.testing.assert_array_equal(second.observation[0], state.observation)
    np.testing.assert_array_equal(second.carry, state.carry)
    assert not (first.action == second.action).all() and after.observation.shape == (3, 4)


@pytest.mark.long
def test_a_carry_starts_anew_after_a_time_limit_too():
    config = dataclasses.replace(CONFIG, rollout_length=7, num_envs=2)
    trainer = make_trainer(observer, CartPole(time_limit=3), config)
    go = jax.jit(lambda state, key: collect(trainer.algorithm, trainer.vector, state, key, 7))
    _, rollout = go(trainer.init(jax.random.key(1)), jax.random.key(2))
    assert np.asarray(rollout.truncated).sum(axis=0).tolist() == [2, 2] and not np.asarray(rollout.terminated).any()
    np.testing.assert_array_equal(rollout.extras["memory"][:, 0], [1, 2, 3, 1, 2, 3, 1])


def test_points_of_a_curve_are_evenly_spaced_to_the_end():
    assert curve_points(7, 3).tolist() == [2, 4, 7] and curve_points(7, 2).tolist() == [3, 7]
