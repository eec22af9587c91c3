"""V-MPO: its weights, its loss and its trust region by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import InputError
from purerl.algos import vmpo as file
from purerl.algos.vmpo import VMPOConfig, vmpo
from purerl.functional.distributions import Categorical
from purerl.networks.actor_critic import ActorCritic
from purerl.optim.trust_region import LEAST
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

LOGITS = np.array([[0.2, -0.3, 0.1], [1.0, 0.0, -1.0]])  # one row for each of two states
SPEC = EnvironmentSpec(Box(low=0.0, high=1.0, shape=(1,)), Discrete(n=3))


def table(space, head, config):
    """Logits [state, action] and a value that is 0 everywhere, as a network."""

    def policy(params, observation):
        return Categorical(params[observation[..., 0].astype(jnp.int32)])

    zeros = lambda observation: jnp.zeros(observation.shape[:-1])
    return ActorCritic(
        init=lambda key: jnp.asarray(LOGITS, jnp.float32),
        initial_carry=lambda num_envs: (),
        policy=lambda params, carry, observation: (policy(params, observation), ()),
        value=lambda params, carry, observation: zeros(observation),
        unroll=lambda params, carry, observation, done: (policy(params, observation), zeros(observation), ()),
    )


def rollout(mask=None):
    """Four steps of one environment, each of which ends; the advantage is the reward, as values are 0."""
    action = jnp.array([0, 1, 2, 0])
    state = jnp.array([0.0, 0.0, 1.0, 1.0])
    log_prob = Categorical(jnp.asarray(LOGITS, jnp.float32)[state.astype(jnp.int32)]).log_prob(action)
    column = lambda x: x[:, None]
    return Rollout(
        observation=state[:, None, None],
        action=column(action),
        reward=column(jnp.array([1.0, 3.0, -2.0, 0.5])),
        terminated=jnp.ones((4, 1), bool),
        truncated=jnp.zeros((4, 1), bool),
        next_observation=state[:, None, None],
        carry=(),
        extras={"raw_action": column(action), "log_prob": column(log_prob)},
        mask=None if mask is None else column(jnp.array(mask)),
    )


def config(**changes):
    given = {"num_envs": 1, "rollout_length": 4, "num_epochs": 1, "num_minibatches": 1, "normalize_advantage": False}
    return VMPOConfig(**{**given, "learning_rate": 1e-2, "learning_rate_schedule": "constant", **changes})


def log_softmax(x):
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


@pytest.mark.parametrize(
    ("mask", "chosen"), [(None, [1, 0]), ([True, False, True, True], [0, 3]), ([False, False, True, False], [2])]
)
def test_the_better_half_is_weighed_by_its_advantage(mask, chosen):
    advantage = np.array([1.0, 3.0, -2.0, 0.5])
    counts = None if mask is None else jnp.array(mask)
    better = file.better_half(jnp.asarray(advantage, jnp.float32), counts)
    assert sorted(np.flatnonzero(better)) == sorted(chosen)
    weight, log_mean = file.weights(jnp.asarray(advantage, jnp.float32), better, jnp.float32(2.0))
    powers = np.exp(advantage[chosen] / 2.0)
    np.testing.assert_allclose(np.asarray(weight)[chosen], powers / powers.sum(), rtol=1e-6)
    assert float(jnp.sum(weight)) == pytest.approx(1.0)
    assert float(log_mean) == pytest.approx(np.log(powers.mean()), rel=1e-6)


def test_nothing_that_counts_weighs_nothing():
    better = file.better_half(jnp.ones(3), jnp.zeros(3, bool))
    weight, log_mean = file.weights(jnp.ones(3), better, jnp.float32(1.0))
    assert not np.any(better) and not np.any(weight) and float(log_mean) == 0.0


@pytest.mark.long
def test_the_first_gradient_step_by_hand():
    """The divergence of the policy that acted is 0, so the gradient is that of the weighted likelihood."""
    settings = config(initial_temperature=2.0)
    algorithm = vmpo(SPEC, settings, network=table)
    agent = algorithm.init(jax.random.key(0))
    learned, metrics = algorithm.update(agent, jax.random.key(1), rollout())

    powers = np.exp(np.array([1.0, 3.0]) / (2.0 + LEAST))
    weight = powers / powers.sum()  # weights of actions 0 and 1 in state 0
    log_pi = log_softmax(LOGITS)
    assert float(metrics["policy_loss"]) == pytest.approx(-float(weight @ log_pi[0, :2]), rel=1e-5)
    assert float(metrics["kl"]) == pytest.approx(0.0, abs=1e-6)
    assert float(metrics["temperature"]) == pytest.approx(2.0 + LEAST, rel=1e-6)
    gradient = np.exp(log_pi[0]) - np.array([weight[0], weight[1], 0.0])
    moved = np.asarray(learned.params["network"]) - LOGITS
    np.testing.assert_allclose(moved[0], -1e-2 * np.sign(gradient), rtol=1e-2)  # Adam's first step
    np.testing.assert_allclose(moved[1], 0.0, atol=2e-4)  # no sample of the better half is in state 1; rounding

    # d/dT of T (epsilon + log mean exp(A / T)): positive, so the temperature falls.
    t = 2.0 + LEAST
    slope = 0.1 + np.log(powers.mean()) - float(weight @ np.array([1.0, 3.0])) / t
    fell = float(learned.params["duals"].temperature - agent.params["duals"].temperature)
    assert np.sign(fell) == -np.sign(slope)


def test_the_divergence_is_of_the_policy_that_acted_from_the_new_one():
    """It is 0 in the first of two passes; after a large step the two directions differ."""
    algorithm = vmpo(SPEC, config(num_epochs=2, learning_rate=2.0, initial_temperature=2.0), network=table)
    _, metrics = algorithm.update(algorithm.init(jax.random.key(0)), jax.random.key(1), rollout())
    weight = np.exp(np.array([1.0, 3.0, -np.inf]) / (2.0 + LEAST))
    old = np.exp(log_softmax(LOGITS))[0]
    step = 2.0 * np.sign(old - weight / weight.sum())  # Adam's first one, in state 0: half of the samples
    new = np.exp(log_softmax(LOGITS[:1] - step))[0]
    assert float(metrics["kl"]) == pytest.approx(0.25 * float(old @ np.log(old / new)), rel=2e-2)


@pytest.mark.long
def test_a_divergence_beyond_its_bound_is_weighed_more_and_one_below_less():
    def kl_weight(epsilon):
        algorithm = vmpo(SPEC, config(num_epochs=12, kl_epsilon=epsilon, initial_kl_weight=0.1), network=table)
        agent = algorithm.init(jax.random.key(0))
        learned, _ = algorithm.update(agent, jax.random.key(1), rollout())
        return float(learned.params["duals"].kl_weight - agent.params["duals"].kl_weight)

    assert kl_weight(1e-5) > 0 > kl_weight(1.0)


def test_minibatches_must_fit():
    with pytest.raises(InputError, match="vmpo: num_minibatches 3 does not divide num_envs x rollout_length = 4"):
        vmpo(SPEC, config(num_minibatches=3))
