"""The suite finds each fault: a small sound algorithm, broken in one way at a time."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.networks.torsos import split_mask
from purerl.testing import check_algorithm
from purerl.testing.probes import LADDER
from purerl.types import Algorithm, Config, number, pytree, static


@pytree
class LinearConfig(Config):
    learning_rate: float = number(default=0.05, above=0)
    epsilon: float = number(default=0.3, at_least=0, at_most=1)
    num_sweeps: int = static(default=2)


class LinearAgent(NamedTuple):
    weights: jax.Array  # f32[F, 2]
    updates: jax.Array


def linear_q(spec, config):
    """Q-learning with a linear action value: a whole algorithm in thirty lines."""
    inputs = sum(leaf.size for leaf in jax.tree.leaves(split_mask(spec.observation_space.struct)[0]))
    num_actions = spec.action_space.n

    def action_value(weights, observation):
        observation, mask = split_mask(observation)
        x = jnp.concatenate(jax.tree.leaves(observation), axis=-1)
        return jnp.where(True if mask is None else mask, x @ weights, -jnp.inf)

    def init(key):
        return LinearAgent(0.01 * jax.random.normal(key, (inputs, num_actions)), jnp.int32(0))

    def act(agent, carry, key, observation, explore):
        values = action_value(agent.weights, observation)
        greedy = jnp.argmax(values, axis=-1).astype(jnp.int32)
        key_draw, key_which = jax.random.split(key)
        drawn = jax.random.categorical(key_draw, jnp.where(jnp.isfinite(values), 0.0, -jnp.inf)).astype(jnp.int32)
        at_random = jax.random.bernoulli(key_which, config.epsilon, greedy.shape)
        return (jnp.where(at_random, drawn, greedy) if explore else greedy), carry, ()

    def update(agent, key, rollout):
        following = jnp.max(action_value(agent.weights, rollout.next_observation), axis=-1)
        target = rollout.reward + config.discount * jnp.where(rollout.terminated, 0.0, following)

        def loss(weights):
            values = action_value(weights, rollout.observation)
            chosen = jnp.take_along_axis(values, rollout.action[..., None], axis=-1)[..., 0]
            return jnp.mean((chosen - target) ** 2)

        weights = agent.weights
        for _ in range(config.num_sweeps):
            weights = weights - 20 * config.learning_rate * jax.grad(loss)(weights)
        return LinearAgent(weights, agent.updates + 1), {"loss": loss(weights)}

    return Algorithm(init, lambda num_envs: (), act, update)


CONFIG = LinearConfig(num_envs=8, rollout_length=8, total_timesteps=25_600, discount=0.9, reset_policy="always")


def broken(change):
    """Return the algorithm after `change(algo, spec, config) -> Algorithm`."""

    def faulty(spec, config):
        return change(linear_q(spec, config), spec, config)

    return faulty


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


CONTRACT = {
    "a branch on a number": (broken(branch), r"asks for the value of config\.learning_rate .*test_algorithms\.py:"),
    "an agent of another dtype": (
        with_agent(lambda agent, c: agent._replace(updates=agent.updates.astype(jnp.float32))),
        r"update: agent\.updates is float32\[\]; in the agent from init it is int32\[\]",
    ),
    "an agent of another structure": (with_agent(lambda agent, c: tuple(agent)), r"update: agent\[0\] is not in"),
    "a metric of integers": (with_metrics({"loss": jnp.int32(0)}), r"metric 'loss' is int32\[\]; it must be float32"),
    "a metric per sample": (with_metrics({"loss": jnp.zeros(3)}), r"metric 'loss' is float32\[3\]"),
    "a metric that is NaN": (with_metrics({"loss": jnp.float32(jnp.nan)}), "metric 'loss' is nan after 1 updates"),
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


@pytest.mark.parametrize("fault", CONTRACT)
def test_breaches_of_the_contract_are_named(fault):
    algorithm, message = CONTRACT[fault]
    with pytest.raises(InputError, match=message) as caught:
        check_algorithm(algorithm, CONFIG, name="faulty", learn=False)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("faulty")


def test_a_number_that_decides_the_program_is_named():
    """The number is hidden in a static field, so every value is another program."""

    @jax.tree_util.register_static
    class Hidden(float):
        pass

    config = LinearConfig(num_envs=2, rollout_length=4, total_timesteps=64, epsilon=Hidden(0.3))
    with pytest.raises(InputError, match=r"another value of config\.epsilon is traced again"):
        check_algorithm(linear_q, config, learn=False)


FAULTS = {  # fault -> the probe that finds it
    "rewards of other environments": "action",
    "blind": "observation",
    "no bootstrapping": "delay",
    "no discount": "discount",
    "endings taken as time limits": "ending",
    "time limits taken as endings": "time limit",
    "successors from the next episode": "time limit",
}


@pytree
class FaultyConfig(LinearConfig):
    fault: int = number(default=-1)  # a number, so that one compiled program has them all


def faulty_q(spec, config):
    """`linear_q` on rollouts or with a discount that one of the faults has spoilt."""

    def has(fault):
        return config.fault == list(FAULTS).index(fault)

    discount = jnp.where(has("no discount"), 0.95, jnp.where(has("no bootstrapping"), 0.0, config.discount))
    algo = linear_q(spec, dataclasses.replace(config, discount=discount))

    def update(agent, key, rollout):
        seen, after = rollout.observation, rollout.next_observation
        blurred = jnp.broadcast_to(jnp.mean(seen, axis=-1, keepdims=True), seen.shape)
        shown = jnp.concatenate([seen[1:], after[-1:]])
        terminated = jnp.where(has("endings taken as time limits"), False, rollout.terminated)
        rollout = rollout._replace(
            reward=jnp.where(has("rewards of other environments"), jnp.roll(rollout.reward, 1, 1), rollout.reward),
            observation=jnp.where(has("blind"), blurred, seen),
            next_observation=jnp.where(has("successors from the next episode"), shown, after),
            terminated=jnp.where(has("time limits taken as endings"), rollout.done, terminated),
        )
        return algo.update(agent, key, rollout)

    return algo._replace(update=update)


FAULTY = FaultyConfig(num_envs=8, rollout_length=8, total_timesteps=25_600, discount=0.9, reset_policy="always")


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_fail_their_probe(fault):
    config = dataclasses.replace(FAULTY, fault=list(FAULTS).index(fault))
    with pytest.raises(InputError, match=f"faulty_q with discrete actions does not learn the probe '{FAULTS[fault]}'"):
        check_algorithm(faulty_q, config, contract=False)


def test_without_a_fault_all_probes_are_learned():
    report = check_algorithm(faulty_q, FAULTY, contract=False)
    names = [check.name for check in report.checks]
    assert names == [f"learns the probe '{rung.name}'" for rung in LADDER if not rung.recurrent]
    assert {check.detail for check in report.checks} == {"3 of 3 seeds"}


def test_a_sound_algorithm_keeps_the_contract():
    report = check_algorithm(linear_q, CONFIG, learn=False)
    names = [check.name for check in report.checks]
    assert report.subject == "linear_q"
    assert {"resumed equals uninterrupted, to the bit", "illegal actions are never chosen"} <= set(names)
    settings = next(check for check in report.checks if "one trace" in check.name)
    assert settings.detail == "in one update no effect of total_timesteps"


def test_forgetting_fails_the_memory_probe():
    """An algorithm that carries a memory but never looks at it."""
    forgetful = broken(lambda a, s, c: a._replace(initial_carry=lambda num_envs: jnp.zeros((num_envs, 1))))
    with pytest.raises(InputError, match="does not learn the probe 'memory'"):
        check_algorithm(forgetful, CONFIG, contract=False, num_seeds=1)


def test_best_choices_of_the_probes_by_hand():
    expected = {  # state -> (the better choice, by how much)
        "action": {0: (1, 1.0)},
        "observation": {0: (0, 1.0), 1: (1, 1.0)},
        "delay": {0: (1, 0.9 - 0.4)},
        "discount": {0: (0, 0.75 - 0.5)},
        "ending": {0: (1, 0.9 - 0.6)},
        "time limit": {0: (1, 0.9 - 0.4)},
        "memory": {2: (0, 2.0), 3: (1, 2.0)},
        "memory reset": {2: (0, 2.0), 3: (1, 2.0)},
    }
    assert set(expected) == {rung.name for rung in LADDER}
    for rung in LADDER:
        best, gap = rung.best()
        for state, (choice, by) in expected[rung.name].items():
            assert best[state] == choice
            np.testing.assert_allclose(gap[state], by, rtol=1e-6)
