"""The suite for combined features finds the faults it is for."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from purerl.algos.a2c import A2CConfig, a2c
from purerl.errors import InputError
from purerl.loop.train import make_trainer
from purerl.testing import check_algorithm, meetings
from purerl.testing.learning import EXAMPLE
from purerl.testing.report import Check

CONFIG = A2CConfig(num_envs=4, rollout_length=4, hidden_sizes=(8,), discount=0.9, total_timesteps=1_024)


def faulty(change):
    """A2C whose update is changed by (agent before, agent after, rollout, its own update) -> (agent, metrics)."""

    def factory(spec, config):
        algorithm = a2c(spec, config)
        return algorithm._replace(update=lambda agent, key, rollout: change(algorithm.update, agent, key, rollout))

    return factory


def wrapping(update, agent, key, rollout):
    """The counter wraps around, and nothing is learned while it is below 0."""
    after, metrics = update(agent, key, rollout)
    count = agent.num_updates + 1
    params = jax.tree.map(lambda new, old: jnp.where(count > 0, new, old), after.params, agent.params)
    opt_state = jax.tree.map(lambda new, old: jnp.where(count > 0, new, old), after.opt_state, agent.opt_state)
    return after._replace(params=params, opt_state=opt_state, num_updates=count), metrics


def forgetful(update, agent, key, rollout):
    """The last step is not learned from."""
    mask = jnp.ones(rollout.reward.shape, bool) if rollout.mask is None else rollout.mask
    return update(agent, key, rollout._replace(mask=mask.at[-1].set(False), reward=rollout.reward.at[-1].set(0.0)))


@pytest.mark.long
def test_a_counter_that_wraps_around_is_found():
    with pytest.raises(InputError, match=r"past 2.31 updates nothing is learned"):
        check_algorithm(faulty(wrapping), CONFIG, name="faulty", contract=False, meetings=True, learn=False)


def test_extensions_add_their_checks(monkeypatch):
    for own in ("_check_counters", "_check_failed_seed", "_check_every_step"):
        monkeypatch.setattr(meetings, own, lambda *_: Check("ours"))
    theirs = SimpleNamespace(checks=lambda algorithm, config, env, name: [Check(f"of {name}")])
    monkeypatch.setattr(meetings, "rows", lambda: [SimpleNamespace(checks=None), theirs])
    found = check_algorithm(a2c, CONFIG, contract=False, meetings=True, learn=False).checks
    assert [check.name for check in found] == [*["ours"] * 3, "of a2c"]


@pytest.mark.long
def test_a_step_that_is_not_learned_from_is_found():
    env = EXAMPLE.environment("discrete")
    state = jax.jit(make_trainer(a2c, env, CONFIG).init)(jax.random.key(0))
    with pytest.raises(InputError, match="nothing is learned from step 3 of a rollout of 4"):
        meetings._check_every_step(faulty(forgetful), CONFIG, env, state, "faulty")
    assert str(meetings._check_every_step(a2c, CONFIG, env, state, "a2c").name) == "learns from every step"


@pytest.mark.slow
def test_a2c_has_none():
    report = str(check_algorithm(a2c, CONFIG, contract=False, meetings=True, learn=False))
    for held in (
        "after 2^31 updates",
        "a failed seed",
        "agents that left",
        "start over",
        "acts bit-identically",
        "every step",
        "in turns",
    ):
        assert held in report
