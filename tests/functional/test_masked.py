"""Steps that must not count: agents that have left, and steps that only reset a host environment."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.disco import DiscoConfig, disco
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.impala import IMPALAConfig, impala
from purerl.algos.ppo import PPOConfig, ppo
from purerl.algos.pqn import PQNConfig, pqn
from purerl.algos.r2d2 import R2D2Config, r2d2
from purerl.functional import masked
from purerl.functional.normalize import ReturnScale, RunningStatistics
from purerl.networks.disco_rule import DiscoRule
from purerl.networks.meta_network import MetaSizes
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout
from tests.helpers.disco_inputs import SMALL

LENGTH, NUM_ENVS = 8, 4
SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(3,)), Discrete(n=3))
SIZES = {"num_envs": NUM_ENVS, "rollout_length": LENGTH, "hidden_sizes": (8,), "total_timesteps": 1000}
NORMALIZED = {"normalize_observation": True, "normalize_reward": True}
REPLAYED = {"learning_starts": 128, "replay_capacity": 64 * NUM_ENVS}
RULE = DiscoRule.create(jax.random.key(0), MetaSizes(**SMALL))
# Environment 1 restarts at step 4 and 5; in 2 the agent leaves at step 2 for good; in 3 it is never there.
MASK = np.ones((LENGTH, NUM_ENVS), bool)
MASK[4:6, 1] = MASK[3:, 2] = MASK[:, 3] = False
TERMINATED, TRUNCATED = np.zeros((2, LENGTH, NUM_ENVS), bool)
TRUNCATED[3, 1] = TERMINATED[5, 1] = TERMINATED[2, 2] = TERMINATED[7, 2] = TERMINATED[7, 3] = True

CASES = {
    "a2c": lambda: a2c(SPEC, A2CConfig(**SIZES, **NORMALIZED)),
    "ppo": lambda: ppo(SPEC, PPOConfig(**SIZES, **NORMALIZED, num_epochs=2)),
    "ppo gru": lambda: ppo(SPEC, PPOConfig(**SIZES, rnn="gru", rnn_size=8)),
    "impala": lambda: impala(SPEC, IMPALAConfig(**SIZES, num_minibatches=2)),
    "pqn": lambda: pqn(SPEC, PQNConfig(**SIZES, num_minibatches=4)),
    "dqn": lambda: dqn(SPEC, DQNConfig(**SIZES, **REPLAYED, batch_size=16, n_step=3)),
    "dqn by priority": lambda: dqn(SPEC, DQNConfig(**SIZES, **REPLAYED, batch_size=16, priority_exponent=0.6)),
    "disco": lambda: disco(SPEC, DiscoConfig(**SIZES, **REPLAYED, batch_size=4, model_size=8, num_atoms=9), rule=RULE),
    "r2d2": lambda: r2d2(
        SPEC, R2D2Config(**SIZES, **REPLAYED, rnn_size=8, burn_in=8, sequence_length=16, batch_size=8, n_step=3)
    ),
}


def rollout_of(algo, agent, contents, mask=MASK):
    """Steps with random contents; those that do not count have contents of their own."""
    rng, other = np.random.default_rng(0), np.random.default_rng(contents)

    def normal(*shape):
        counts = mask.reshape(mask.shape + (1,) * len(shape))
        mine, theirs = rng.normal(size=(2, LENGTH, NUM_ENVS, *shape)), other.normal(size=(LENGTH, NUM_ENVS, *shape))
        return jnp.asarray(np.where(counts, mine[0], theirs), jnp.float32)

    observation, reward, successor = normal(3), normal(), normal(3)
    carry = algo.initial_carry(NUM_ENVS)
    action, _, extras = jax.vmap(lambda x, key: algo.act(agent, carry, key, x, True))(
        observation, jax.random.split(jax.random.key(0), LENGTH)
    )
    flags = (jnp.asarray(TERMINATED), jnp.asarray(TRUNCATED))
    return Rollout(observation, action, reward, *flags, successor, extras, carry, jnp.asarray(mask))


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_what_does_not_count_changes_nothing(name):
    """Other contents of masked steps give bit-identical parameters, statistics and metrics."""
    algo = CASES[name]()
    begin, update = algo.init(jax.random.key(0)), jax.jit(algo.update)

    def learn(contents):
        agent = begin
        for i in range(4):
            agent, metrics = update(agent, jax.random.key(i), rollout_of(algo, begin, 10 * contents + i))
        agent = agent._replace(replay=()) if hasattr(agent, "replay") else agent
        return agent, metrics

    one, two = learn(1), learn(2)
    jax.tree.map(np.testing.assert_array_equal, one, two)
    assert not np.array_equal(jax.tree.leaves(one[0].params)[0], jax.tree.leaves(begin.params)[0])


@pytest.mark.long
def test_a_rollout_without_the_masked_steps_gives_the_same_gradient():
    """A2C on two environments alone, and on four of which two do not count."""
    mask = np.ones((LENGTH, NUM_ENVS), bool)
    mask[:, 2:] = False
    config = A2CConfig(**SIZES, learning_rate_schedule="constant", normalize_observation=True)
    algo = a2c(SPEC, config)
    agent = algo.init(jax.random.key(0))
    whole = rollout_of(algo, agent, 1, mask)
    part = jax.tree.map(lambda x: x[:, :2], whole._replace(carry=(), mask=None))
    results = [jax.jit(algo.update)(agent, jax.random.key(0), rollout) for rollout in (whole, part)]
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6), *results)


def test_mean_and_spread_of_what_counts():
    rng = np.random.default_rng(0)
    x, mask = rng.normal(size=(5, 6)).astype(np.float32), rng.random((5, 6)) < 0.5
    for found, expected in (
        (masked.mean(x, mask), x[mask].mean()),
        (masked.variance(x, mask), x[mask].var()),
        (masked.std(x, mask), x[mask].std()),
        (masked.standardize(x, mask)[mask], (x[mask] - x[mask].mean()) / x[mask].std()),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert masked.mean(x) == jnp.mean(x) and masked.std(x) == jnp.std(x)
    nothing = jnp.zeros_like(mask)
    assert masked.mean(jnp.full_like(x, jnp.nan), nothing) == 0.0 and masked.variance(x, nothing) == 0.0


@pytest.mark.long
def test_normalizers_see_what_counts():
    rng = np.random.default_rng(1)
    x = rng.normal(3.0, 2.0, (LENGTH, NUM_ENVS, 2)).astype(np.float32)
    statistics = RunningStatistics.create(jax.ShapeDtypeStruct((2,), jnp.float32))
    nothing = statistics.update(x, np.zeros_like(MASK))
    jax.tree.map(np.testing.assert_array_equal, nothing, statistics)
    seen = nothing.update(x, MASK)
    assert float(seen.samples) == MASK.sum()
    np.testing.assert_allclose(seen.mean, x[MASK].mean(0), rtol=1e-5)
    np.testing.assert_allclose(seen.variance, x[MASK].var(0), rtol=1e-4)
    scale = ReturnScale.create(NUM_ENVS).update(x[..., 0], TERMINATED | TRUNCATED, 0.9, MASK)
    found = []
    for env in range(NUM_ENVS):
        total = 0.0
        for t in np.flatnonzero(MASK[:, env]):
            total = 0.9 * total + float(x[t, env, 0])
            found.append(total)
            total = 0.0 if (TERMINATED | TRUNCATED)[t, env] else total
    np.testing.assert_allclose(scale.statistics.variance, np.var(found), rtol=1e-4)


@pytest.mark.long
def test_explained_variance_by_hand():
    target = jnp.array([1.0, 2.0, 3.0, 6.0])  # variance 3.5
    assert float(masked.explained_variance(target, target)) == 1.0
    np.testing.assert_allclose(masked.explained_variance(jnp.full(4, 7.0), target), 0.0, atol=1e-6)
    value = jnp.array([1.0, 2.0, 3.0, 2.0])  # errors 0, 0, 0, 4: variance 3
    np.testing.assert_allclose(masked.explained_variance(value, target), 1 - 3 / 3.5, rtol=1e-5)
    assert float(masked.explained_variance(-target, target)) < -1.0  # worse than a constant


@pytest.mark.long
def test_explained_variance_of_what_counts(key):
    value, target = jax.random.normal(key, (2, 6, 5))
    mask = jnp.arange(30).reshape(6, 5) % 4 > 0
    part = masked.explained_variance(value[mask], target[mask])
    np.testing.assert_allclose(masked.explained_variance(value, target, mask), part, rtol=1e-4)
    changed = jnp.where(mask, value, 1e3)
    np.testing.assert_allclose(masked.explained_variance(changed, target, mask), part, rtol=1e-4)
    with pytest.raises(AssertionError):
        masked.mean(value, mask[:5])
    with pytest.raises(AssertionError):
        masked.explained_variance(value[0], target)
