"""A trained agent that acts: the actions of its algorithm, alone or as a batch, with what it remembers inside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.algos.a2c import A2CConfig, a2c
from purerl.envs.memory.repeat_previous import RepeatPrevious
from purerl.errors import InputError
from purerl.extensions.groups.policies import at_random
from purerl.host_environment import HostSource
from purerl.loop.train import make_trainer
from purerl.run.acting import ActingPolicy
from purerl.spaces import Box, Dict, Discrete
from purerl.types import EnvironmentSpec

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
    with pytest.raises(InputError, match=r"remembers 3 episodes; call reset\(\) before you pass 1"):
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


class Parts(HostSource):
    """Observes a tuple of a choice and a vector; takes a choice that starts at 3 and a float64 up to 0.1."""

    id = "parts"
    observation_space = Dict(spaces={"0": Discrete(n=4), "1": Box(low=-1, high=1, shape=(2,))})
    action_space = Dict(spaces={"0": Discrete(n=2), "1": Box(low=0, high=0.1, shape=(1,))})

    def sent(self, action):
        return action["0"].astype(np.int64) + 3, np.minimum(action["1"].astype(np.float64) + 0.1, 0.1)


@pytest.mark.parametrize("as_given", [tuple, list, lambda pair: dict(zip("01", pair, strict=True))])
def test_observations_and_actions_are_those_of_the_environment(as_given):
    policy = ActingPolicy(at_random(EnvironmentSpec(Parts.observation_space, Parts.action_space), None), (), Parts())
    choice, level = policy(as_given((2, [0.5, -0.5])))
    assert type(choice) is np.int64 and int(choice) in (3, 4) and hash(choice) == int(choice)
    assert (type(level), level.dtype, level.tolist()) == (np.ndarray, np.float64, [0.1])
    choices, levels = policy(as_given((np.arange(3), np.zeros((3, 2)))))
    assert (choices.shape, levels.shape) == ((3,), (3, 1))
    with pytest.raises(InputError, match=r"the observation is a tuple; it must be 0 int32\[\], 1 float32\[2\]"):
        policy((2, [0.5, "x"]))


def test_it_plays_in_a_program():
    policy = ActingPolicy(at_random(EnvironmentSpec(ENV.observation_space, ENV.action_space), None), (), ENV)
    assert len(purerl.play(ENV, policy, jax.random.key(0), max_steps=5).action) == 5
    with pytest.raises(InputError, match=r"different spaces: action_space Discrete\(4\), here Discrete\(2\)"):
        purerl.play(purerl.make("CartPole-v1"), policy, jax.random.key(0))
