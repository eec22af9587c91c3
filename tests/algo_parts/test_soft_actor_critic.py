"""Soft actor-critic around other critics: with SAC's own it learns what SAC learns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algo_parts.soft_actor_critic import SoftCritics, soft_agent, squashed_policy
from purerl.algos.redq import REDQConfig
from purerl.algos.sac import SACConfig, sac
from purerl.networks.critics import critics
from purerl.optim.optimizers import adam_by_plan
from purerl.replay.uniform import Between
from purerl.spaces import Box
from purerl.types import EnvironmentSpec
from tests.helpers import replays

SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(2,)), Box(low=-2.0, high=6.0, shape=(1,)))
SIZES = {"hidden_sizes": (8,), "batch_size": 16, "replay_capacity": 256, "learning_starts": 1}
SIZES |= {"num_envs": 4, "rollout_length": 8, "num_gradient_steps": 1, "tau": 0.1}


def of_sac(config):
    """SAC's critics in this form."""
    policy = squashed_policy(SPEC, config, None, "test")

    def errors(outputs, targets):
        td_error = outputs - targets[:, 0]
        return 0.5 * jnp.sum(td_error**2, axis=0), jnp.mean(jnp.abs(td_error), axis=0)

    made = SoftCritics(
        networks=critics(SPEC.observation_space, 1, config, 2),
        next_values=lambda outputs, key: jnp.min(outputs, axis=0)[:, None],
        errors=errors,
        value=lambda outputs: jnp.min(outputs, axis=0),
    )
    return lambda replay: soft_agent(SPEC, config, policy, made, adam_by_plan, replay)


def test_it_begins_as_sac_does_and_acts_as_it(key):
    ours = of_sac(REDQConfig(**SIZES))(None)
    theirs = sac(SPEC, SACConfig(**SIZES))
    agent, other = ours.init(key), theirs.init(key)
    same = jax.tree.map(lambda x, y: bool(jnp.all(x == y)), agent.params, other.params)
    assert all(jax.tree.leaves(same))
    observation = jax.random.normal(key, (4, 2))
    for explore in (False, True):
        action, expected = (
            made.act(state, (), key, observation, explore)[0] for made, state in ((ours, agent), (theirs, other))
        )
        np.testing.assert_array_equal(action, expected)


def test_its_losses_are_sacs_where_the_policy_is_all_but_certain(key):
    """Draws differ by their keys; with a narrow policy and no weight on entropy they do not matter."""
    given = {**SIZES, "initial_temperature": 1e-9, "policy_period": 1}
    batch = replays.batch(key, 16, discount=0.9)
    ours = of_sac(REDQConfig(**given))(replays.fixed(batch))
    theirs = sac(
        SPEC,
        SACConfig(**{name: value for name, value in given.items() if name != "policy_period"}),
        replay=replays.fixed(batch),
    )
    agent = theirs.init(key)
    head = agent.params["actor"]["head"]
    narrow = head | {"bias": jnp.array([0.3, -18.0]), "kernel": head["kernel"].at[:, 1].set(0.0)}
    actor = agent.params["actor"] | {"head": narrow}
    put = lambda agent: agent._replace(params=agent.params | {"actor": actor})
    learned, metrics = ours.update(put(ours.init(key)), key, replays.rollout())
    other, expected = theirs.update(put(agent), key, replays.rollout())
    for name in ("critic_loss", "temperature"):
        assert float(metrics[name]) == pytest.approx(float(expected[name]), rel=1e-5)
    gap = jax.tree.map(lambda x, y: float(jnp.max(jnp.abs(x - y))), learned.target_params, other.target_params)
    assert max(jax.tree.leaves(gap)) < 1e-5


def test_entropies_of_the_steps_in_between_count(key):
    """With a discount of 0 at the end the target is the reward plus temperature times the discounted entropies."""
    plain = replays.batch(key, 16, discount=0.0)
    between = Between(observation=jnp.zeros((2, 16, 2)), discount=jnp.full((2, 16), 0.5))
    config = REDQConfig(**SIZES, n_step=3, initial_temperature=2.0, policy_period=100)

    def loss(batch):
        algorithm = of_sac(config)(replays.fixed(batch))
        agent = algorithm.init(key)
        certain = agent.params["actor"]["head"]
        certain = certain | {"bias": jnp.array([0.0, -3.0]), "kernel": jnp.zeros_like(certain["kernel"])}
        agent = agent._replace(params=agent.params | {"actor": agent.params["actor"] | {"head": certain}})
        outputs = replays.critic_outputs(SPEC, config, 2)(agent.params["critics"], batch)
        return float(algorithm.update(agent, key, replays.rollout())[1]["critic_loss"]), np.asarray(outputs)

    (without, outputs), (with_them, _) = loss(plain), loss(plain._replace(between=between))
    reward = np.asarray(plain.reward)
    assert without == pytest.approx(0.5 * np.mean(np.sum((outputs - reward) ** 2, axis=0)), rel=1e-5)
    entropy = 0.5 * np.log(2 * np.pi * np.e) - 3.0  # of a normal so narrow that tanh is flat there
    draws = 2.0 * 2 * 0.5 * entropy
    expected = 0.5 * np.mean(np.sum((outputs - (reward + draws)) ** 2, axis=0))
    assert with_them == pytest.approx(expected, rel=0.5) and abs(with_them - without) > 1.0
