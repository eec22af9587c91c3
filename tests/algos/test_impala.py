"""IMPALA's terms against V-trace by plain loops, on a tabular policy whose every number is known."""

import dataclasses

import jax
import numpy as np
import pytest

from purerl.algos.impala import IMPALAConfig, impala
from purerl.errors import InputError
from tests.helpers.policy_table import PARAMS, SPEC, B, T, float64, make_rollout, table

CONFIG = IMPALAConfig(
    num_envs=B,
    rollout_length=T,
    num_minibatches=1,
    learning_rate=1e-3,
    learning_rate_schedule="constant",
    discount=0.9,
    gae_lambda=0.8,
    rho_clip=1.1,
    c_clip=0.95,
)


def numpy_terms(params, rollout):
    """Losses in float64 from equations 1 and 2 of the paper, backwards in time."""
    r = jax.tree.map(np.asarray, rollout)
    state, successor = r.observation[..., 0].astype(int), r.next_observation[..., 0].astype(int)
    logits = params["logits"][state]
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    log_prob = np.take_along_axis(log_probs, r.action[..., None], -1)[..., 0]
    ratio = np.exp(log_prob - r.extras["log_prob"])
    rho, c = np.minimum(ratio, 1.1), 0.8 * np.minimum(ratio, 0.95)
    value, next_value = params["value"][state], params["value"][successor]
    target, advantage = np.zeros((T, B)), np.zeros((T, B))
    for b in range(B):
        error = 0.0
        for t in reversed(range(T)):
            done = r.terminated[t, b] or r.truncated[t, b]
            bootstrap = 0.0 if r.terminated[t, b] else next_value[t, b]
            following = bootstrap if done or t == T - 1 else target[t + 1, b]
            advantage[t, b] = rho[t, b] * (r.reward[t, b] + 0.9 * following - value[t, b])
            delta = rho[t, b] * (r.reward[t, b] + 0.9 * bootstrap - value[t, b])
            error = delta + (0.0 if done else 0.9 * c[t, b] * error)
            target[t, b] = value[t, b] + error
    return {
        "policy_loss": -(log_prob * advantage).mean(),
        "value_loss": 0.5 * ((value - target) ** 2).mean(),
        "entropy": -(np.exp(log_probs) * log_probs).sum(-1).mean(),
        "mean_rho": rho.mean(),
    }


def updated(**changes):
    algo = impala(SPEC, dataclasses.replace(CONFIG, **changes), network=table)
    return jax.jit(algo.update)(algo.init(jax.random.key(0)), jax.random.key(1), make_rollout())


def test_terms_of_the_loss():
    _, metrics = updated()
    terms = numpy_terms(float64(PARAMS), make_rollout())
    for name, value in terms.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5, err_msg=name)
    assert 0.9 < terms["mean_rho"] < 1.1, "some weights are clipped, and some are not"


@pytest.mark.long
def test_every_minibatch_is_a_whole_sequence_of_one_environment():
    """Two gradient steps of one environment each: their mean loss is near that of both at once, for a small step."""
    _, both = updated()
    _, apart = updated(num_minibatches=2, learning_rate=1e-9)
    for name in ("policy_loss", "value_loss", "entropy"):
        np.testing.assert_allclose(apart[name], both[name], rtol=1e-4, err_msg=name)
    agent, _ = updated(num_minibatches=2, num_epochs=3)
    once, _ = updated()
    moved = [np.abs(np.asarray(a.params["value"]) - PARAMS["value"]).max() for a in (agent, once)]
    assert moved[0] > 2 * moved[1], "six steps go further than one"


def test_environments_that_cannot_be_shared_out():
    with pytest.raises(InputError, match="impala: num_minibatches 3 does not divide num_envs = 2"):
        impala(SPEC, dataclasses.replace(CONFIG, num_minibatches=3))
