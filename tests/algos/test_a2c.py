"""A2C's loss and step against NumPy, on a tabular policy whose every number is known."""

import dataclasses

import jax
import numpy as np
import pytest

from purerl.algos.a2c import A2CConfig, ReinforceConfig, a2c, reinforce
from purerl.errors import InputError
from purerl.optim.optimizers import adam_by_plan
from tests.helpers.policy_table import PARAMS, SPEC, B, T, float64, make_rollout, table

CONFIG = A2CConfig(
    num_envs=B,
    rollout_length=T,
    learning_rate=1e-2,
    learning_rate_schedule="constant",
    discount=0.9,
    gae_lambda=0.8,
    entropy_coefficient=0.03,
    value_coefficient=0.7,
    max_grad_norm=0.1,
)


def numpy_loss(params, old, rollout):
    """The loss and its terms in float64, by plain loops, from the equations."""
    r = jax.tree.map(np.asarray, rollout)
    state, successor = r.observation[..., 0].astype(int), r.next_observation[..., 0].astype(int)
    target, old_value = np.zeros((T, B)), old["value"][state]
    for b in range(B):
        advantage = 0.0
        for t in reversed(range(T)):
            done = r.terminated[t, b] or r.truncated[t, b]
            bootstrap = 0.0 if r.terminated[t, b] else old["value"][successor[t, b]]
            delta = r.reward[t, b] + 0.9 * bootstrap - old_value[t, b]
            advantage = delta + (0.0 if done else 0.9 * 0.8 * advantage)
            target[t, b] = advantage + old_value[t, b]
    logits = params["logits"][state]
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    log_prob = np.take_along_axis(log_probs, r.action[..., None], -1)[..., 0]
    terms = {
        "policy_loss": -(log_prob * (target - old_value)).mean(),
        "value_loss": 0.5 * ((params["value"][state] - target) ** 2).mean(),
        "entropy": -(np.exp(log_probs) * log_probs).sum(-1).mean(),
    }
    return terms["policy_loss"] + 0.7 * terms["value_loss"] - 0.03 * terms["entropy"], terms


def gradient_of(loss, params):
    """The gradient by central differences in float64."""
    gradient = {name: np.zeros_like(values) for name, values in params.items()}
    for name, values in params.items():
        for at in np.ndindex(values.shape):
            ends = []
            for sign in (1, -1):
                moved = {key: value.copy() for key, value in params.items()}
                moved[name][at] += sign * 1e-6
                ends.append(loss(moved))
            gradient[name][at] = (ends[0] - ends[1]) / 2e-6
    return gradient


@pytest.fixture(scope="module")
def once():
    algo = a2c(SPEC, CONFIG, network=table)
    return jax.jit(algo.update)(algo.init(jax.random.key(0)), jax.random.key(1), make_rollout())


@pytest.mark.long
def test_terms_of_the_loss(once):
    _, terms = numpy_loss(float64(PARAMS), float64(PARAMS), make_rollout())
    for name, value in terms.items():
        np.testing.assert_allclose(once[1][name], value, rtol=1e-5, err_msg=name)


def test_the_step_is_rmsprops_on_the_clipped_gradient(once):
    """Its first step is rate g / sqrt(0.01 g^2 + eps), with g of a norm of 0.1 at most."""
    old = float64(PARAMS)
    gradient = gradient_of(lambda params: numpy_loss(params, old, make_rollout())[0], old)
    shrink = min(1.0, 0.1 / np.sqrt(sum((g**2).sum() for g in gradient.values())))
    assert shrink < 1, "the clip is at work"
    for name, g in gradient.items():
        g = shrink * g
        np.testing.assert_allclose(
            once[0].params[name], PARAMS[name] - 1e-2 * g / np.sqrt(0.01 * g**2 + 1e-5), atol=2e-4, err_msg=name
        )


@pytest.mark.long
def test_a_loss_of_ones_own_replaces_the_default():
    algo = a2c(SPEC, CONFIG, network=table, loss=lambda samples, context: (samples.value - 3.0) ** 2)
    update = jax.jit(algo.update)
    agent = algo.init(jax.random.key(0))
    for _ in range(1000):
        agent, metrics = update(agent, jax.random.key(1), make_rollout())
    visited = np.unique(np.asarray(make_rollout().observation).astype(int))
    np.testing.assert_allclose(agent.params["value"][visited], 3.0, atol=0.02)
    np.testing.assert_array_equal(agent.params["logits"], PARAMS["logits"])
    assert float(metrics["loss"]) < 1e-3


def test_a_setting_out_of_range():
    with pytest.raises(InputError, match=r"a2c: gae_lambda is 2\.0; it must be at least 0 and at most 1"):
        a2c(SPEC, dataclasses.replace(CONFIG, gae_lambda=2.0))


@pytest.mark.long
def test_reinforce_is_a2c_on_whole_returns_by_adam(key):
    given = {"num_envs": B, "rollout_length": T, "learning_rate": 1e-2}
    config = ReinforceConfig(**given)
    assert config.gae_lambda == 1.0
    ours = reinforce(SPEC, config, network=table)
    theirs = a2c(SPEC, A2CConfig(**given, gae_lambda=1.0), network=table, optimizer=adam_by_plan)
    agent = ours.init(key)
    learned, other = (made.update(agent, key, make_rollout())[0] for made in (ours, theirs))
    for new, expected, old in zip(*(jax.tree.leaves(x.params) for x in (learned, other, agent)), strict=True):
        np.testing.assert_array_equal(new, expected)
        assert np.any(new != old) or new.size == 0
    with pytest.raises(InputError, match="reinforce: gae_lambda is 2"):
        reinforce(SPEC, ReinforceConfig(gae_lambda=2.0))
