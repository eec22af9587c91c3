"""A trained agent that acts: the actions of its algorithm, alone or as a batch, with what it remembers inside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.a2c import A2CConfig, a2c
from purerl.envs.memory.repeat_previous import RepeatPrevious
from purerl.errors import InputError
from purerl.loop.train import make_trainer
from purerl.run.acting import ActingPolicy

ENV = RepeatPrevious()


@pytest.fixture(scope="module")
def recurrent():
    """(algorithm, agent) of a recurrent policy, whose actions depend on what it has seen."""
    config = A2CConfig(num_envs=2, rollout_length=4, hidden_sizes=(8,), rnn="gru", rnn_size=8, total_timesteps=80)
    trainer = make_trainer(a2c, ENV, config)
    agent = trainer.algorithm.init(jax.random.key(3))
    return trainer.algorithm, jax.tree.map(lambda x: 3 * x if jnp.issubdtype(x.dtype, jnp.floating) else x, agent)


def observations(count, num):
    like = ENV.observation_space
    keys = jax.random.split(jax.random.key(1), count * num)
    drawn = jax.vmap(like.sample)(keys)
    return jax.tree.map(lambda x: np.asarray(x).reshape(count, num, *x.shape[1:]), drawn)


def by_hand(algorithm, agent, seen):
    carry, actions = algorithm.initial_carry(seen.shape[1]), []
    for step in seen:
        action, carry, _ = algorithm.act(agent, carry, jax.random.key(0), jnp.asarray(step), False)
        actions.append(np.asarray(action))
    return np.stack(actions)


@pytest.mark.long
def test_what_it_remembers_stays_inside(recurrent):
    algorithm, agent = recurrent
    seen = observations(12, 3)
    wanted = by_hand(algorithm, agent, seen)
    policy = ActingPolicy(algorithm, agent, ENV)
    batch = np.stack([np.asarray(policy(step)) for step in seen])
    np.testing.assert_array_equal(batch, wanted)
    assert (np.stack([by_hand(algorithm, agent, step[None])[0] for step in seen]) != wanted).any(), "memory matters"
    with pytest.raises(InputError, match=r"remembers 3 episodes; reset\(\) before it sees 1"):
        policy(seen[0, 0])
    policy.reset()
    alone = [policy(step[1]) for step in seen]
    np.testing.assert_array_equal(alone, wanted[:, 1])
    assert alone[0].shape == wanted[0, 1].shape


@pytest.mark.long
def test_members_of_a_batch_begin_again(recurrent):
    algorithm, agent = recurrent
    seen = observations(8, 2)
    policy = ActingPolicy(algorithm, agent, ENV)
    for step in seen[:4]:
        policy(step)
    policy.reset(np.array([False, True]))
    last = np.stack([np.asarray(policy(step)) for step in seen[4:]])
    np.testing.assert_array_equal(last[:, 0], by_hand(algorithm, agent, seen)[4:, 0])
    np.testing.assert_array_equal(last[:, 1], by_hand(algorithm, agent, seen[4:])[:, 1])


@pytest.mark.long_for("given0", "given1")
@pytest.mark.parametrize("given", [np.zeros((2, 2, 2)), np.zeros(99), {"a": np.zeros(1)}])
def test_what_is_no_observation(recurrent, given):
    with pytest.raises(InputError, match=r"the observation .*; it must be \w+\[\d*\]") as caught:
        ActingPolicy(*recurrent, ENV)(given)
    assert "\n" not in str(caught.value)


def test_it_explores_on_request(recurrent):
    policy = ActingPolicy(recurrent[0], jax.tree.map(jnp.zeros_like, recurrent[1]), ENV, explore=True, seed=2)
    actions = [int(np.ravel(policy(observations(1, 1)[0, 0]))[0]) for _ in range(20)]
    assert len(set(actions)) > 1


@pytest.mark.long
def test_what_it_explores_differs_from_episode_to_episode(recurrent):
    policy = ActingPolicy(recurrent[0], jax.tree.map(jnp.zeros_like, recurrent[1]), ENV, explore=True, seed=2)
    episodes = []
    for _ in range(3):
        policy.reset()
        episodes.append(tuple(int(np.ravel(policy(observations(1, 1)[0, 0]))[0]) for _ in range(20)))
    assert len(set(episodes)) == 3
