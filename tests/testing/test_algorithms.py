"""The suite finds each fault: a small sound algorithm, broken in one way at a time."""

import jax
import jax.numpy as jnp
import pytest

from purerl.errors import InputError
from purerl.testing import check_algorithm
from purerl.types import Values
from tests.helpers.linear import CONFIG, LinearConfig, broken, linear_q


def with_agent(change):
    def faulty(a, spec, config):
        def update(agent, key, rollout):
            agent, metrics = a.update(agent, key, rollout)
            return change(agent, config), metrics

        return a._replace(update=update)

    return broken(faulty)


def with_metrics(metrics):
    return broken(lambda a, s, c: a._replace(update=lambda *args: (a.update(*args)[0], metrics)))


def with_action(change):
    def faulty(a, spec, config):
        def act(agent, carry, key, observation, explore):
            action, carry, extras = a.act(agent, carry, key, observation, explore)
            return change(action, key, explore), carry, extras

        return a._replace(act=act)

    return broken(faulty)


def branch(a, spec, config):
    return a if config.learning_rate < 1 else a._replace(initial_carry=lambda n: jnp.zeros(n))


def one_value(agent, rollout):
    """Return the values of the first step alone."""
    return Values(value=rollout.reward[0], next_value=rollout.reward, reward=rollout.reward, scale=lambda x: x)


CONTRACT = {
    "values of one step": (
        broken(lambda a, s, c: a._replace(values=one_value)),
        r"values: value is float32\[8\]; in f32\[T, B\] it is float32\[8, 8\]",
    ),
    "a branch on a number": (broken(branch), r"asks for the value of config\.learning_rate .*test_algorithms\.py:"),
    "an agent of another dtype": (
        with_agent(lambda agent, c: agent._replace(updates=agent.updates.astype(jnp.float32))),
        r"update: agent\.updates is float32\[\]; in the agent from init it is int32\[\]",
    ),
    "an agent of another structure": (with_agent(lambda agent, c: tuple(agent)), r"update: agent\[0\] is not in"),
    "a metric of integers": (with_metrics({"loss": jnp.int32(0)}), r"metric 'loss' is int32\[\]; it must be float32"),
    "a metric per sample": (with_metrics({"loss": jnp.zeros(3)}), r"metric 'loss' is float32\[3\]"),
    "a metric that is infinite": (with_metrics({"loss": jnp.float32(jnp.inf)}), "metric 'loss' is inf after 1 updates"),
    "weights that are NaN": (
        with_agent(lambda agent, c: agent._replace(weights=agent.weights / jnp.where(agent.updates > 1, 0.0, 1.0))),
        r"agent\.weights is not finite after 2 updates",
    ),
    "actions of floats": (
        with_action(lambda action, k, e: action.astype(jnp.float32)),
        r"act: action is float32\[2\]; in a batch of two of the action space it is int32\[2\]",
    ),
    "greedy actions that are drawn": (
        with_action(lambda action, key, explore: jax.random.bernoulli(key, 0.5, action.shape).astype(jnp.int32)),
        "explore=False depends on the key",
    ),
    "illegal actions": (
        with_action(lambda action, key, explore: (action + 1) % 2 if explore else action),
        "chooses actions that the observation's action_mask forbids",
    ),
    "other when compiled": (
        with_agent(
            lambda agent, c: agent
            if isinstance(agent.weights, jax.core.Tracer)
            else agent._replace(weights=agent.weights + 1)
        ),
        r"update differs, eager against jit, in agent\.weights",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("fault", CONTRACT)
def test_breaches_of_the_contract_are_named(fault):
    algorithm, message = CONTRACT[fault]
    with pytest.raises(InputError, match=message) as caught:
        check_algorithm(algorithm, CONFIG, name="faulty", masks=True, learn=False)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("faulty")


@pytest.mark.long
def test_a_number_that_decides_the_program_is_named():
    """The number is hidden in a static field, so every value is another program."""

    @jax.tree_util.register_static
    class Hidden(float):
        pass

    config = LinearConfig(num_envs=2, rollout_length=4, total_timesteps=64, epsilon=Hidden(0.3))
    with pytest.raises(InputError, match=r"another value of config\.epsilon is traced again"):
        check_algorithm(linear_q, config, learn=False)


@pytest.mark.long
def test_a_sound_algorithm_keeps_the_contract():
    report = check_algorithm(linear_q, CONFIG, masks=True, learn=False)
    names = [check.name for check in report.checks]
    assert report.subject == "linear_q"
    assert {"a resumed run is bit-identical to an uninterrupted one", "illegal actions are never chosen"} <= set(names)
    settings = next(check for check in report.checks if "one trace" in check.name)
    assert settings.detail == "no effect within one update: total_timesteps"
