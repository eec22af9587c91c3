"""PQN: its return against NumPy by hand, and the error of seeding it one step off."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.pqn import PQNConfig, pqn
from purerl.errors import InputError
from purerl.functional.returns import lambda_returns
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

REWARD = np.array([1.0, 2.0, 3.0, 4.0])
NEXT_VALUE = np.array([10.0, 20.0, 30.0, 40.0])  # max_a Q(s'_t, a)


def q_lambda(reward, next_value, terminated, done, discount, lam):
    """The forward view: a weighted mean of n-step returns, computed without a recursion."""
    total = np.zeros(len(reward))
    for start in range(len(reward)):
        rewards, weight, scale = 0.0, 1.0, 1.0
        for t in range(start, len(reward)):
            rewards += scale * reward[t]
            scale *= discount
            n_step = rewards + (0.0 if terminated[t] else scale * next_value[t])
            last = done[t] or t == len(reward) - 1
            total[start] += weight * (1.0 if last else 1.0 - lam) * n_step
            if last:
                break
            weight *= lam
    return total


def column(x, dtype=jnp.float32):
    return jnp.asarray(x, dtype)[:, None]


@pytest.mark.parametrize("lam", [0.0, 0.65, 1.0])
@pytest.mark.parametrize("ending", ["none", "terminated", "truncated"])
def test_q_lambda_equals_the_forward_view(lam, ending):
    terminated = np.array([False, ending == "terminated", False, False])
    done = np.array([False, ending != "none", False, False])
    returns = lambda_returns(column(REWARD), column(NEXT_VALUE), column(terminated, bool), column(done, bool), 0.9, lam)
    np.testing.assert_allclose(returns[:, 0], q_lambda(REWARD, NEXT_VALUE, terminated, done, 0.9, lam), rtol=1e-6)


def test_golden_last_steps():
    never = column(np.zeros(4), bool)
    returns = lambda_returns(column(REWARD), column(NEXT_VALUE), never, never, 0.9, 0.5)[:, 0]
    # By hand: G_3 = 4 + 0.9 x 40 = 40;  G_2 = 3 + 0.9 (0.5 x 30 + 0.5 x 40) = 34.5
    np.testing.assert_allclose(returns[2:], [34.5, 40.0], rtol=1e-6)


def test_seeding_one_step_off_would_be_wrong_by_a_known_amount():
    """The reference bootstraps the second-last step from the last step's own value, and drops the last reward."""
    discount, lam = 0.9, 0.5
    value_of_last = 100.0  # max_a Q(s_3, a), which a run seeded one step off uses in place of G_3
    wrong = REWARD[2] + discount * ((1 - lam) * NEXT_VALUE[2] + lam * value_of_last)
    never = column(np.zeros(4), bool)
    right = lambda_returns(column(REWARD), column(NEXT_VALUE), never, never, discount, lam)[2, 0]
    assert wrong - right == pytest.approx(discount * lam * (value_of_last - 40.0), rel=1e-5)


def test_targets_do_not_leak_over_a_time_limit():
    done = column([False, True, False, False], bool)
    base = lambda_returns(column(REWARD), column(NEXT_VALUE), column(np.zeros(4), bool), done, 0.9, 1.0)
    later = column(REWARD + np.array([0.0, 0.0, 100.0, 100.0]))
    moved = lambda_returns(later, column(NEXT_VALUE), column(np.zeros(4), bool), done, 0.9, 1.0)
    np.testing.assert_array_equal(base[:2], moved[:2])
    assert base[1, 0] == pytest.approx(2.0 + 0.9 * 20.0)


@pytest.mark.long
def test_the_memory_of_a_recurrent_agent_changes_what_it_does(key):
    spec = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(3,)), Discrete(n=4))
    algorithm = pqn(spec, PQNConfig(rnn="gru", num_envs=32))
    agent = algorithm.init(key)
    observation = jax.random.normal(key, (2, 3))
    carry = algorithm.initial_carry(2)
    _, later, _ = algorithm.act(agent, carry, key, observation, False)
    assert jnp.any(jax.tree.leaves(later)[0] != jax.tree.leaves(carry)[0])


def test_refuses_continuous_actions_and_minibatches_that_do_not_divide():
    box = Box(low=-1.0, high=1.0, shape=(3,))
    with pytest.raises(InputError, match="discrete"):
        pqn(EnvironmentSpec(box, box), PQNConfig())
    with pytest.raises(InputError, match="num_minibatches 7 does not divide"):
        pqn(EnvironmentSpec(box, Discrete(n=2)), PQNConfig(num_minibatches=7))


@pytest.mark.long
def test_what_an_episode_showed_is_no_part_of_the_next_ones_targets():
    """The loss of the steps after an episode's end is bit-identical whatever was observed before it."""
    config = PQNConfig(num_envs=2, rollout_length=6, num_minibatches=1, num_epochs=1, rnn="gru", rnn_size=5)
    algorithm = pqn(EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(2,)), Discrete(n=3)), config)
    rng = np.random.default_rng(0)
    ends = np.broadcast_to(np.arange(6)[:, None] == 2, (6, 2))
    seen = rng.normal(size=(7, 2, 2)).astype(np.float32)
    rollout = Rollout(
        observation=jnp.asarray(seen[:-1]),
        action=jnp.asarray(rng.integers(0, 3, (6, 2)), jnp.int32),
        reward=jnp.asarray(rng.normal(size=(6, 2)), jnp.float32),
        terminated=jnp.asarray(ends),
        truncated=jnp.zeros((6, 2), bool),
        next_observation=jnp.asarray(seen[1:]),
        extras=(),
        carry=algorithm.initial_carry(2),
        mask=jnp.asarray(np.broadcast_to(np.arange(6)[:, None] > 2, (6, 2))),
    )
    agent, update = algorithm.init(jax.random.key(0)), jax.jit(algorithm.update)
    loss = lambda rollout: float(update(agent, jax.random.key(1), rollout)[1]["loss"])
    other = rollout._replace(observation=rollout.observation.at[:3].add(0.5))
    assert loss(rollout) == loss(other) > 0
    assert loss(rollout) != loss(rollout._replace(observation=rollout.observation.at[3].add(0.5)))
