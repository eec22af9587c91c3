"""A policy that starts from a trained agent: what it keeps, what is reset, and what is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.mappo import MAPPOConfig
from purerl.algos.ppo import ppo
from purerl.envs.games.coin_game import CoinGame
from purerl.errors import InputError
from purerl.extensions.groups.joint import Policy, multi_agent, policies_for
from purerl.loop.train import make_trainer
from tests.helpers.groups import SMALL


def trained(algorithm, config, updates=10):
    """Return (the joint config, its trainer, the state after a whole run) of both players of CoinGame."""
    joint = policies_for(CoinGame(), algorithm, config)
    trainer = make_trainer(multi_agent, CoinGame(), joint)
    state, step = jax.jit(trainer.init)(jax.random.key(0)), jax.jit(trainer.step)
    for _ in range(updates):
        state, _ = step(state)
    return joint, trainer, state


def moved(before, after):
    pairs = zip(*map(jax.tree.leaves, (before, after)), strict=True)
    return max(np.abs(x - y).max(initial=0.0) for x, y in pairs)


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_a_policy_that_starts_from_a_trained_one_learns_on(algorithm):
    """Its schedules, optimizer and replay are reset: both players learn, and explore as much as initially."""
    shared = {"num_envs": 4, "rollout_length": 8, "total_timesteps": 320, "learning_rate_schedule": "linear"}
    if algorithm == "ppo":
        function, config = ppo, MAPPOConfig(**shared, num_minibatches=2, num_epochs=1, normalize_value=True)
    else:
        function = dqn
        config = DQNConfig(**shared, learning_starts=64, batch_size=16, replay_capacity=512, n_step=2)
    _, _, before = trained(function, config)
    start = before.agent["red"]
    joint = policies_for(
        CoinGame(), function, config, red=Policy(algorithm=function, config=config, groups=("red",), agent=start)
    )
    trainer = make_trainer(multi_agent, CoinGame(), joint)
    state = jax.jit(trainer.init)(jax.random.key(1))
    jax.tree.map(np.testing.assert_array_equal, state.agent["red"].params, start.params)
    fresh = jax.tree.map(lambda x: x, state.agent["blue"]._replace(params=start.params))
    known = {"dqn": "target_params", "ppo": "value_statistics"}[algorithm]
    fresh = fresh._replace(**{known: getattr(start, known)})
    jax.tree.map(np.testing.assert_array_equal, state.agent["red"], fresh)
    step, begun = jax.jit(trainer.step), state.agent
    for _ in range(5):
        state, _ = step(state)
    far = {name: moved(begun[name].params, state.agent[name].params) for name in ("red", "blue")}
    assert min(far.values()) > 0.3 * max(far.values()), far


@pytest.mark.long
def test_a_frozen_policy_acts_as_it_did():
    """To the bit, also where it explores: by its own horizon, not by that of the run that it plays in."""
    shared = {"num_envs": 4, "rollout_length": 8, "learning_starts": 64, "batch_size": 16, "replay_capacity": 512}
    config = DQNConfig(**shared, total_timesteps=320)
    joint, trainer, state = trained(dqn, config)
    policy = joint.policies["red"]
    frozen = Policy(algorithm=dqn, config=config, groups=("red",), frozen=True, agent=state.agent["red"])
    longer = dataclasses.replace(config, total_timesteps=100_000, num_envs=8)
    other = make_trainer(multi_agent, CoinGame(), policies_for(CoinGame(), dqn, longer, red=frozen))
    begun = jax.jit(other.init)(jax.random.key(3))
    assert policy.config == config
    seen = jax.tree.map(lambda x: x[:4], begun.observation)
    none = trainer.algorithm.initial_carry(4)
    action = lambda algorithm, agent, key: algorithm.act(agent, none, key, seen, True)[0]["red"]
    keys = jax.random.split(jax.random.key(4), 50)
    did, does = (
        jax.vmap(lambda key, a=a, agent=agent: action(a, agent, key))(keys)
        for a, agent in ((trainer.algorithm, state.agent), (other.algorithm, begun.agent))
    )
    np.testing.assert_array_equal(did, does)
    greedy = trainer.algorithm.act(state.agent, none, keys[0], seen, False)[0]["red"]
    assert 0 < np.mean(np.asarray(did) != np.asarray(greedy)[None]) < 0.1  # epsilon is 0.05 at the end of its run


@pytest.mark.long
def test_a_given_agent_without_parameters_is_refused():
    policy = Policy(algorithm=ppo, config=SMALL, groups=("red",), agent={"weights": jnp.zeros(3)})
    with pytest.raises(InputError, match="policy 'red' cannot start from the given agent, which has no field params"):
        make_trainer(multi_agent, CoinGame(), policies_for(CoinGame(), ppo, SMALL, red=policy)).init(jax.random.key(0))


@pytest.mark.long
def test_a_policy_that_would_lose_its_statistics_is_refused():
    """It acts on standardized observations; without their statistics it would act on others."""
    shared = {"num_envs": 4, "rollout_length": 8, "learning_starts": 64, "batch_size": 16, "replay_capacity": 512}
    with_statistics = DQNConfig(**shared, normalize_observation=True)
    env = CoinGame()
    init = lambda config, **by_group: make_trainer(multi_agent, env, policies_for(env, dqn, config, **by_group)).init
    start = jax.jit(init(with_statistics))(jax.random.key(0)).agent["red"]
    plain = DQNConfig(**shared)
    red = Policy(algorithm=dqn, config=plain, groups=("red",), agent=start)
    with pytest.raises(InputError, match="'red' cannot keep these parts of the given agent: observation_statistics"):
        init(plain, red=red)(jax.random.key(0))
