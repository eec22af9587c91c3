"""Groups of agents: their sizes, their rewards by hand, and random actions for them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import agent_groups
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.games.coin_game import CoinGame
from purerl.envs.tag.continuous import TagContinuous
from purerl.errors import InputError
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Stacked
from purerl.types import EnvironmentSpec

PAIR, ONE = Stacked(space=Box(low=0, high=1, shape=(3,)), n=2), Stacked(space=Discrete(n=4), n=1)
ACTIONS = Dict(spaces={"foxes": Stacked(space=Discrete(n=4), n=2), "hens": ONE})


def test_sizes():
    assert agent_groups.sizes(CartPole()) == {}
    assert agent_groups.sizes(TagContinuous(num_taggers=2, num_runners=5)) == {"runners": 5, "taggers": 2}
    mixed = EnvironmentSpec(PAIR, Dict(spaces={"foxes": ONE, "hens": Discrete(n=2)}))
    with pytest.raises(InputError, match=r"action_space\['hens'\] is not a Stacked space"):
        agent_groups.sizes(mixed)


def test_rewards_by_hand():
    """Two steps of a pair and of one: the mean over all three agents, and over each group's."""
    reward = {"foxes": jnp.array([[1.0, 2.0], [0.0, 4.0]]), "hens": jnp.array([[6.0], [-1.0]])}
    np.testing.assert_allclose(agent_groups.mean_reward(reward), [3.0, 1.0])
    found = agent_groups.group_rewards(reward)
    np.testing.assert_allclose(found["foxes"], [1.5, 2.0])
    np.testing.assert_allclose(found["hens"], [6.0, -1.0])
    single = jnp.array([5.0, 7.0])
    assert agent_groups.mean_reward(single) is single and agent_groups.group_rewards(single) == {}


@pytest.mark.long
def test_actions_are_drawn_among_the_legal_ones(key):
    flags = Box(low=0, high=1, shape=(4,), dtype=jnp.bool_)
    masked = Dict(spaces={"observation": Box(low=0, high=1, shape=(1,)), "action_mask": flags})
    seen = {
        "observation": jnp.zeros((2, 1)),
        "action_mask": jnp.array([[True, False, True, False], [False] * 3 + [True]]),
    }
    space = Dict(spaces={"foxes": Stacked(space=Discrete(n=4), n=2), "hens": ONE})
    assert masked.contains(jax.tree.map(lambda x: x[0], seen))
    observation = {"foxes": seen, "hens": jnp.zeros((1, 1))}
    drawn = jax.vmap(lambda k: agent_groups.draw(space, k, observation))(jax.random.split(key, 4000))
    assert drawn["foxes"].shape == (4000, 2) and drawn["hens"].shape == (4000, 1)
    count = lambda x: np.bincount(np.asarray(x), minlength=4) / 4000
    np.testing.assert_allclose(count(drawn["foxes"][:, 0]), [0.5, 0, 0.5, 0], atol=0.04)
    np.testing.assert_allclose(count(drawn["foxes"][:, 1]), [0, 0, 0, 1])
    np.testing.assert_allclose(count(drawn["hens"][:, 0]), [0.25] * 4, atol=0.04)


def seen(**parts):
    return EnvironmentSpec(Dict(spaces={"foxes": PAIR, "hens": Stacked(space=PAIR.space, n=1), **parts}), ACTIONS)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (EnvironmentSpec(PAIR, Discrete(n=2)), "it has no groups of agents"),
        (seen(foxs=PAIR), "unknown part of it.observation_space 'foxs': did you mean 'foxes'"),
        (seen(hens=PAIR), r"observation_space\['hens'\] must be a Stacked space of 1 agents"),
        (seen(active=Dict(spaces={"foxes": PAIR.space})), r"\['active'\]\['foxes'\] must be bool\[2\]"),
        (seen(turn=Dict(spaces={"cocks": PAIR.space})), r"\['turn'\]\['cocks'\] must be of a group"),
    ],
)
def test_spaces_that_do_not_fit_together(spec, message):
    with pytest.raises(InputError, match=message):
        agent_groups.check("it", spec)


@pytest.mark.long
def test_spaces_that_fit():
    flags = Dict(spaces={"foxes": Box(low=0, high=1, shape=(2,), dtype=jnp.bool_)})
    agent_groups.check("it", seen(active=flags, global_state=PAIR.space))
    agent_groups.check("CoinGame", CoinGame())


@pytest.mark.long
def test_several_choices_are_drawn_among_the_legal_ones(key):
    legal = jnp.array([False, True, True, False, True])
    space = MultiDiscrete(nvec=(3, 2))
    drawn = jax.vmap(lambda k: agent_groups.draw(space, k, {"action_mask": legal}))(jax.random.split(key, 1000))
    assert drawn.dtype == jnp.int32 and space.contains(drawn[0])
    np.testing.assert_allclose(np.bincount(drawn[:, 0], minlength=3) / 1000, [0, 0.5, 0.5], atol=0.06)
    assert set(np.unique(drawn[:, 1])) == {1}


def test_actions_by_name_of_a_single_agent_are_drawn(key):
    """Its observation has other names, or none."""
    space = Dict({"turn": Discrete(3), "push": Box(-1, 1, (2,))})
    drawn = agent_groups.draw(space, key, {"observation": jnp.zeros(4)})
    assert bool(space.contains(drawn))
