"""Everything that is registered keeps its contract, and every algorithm learns the probes."""

import dataclasses

import pytest

from purerl import registry
from purerl.testing import check_algorithm, check_environment
from tests.helpers.small import small

WHOLE = {"dqn", "ppo", "sac"}  # one of each family; for the others all but learning is slow


ALGORITHMS = {name: row for name, row in registry.ALGORITHMS.items() if not row.teams}  # the probes have one agent


def rows(names, quick):
    """Mark all but the quick ones as slow."""
    return [pytest.param(name, marks=[] if name in quick else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", registry.ENVIRONMENTS)
def test_environment(name):
    check_environment(registry.make(name), name=name)


@pytest.mark.parametrize("name", rows(ALGORITHMS, WHOLE))
def test_algorithm(name):
    factory, config = small(name)
    check_algorithm(factory, config, actions=registry.ALGORITHMS[name].actions[:1])


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in WHOLE])
def test_learning(name):
    factory, config = small(name)
    check_algorithm(factory, config, actions=registry.ALGORITHMS[name].actions[:1], contract=False)


OTHER_ACTIONS = [f"{name} {kind}" for name, row in ALGORITHMS.items() for kind in row.actions[1:]]


@pytest.mark.parametrize("name_and_kind", rows(OTHER_ACTIONS, {"ppo continuous", "ppo multi-discrete"}))
def test_other_actions(name_and_kind):
    name, kind = name_and_kind.split()
    factory, config = small(name)
    check_algorithm(factory, config, actions=(kind,), contract=False)


def test_memory():
    """One kind of memory is enough, as all policies share it."""
    factory, config = small("ppo")
    check_algorithm(factory, dataclasses.replace(config, rnn="gru", num_minibatches=2), contract=False)
