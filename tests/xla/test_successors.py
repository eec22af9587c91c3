"""Values of successors equal the network's values, computed with less work."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.algos.ppo import PPOConfig, ppo
from purerl.functional.distributions import action_head
from purerl.functional.returns import successor_values
from purerl.loop.train import collect, make_trainer
from purerl.networks.actor_critic import actor_critic
from purerl.xla import successors, switches

T, B = 32, 4


@partial(jax.jit, static_argnums=0)
def played(rnn, time_limit, key):
    """Return (parameters, values, the carry after each step, a rollout)."""
    trainer = make_trainer(ppo, purerl.make("CartPole-v1", time_limit=time_limit), config_of(rnn))
    state, rollout = collect(trainer.algorithm, trainer.vector, trainer.init(key), jax.random.key(1), T)
    params = state.agent.params
    _, values, carry = network(rnn).unroll(params, rollout.carry, rollout.observation, rollout.done)
    return params, values, carry, rollout


def config_of(rnn):
    return PPOConfig(num_envs=B, rollout_length=T, num_minibatches=2, rnn=rnn, hidden_sizes=(8,), rnn_size=8)


def network(rnn):
    env = purerl.make("CartPole-v1")
    return actor_critic(env.observation_space, action_head(env.action_space, False), config_of(rnn))


def rollout_of(rnn, time_limit, key):
    """Return (what values the network gives with these parameters, values, the carry after each step, a rollout)."""
    params, *rest = played(rnn, time_limit, key)
    return partial(jax.jit(network(rnn).value), params), *rest


@pytest.mark.long
@pytest.mark.parametrize("rnn", ["none", "gru"])
@pytest.mark.parametrize(("time_limit", "cut"), [(500, "none"), (20, "few"), (4, "many")])
def test_values_are_those_of_true_successors(key, monkeypatch, rnn, time_limit, cut):
    value_of, values, carry, rollout = rollout_of(rnn, time_limit, key)
    count, most = int(jnp.sum(rollout.truncated[:-1])), T * B // successors.SHARE
    assert {"none": count == 0, "few": 0 < count <= most, "many": count > most}[cut]
    assert cut == "many" or jnp.any(rollout.terminated)
    seen = []
    counted = lambda *at: (seen.append(len(jax.tree.leaves(at)[0].reshape(-1, 4))), value_of(*at))[1]
    found = jax.jit(lambda: successor_values(counted if rnn == "none" else value_of, values, carry, rollout))()
    expected = value_of(carry, rollout.next_observation)
    alive = np.asarray(~rollout.terminated)
    np.testing.assert_allclose(found[alive], expected[alive], rtol=1e-5, atol=1e-6)
    assert cut == "many" or not np.any(found[~alive])
    assert rnn != "none" or set(seen) == {T * B, B + most}  # the branches: all, and few
    with switches.off("successors"):
        np.testing.assert_array_equal(successor_values(value_of, values, carry, rollout), expected)


@pytest.mark.long
def test_seeds_side_by_side(key):
    """One seed with many cuts, one with none."""
    found = [rollout_of("none", limit, key) for limit in (4, 500)]
    value_of = found[0][0]
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *[each[1:] for each in found])
    both = jax.jit(jax.vmap(partial(successor_values, value_of)))(*stacked)
    for values, (_, _, _, rollout) in zip(both, found, strict=True):
        alive = np.asarray(~rollout.terminated)
        np.testing.assert_allclose(values[alive], value_of((), rollout.next_observation)[alive], rtol=1e-5, atol=1e-6)


@pytest.mark.long
def test_no_gradient_flows(key):
    value_of, _, carry, rollout = rollout_of("none", 20, key)

    def total(scale):
        scaled = lambda *at: scale * value_of(*at)
        return jnp.sum(successor_values(scaled, scaled((), rollout.observation), carry, rollout))

    assert jax.grad(total)(2.0) == 0.0


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("CartPole-v1", {"time_limit": 9}), ("Breakout-MinAtar", {}), ("Maze", {}), ("Pendulum-v1", {"time_limit": 5})],
)
def test_within_an_episode_the_successor_is_what_the_next_step_saw(key, name, parameters):
    config = PPOConfig(num_envs=B, rollout_length=T, hidden_sizes=(4,))
    trainer = make_trainer(ppo, purerl.make(name, **parameters), config)
    begun = lambda key: collect(trainer.algorithm, trainer.vector, trainer.init(key), jax.random.key(1), T)
    _, rollout = jax.jit(begun)(key)
    goes_on = np.asarray(~rollout.done[:-1])
    for after, seen in zip(*map(jax.tree.leaves, (rollout.next_observation, rollout.observation)), strict=True):
        np.testing.assert_array_equal(after[:-1][goes_on], seen[1:][goes_on])
