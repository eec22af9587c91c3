"""The Q function of a team's agents: separate for each agent, evaluated in parallel, and its targets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.team_network import team_network
from purerl.algos.value_decomposition import VDNConfig
from purerl.errors import InputError
from purerl.networks.q_networks import q_network
from purerl.networks.recurrent_q_network import recurrent_q_network
from purerl.replay.uniform import Transitions
from purerl.spaces import Box, Dict, Discrete, Stacked
from purerl.types import EnvironmentSpec

AGENTS = Stacked(space=Box(low=-1, high=1, shape=(2,)), n=3)
SPEC = EnvironmentSpec(Dict(spaces={"agents": AGENTS}), Stacked(space=Discrete(n=4), n=3))
SMALL = {"num_envs": 4, "learning_starts": 16, "batch_size": 4, "replay_capacity": 64, "hidden_sizes": (5,)}


def made(**changes):
    config = VDNConfig(**SMALL | changes)
    return config, team_network(SPEC, config, AGENTS, 4, None, what="vdn")


@pytest.mark.long_for("False", "True")
@pytest.mark.parametrize("double", [False, True])
def test_what_a_transition_teaches_by_hand(double):
    config, network = made(double=double)
    one = q_network(AGENTS.space, 4, config)
    params, target = (one.init(jax.random.key(i)) for i in range(2))
    random = np.random.default_rng(0)
    observation, following = ({"agents": random.normal(size=(6, 3, 2)).astype(np.float32)} for _ in range(2))
    reward, discount = random.normal(size=(2, 6)).astype(np.float32)
    batch = Transitions(
        observation=observation,
        action=random.integers(4, size=(6, 3)),
        reward=reward,
        discount=discount,
        next_observation=following,
        weight=np.ones(6, np.float32),
        start=np.arange(6),
    )
    steps = network.learn(params, target, batch)
    q = lambda params, seen, agent: np.asarray(one.apply(params, jnp.asarray(seen["agents"][:, agent]), None))
    for agent in range(3):
        rows, chooser = np.arange(6), params if double else target
        best = q(chooser, following, agent).argmax(axis=1)
        taken = q(params, observation, agent)[rows, batch.action[:, agent]]
        np.testing.assert_allclose(steps.values[:, agent], taken, atol=1e-6)
        np.testing.assert_allclose(steps.next_values[:, agent], q(target, following, agent)[rows, best], atol=1e-6)
    np.testing.assert_allclose(steps.target(jnp.full(6, 2.0)), reward + 2.0 * discount, atol=1e-6)


@pytest.mark.long
def test_each_agent_has_a_memory_of_its_own():
    config, network = made(rnn="gru", rnn_size=6, rollout_length=4)
    one = recurrent_q_network(AGENTS.space, 4, config, rnn="gru", rnn_size=6, dueling=False)
    params, carry = network.init(jax.random.key(0)), network.initial_carry(2)
    seen = np.random.default_rng(0).normal(size=(5, 2, 3, 2)).astype(np.float32)
    alone = [one.initial_carry(2) for _ in range(3)]
    for t in range(5):
        q, carry = network.step(params, carry, seen[t])
        assert q.shape == (2, 3, 4)
        for agent in range(3):
            expected, alone[agent] = one.step(params, alone[agent], seen[t, :, agent])
            np.testing.assert_allclose(q[:, agent], expected, atol=1e-6)


def test_sequences_need_a_recurrent_network():
    for changes in ({"burn_in": 5}, {"sequence_length": 4}):
        with pytest.raises(InputError, match=r"vdn: burn_in and sequence_length .* also set rnn"):
            made(**changes)
