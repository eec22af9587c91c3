"""REDQ: the subset of critics and the loss by hand; a policy that learns less often; SAC's critics in its place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.redq import DelayedConfig, REDQConfig, ensemble_agent, least_of_some, redq
from purerl.algos.sac import SACConfig, sac, squashed_actor_critic
from purerl.errors import InputError
from purerl.optim.optimizers import adam_by_plan
from purerl.replay.uniform import Between
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec
from tests.helpers import replays

OBSERVATION = Box(low=-1.0, high=1.0, shape=(2,))
SPEC = EnvironmentSpec(OBSERVATION, Box(low=-2.0, high=6.0, shape=(1,)))
SIZES = {"hidden_sizes": (8,), "batch_size": 16, "replay_capacity": 256, "learning_starts": 1}
SIZES |= {"num_envs": 4, "rollout_length": 8, "num_critics": 3, "num_gradient_steps": 1, "policy_period": 1}


@pytest.mark.long
def test_a_subset_is_drawn_anew_and_is_the_same_for_the_batch(key):
    values = jnp.asarray(np.random.default_rng(0).normal(size=(4, 6)), jnp.float32)
    pairs = {(i, j): np.minimum(values[i], values[j]) for i in range(4) for j in range(i + 1, 4)}
    counts = dict.fromkeys(pairs, 0)
    for i in range(200):
        least = np.asarray(least_of_some(values, 2, jax.random.fold_in(key, i)))
        counts[next(pair for pair, expected in pairs.items() if np.array_equal(least, expected))] += 1
    assert min(counts.values()) > 15  # 33 are expected
    np.testing.assert_array_equal(least_of_some(values, 4, key), jnp.min(values, axis=0))


@pytest.mark.long
def test_both_losses_by_hand(key, monkeypatch):
    """The target uses the smallest critic, the policy climbs the mean, and entropies of both signs count."""
    replays.know_policy(monkeypatch)
    config = REDQConfig(**SIZES, num_target_critics=3, initial_temperature=0.7)
    batch = replays.batch(key, 16, discount=0.9)
    algorithm = redq(SPEC, config, replay=replays.fixed(batch))
    agent = jax.jit(algorithm.init)(key)
    agent = agent._replace(target_params=jax.tree.map(lambda x: 1.5 * x + 0.1, agent.params["critics"]))
    learned, metrics = jax.jit(algorithm.update)(agent, key, replays.rollout())

    outputs, at_known = replays.critic_outputs(SPEC, config, 3), replays.known_outputs(SPEC, config, 3)
    log_prob = lambda seen: np.asarray(replays.log_probs(seen))
    lowest = np.asarray(at_known(agent.target_params, batch.next_observation)).min(axis=0)
    target = np.asarray(batch.reward) + 0.9 * (lowest - 0.7 * log_prob(batch.next_observation))
    errors = np.asarray(outputs(agent.params["critics"], batch)) - target
    assert float(metrics["critic_loss"]) == pytest.approx(0.5 * np.mean(np.sum(errors**2, axis=0)), rel=1e-4)

    mean = np.asarray(at_known(learned.params["critics"], batch.observation)).mean(axis=0)
    climbed = mean - 0.7 * log_prob(batch.observation)
    assert float(metrics["actor_loss"]) == pytest.approx(-climbed.mean(), rel=1e-4)


@pytest.mark.long
@pytest.mark.parametrize(("period", "moves"), [(1, True), (3, True), (4, False)])
def test_the_policy_learns_every_policy_period_steps(key, period, moves):
    config = REDQConfig(**{**SIZES, "num_gradient_steps": 3, "policy_period": period})
    algorithm = redq(SPEC, config, replay=replays.fixed(replays.batch(key, 16, discount=0.9)))
    agent = algorithm.init(key)
    learned, _ = algorithm.update(agent, key, replays.rollout())
    moved = lambda part: any(
        bool(jnp.any(new != old))
        for new, old in zip(jax.tree.leaves(learned.params[part]), jax.tree.leaves(agent.params[part]), strict=True)
    )
    assert moved("critics")
    assert (moved("actor"), moved("log_temperature")) == (moves, moves)


def test_refusals():
    with pytest.raises(InputError, match="redq: num_target_critics 4 is more than num_critics 3"):
        redq(SPEC, REDQConfig(**{**SIZES, "num_target_critics": 4}))
    with pytest.raises(InputError, match="redq: needs continuous actions"):
        redq(EnvironmentSpec(OBSERVATION, Discrete(n=2)), REDQConfig(**SIZES))


SIZES_OF_SAC = {name: size for name, size in SIZES.items() if name not in ("num_critics", "policy_period")}
SIZES_OF_SAC |= {"tau": 0.1}


def ensemble_of_sac(config, replay):
    """Return the ensemble's agent with SAC's two critics."""
    return ensemble_agent(SPEC, config, squashed_actor_critic(SPEC, config, None), adam_by_plan, replay)


@pytest.mark.long
def test_it_begins_as_sac_does_and_acts_as_it(key):
    ours = ensemble_of_sac(DelayedConfig(**SIZES_OF_SAC), None)
    theirs = sac(SPEC, SACConfig(**SIZES_OF_SAC))
    agent, other = jax.jit(ours.init)(key), jax.jit(theirs.init)(key)
    same = jax.tree.map(lambda x, y: bool(jnp.all(x == y)), agent.params, other.params)
    assert all(jax.tree.leaves(same))
    observation = jax.random.normal(key, (4, 2))
    for explore in (False, True):
        action, expected = (
            made.act(state, (), key, observation, explore)[0] for made, state in ((ours, agent), (theirs, other))
        )
        np.testing.assert_array_equal(action, expected)


@pytest.mark.long
def test_its_losses_are_sacs(key, monkeypatch):
    replays.know_policy(monkeypatch)
    given = {**SIZES_OF_SAC, "initial_temperature": 0.7}
    batch = replays.batch(key, 16, discount=0.9)
    ours = ensemble_of_sac(DelayedConfig(**given, policy_period=1), replays.fixed(batch))
    theirs = sac(SPEC, SACConfig(**given), replay=replays.fixed(batch))
    learned, metrics = jax.jit(ours.update)(ours.init(key), key, replays.rollout())
    other, expected = jax.jit(theirs.update)(theirs.init(key), key, replays.rollout())
    for name in ("critic_loss", "temperature", "entropy"):
        assert float(metrics[name]) == pytest.approx(float(expected[name]), rel=1e-5)
    gap = jax.tree.map(lambda x, y: float(jnp.max(jnp.abs(x - y))), learned.target_params, other.target_params)
    assert max(jax.tree.leaves(gap)) < 1e-5


@pytest.mark.long
def test_entropies_of_the_steps_in_between_count(key, monkeypatch):
    """They are rewards, discounted, whatever follows."""
    replays.know_policy(monkeypatch)
    batch = replays.batch(key, 16, discount=0.5)
    between = Between(observation=jax.random.normal(key, (2, 16, 2)), discount=jnp.array([[0.9], [0.6]]) * jnp.ones(16))
    config = DelayedConfig(**SIZES_OF_SAC, n_step=3, initial_temperature=0.7, policy_period=100)

    @jax.jit
    def loss(batch):
        algorithm = ensemble_of_sac(config, replays.fixed(batch))
        return algorithm.update(algorithm.init(key), key, replays.rollout())[1]["critic_loss"]

    entropy = -np.asarray(replays.log_probs(between.observation))
    worth = 0.7 * (0.9 * entropy[0] + 0.6 * entropy[1])
    rewarded = loss(batch._replace(reward=batch.reward + worth))
    np.testing.assert_allclose(loss(batch._replace(between=between)), rewarded, rtol=1e-5)
    assert abs(loss(batch._replace(between=between)) - loss(batch)) > 0.1
