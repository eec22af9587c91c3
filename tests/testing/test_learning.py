"""The probes find each fault of learning."""

import dataclasses

import jax.numpy as jnp
import pytest

from purerl.errors import InputError
from purerl.testing import check_algorithm
from purerl.testing.probes import LADDER
from purerl.types import number, pytree
from tests.helpers.linear import CONFIG, LinearConfig, broken, linear_q

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


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_fail_their_probe(fault):
    config = dataclasses.replace(FAULTY, fault=list(FAULTS).index(fault))
    with pytest.raises(InputError, match=f"faulty_q with discrete actions does not learn the probe '{FAULTS[fault]}'"):
        check_algorithm(faulty_q, config, contract=False)


@pytest.mark.long
def test_without_a_fault_all_probes_are_learned():
    report = check_algorithm(faulty_q, FAULTY, contract=False)
    names = [check.name for check in report.checks]
    assert names == [f"learns the probe '{rung.name}'" for rung in LADDER if not rung.recurrent]
    assert {check.detail for check in report.checks} == {"3 of 3 seeds"}


@pytest.mark.long
def test_forgetting_fails_the_memory_probe():
    """An algorithm that carries a memory but never looks at it."""
    forgetful = broken(lambda a, s, c: a._replace(initial_carry=lambda num_envs: jnp.zeros((num_envs, 1))))
    with pytest.raises(InputError, match="does not learn the probe 'memory'"):
        check_algorithm(forgetful, CONFIG, contract=False, num_seeds=1)
