"""What algorithms that search share: drawn actions, scales of values, and returns over the values that were found."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.alphazero import AlphaZeroConfig, alphazero
from purerl.algos.muzero import MuZeroConfig, muzero
from purerl.envs.classic.cartpole import CartPole
from purerl.functional.distributions import Categorical, Joint, Normal
from purerl.networks.actor_critic import actor_critic
from purerl.planning.search import (
    Found,
    SearchConfig,
    acts,
    from_scale,
    log_probs,
    network_for,
    offer,
    offered,
    search_returns,
    to_scale,
)
from purerl.prng import fast
from purerl.spaces import Box, Dict, Discrete
from purerl.training import make_trainer
from purerl.types import EnvironmentSpec, Rollout
from tests.helpers.restated import Restated

MASK = jnp.array([True, False, True])


def test_drawn_actions_are_legal_and_marked():
    found = Found(action=jnp.zeros(900, jnp.int32), weights=jnp.full((900, 3), 1 / 3), value=jnp.zeros(900))
    legal = jnp.broadcast_to(MASK, (900, 3))
    action, extras = acts(fast(jax.random.key(0)), found, legal, SearchConfig(epsilon=0.5))
    drawn = np.asarray(extras["drawn"])
    assert 0.4 < drawn.mean() < 0.6 and set(np.asarray(action)[~drawn].tolist()) == {0}
    assert set(np.asarray(action)[drawn].tolist()) == {0, 2}
    free, _ = acts(fast(jax.random.key(0)), found, None, SearchConfig(epsilon=1.0))
    assert set(np.asarray(free).tolist()) == {0, 1, 2}


def test_scales():
    value = jnp.array([-200.0, 0.0, 3.0])
    plain, squeezed = SearchConfig(), SearchConfig(rescale_value=True)
    np.testing.assert_array_equal(to_scale(plain, value), value)
    np.testing.assert_allclose(to_scale(squeezed, value)[2], 2.0 - 1.0 + 0.003, rtol=1e-6)
    np.testing.assert_allclose(from_scale(squeezed, to_scale(squeezed, value)), value, rtol=1e-4)


def test_returns_over_what_was_found():
    """r = 1 each step and the discount .5: v = 10, 20, 30, and 40 judged after the last."""
    column = lambda x: jnp.asarray(x)[:, None]

    def returns(td_lambda, drawn=(False, False, False), terminated=(False, False, False)):
        extras = {"value": column(np.array([10.0, 20.0, 30.0], np.float32)), "drawn": column(np.array(drawn))}
        rollout = Rollout(
            observation=(),
            action=(),
            reward=jnp.ones((3, 1)),
            terminated=column(np.array(terminated)),
            truncated=jnp.zeros((3, 1), bool),
            next_observation=(),
            extras=extras,
            carry=(),
        )
        return search_returns(rollout, column(np.array([4.0, 5.0, 40.0], np.float32)), 0.5, td_lambda)[:, 0].tolist()

    assert returns(1.0) == [1 + 0.5 * (1 + 0.5 * 21), 1 + 0.5 * 21, 21]
    assert returns(0.0) == [11, 16, 21]
    assert returns(1.0, terminated=(False, True, False)) == [1.5, 1, 21]
    assert returns(1.0, drawn=(False, True, False)) == [11, 20, 21], "where an action was drawn the found value stands"


def test_a_network_for_search_knows_what_is_legal():
    space = Dict(
        spaces={
            "observation": Box(low=-1.0, high=1.0, shape=(2,)),
            "action_mask": Box(low=0, high=1, shape=(3,), dtype=jnp.bool_),
        }
    )
    config = dataclasses.replace(SearchConfig(), hidden_sizes=(8,))
    net = network_for(EnvironmentSpec(space, Discrete(n=3)), config, actor_critic)
    seen = {"observation": jnp.zeros((4, 5, 2)), "action_mask": jnp.broadcast_to(MASK, (4, 5, 3))}
    policy, value = net.apply(net.init(jax.random.key(0)), seen)
    assert policy.logits.shape == (4, 5, 3) and value.shape == (4, 5)
    assert (jax.nn.softmax(policy.logits)[..., 1] == 0).all()


def test_a_categorical_policy_offers_every_action():
    logits = jnp.array([[0.5, -1.0, 2.0], [0.0, 1.0, -1e9]])
    found = offer(Categorical(logits), jax.random.key(0), SearchConfig())
    assert found.logits is logits and found.draws == ()
    assert offered(found.draws, jnp.array([2, 0])).tolist() == [2, 0]
    np.testing.assert_allclose(log_probs(Categorical(logits), ()), jax.nn.log_softmax(logits), rtol=1e-6)


def test_other_policies_offer_a_sample_that_follows_them():
    mean, log_std = jnp.array([[1.0, -2.0], [0.0, 4.0]]), jnp.array([0.5, -1.0])
    policy = Joint({"move": Normal(mean, log_std), "kind": Categorical(jnp.array([[0.0, 1.0], [3.0, 0.0]]))})
    found = offer(policy, jax.random.key(0), dataclasses.replace(SearchConfig(), num_sampled_actions=4000))
    move, kind = found.draws["move"], found.draws["kind"]
    assert move.shape == (2, 4000, 2) and kind.shape == (2, 4000) and not found.logits.any()
    np.testing.assert_allclose(move.mean(axis=1), mean, atol=0.15)
    np.testing.assert_allclose(move.std(axis=1), np.exp([[0.5, -1.0]] * 2), rtol=0.1)
    np.testing.assert_allclose(kind.mean(axis=1), [1 / (1 + np.exp(-1)), 1 / (1 + np.exp(3))], atol=0.05)
    chosen = offered(found.draws, jnp.array([7, 3]))
    assert jax.tree.all(jax.tree.map(lambda x, y: (x == jnp.stack([y[0, 7], y[1, 3]])).all(), chosen, found.draws))
    each = log_probs(policy, found.draws)
    assert each.shape == (2, 4000)
    alone = Normal(mean[1], log_std).log_prob(move[1, 9]) + Categorical(jnp.array([3.0, 0.0])).log_prob(kind[1, 9])
    np.testing.assert_allclose(each[1, 9], alone, rtol=1e-5)
    best = offer(policy, jax.random.key(0), SearchConfig(), best=True)
    np.testing.assert_array_equal(best.draws["move"][:, 0], mean)
    assert best.draws["kind"][:, 0].tolist() == [1, 0] and best.draws["move"].shape == (2, 16, 2)


@pytest.mark.parametrize(("factory", "of"), [(alphazero, AlphaZeroConfig), (muzero, MuZeroConfig)])
def test_normalized_observations_do_not_depend_on_their_scale(factory, of):
    sizes = {"num_envs": 4, "rollout_length": 4, "num_simulations": 4, "num_minibatches": 2, "hidden_sizes": (8,)}
    config = of(**sizes, normalize_observation=True)

    def after(scale, offset):
        trainer = make_trainer(factory, Restated(env=CartPole(), scale=scale, offset=offset), config)
        state, step = jax.jit(trainer.init)(jax.random.key(0)), jax.jit(trainer.step)
        seen = scale * jax.random.normal(jax.random.key(1), (512, 4)) + offset
        statistics = state.agent.observation_statistics.update(seen, None)
        state = state._replace(agent=state.agent._replace(observation_statistics=statistics))
        for _ in range(4):
            state, _ = step(state)
        return state.agent

    plain, moved = after(1.0, 0.0), after(64.0, 32.0)
    assert float(plain.observation_statistics.samples) == 512 + 4 * config.steps_per_update
    mean = 64.0 * plain.observation_statistics.mean + 32.0
    np.testing.assert_allclose(moved.observation_statistics.mean, mean, rtol=1e-3, atol=0.1)
    for one, other in zip(*(jax.tree.leaves(agent.params) for agent in (plain, moved)), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)
