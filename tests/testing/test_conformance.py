"""Everything that is registered keeps its contract, and every algorithm learns the probes."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

import purerl
from purerl import registry
from purerl.catalog.algorithms import ALGORITHMS
from purerl.catalog.environments import ENVIRONMENTS
from purerl.spaces import Box, Dict, Discrete
from purerl.testing import check_algorithm, check_environment
from purerl.testing.environments import check_contract
from purerl.types import Environment, TimeStep, pytree, static
from tests.helpers import team
from tests.helpers.disco_inputs import WEIGHTS
from tests.helpers.marks import rows
from tests.helpers.small import small, tiny

# .ci/run tests the contract and the value at a time limit for these; whether they learn the probes is a slow test.
LONG = {
    "c51",
    "crossq",
    "d4pg",
    "disco",
    "dqn",
    "iqn",
    "mpo",
    "muzero",
    "ppo-penalty",
    "qrdqn",
    "r2d2",
    "rainbow",
    "redq",
    "reinforce",
    "sac",
    "spo",
    "tqc",
}
QUICK = {"CartPole-v1", "Catch", "Pendulum-v1", "GridWorld", "CoinGame"}  # the default run takes steps in these
WHOLE = {"ppo"}  # contract and learning together
HEADS = ("ppo", "dqn", "sac", "alphazero", "vdn")  # one per family; the default run also compiles their contract


def made(name):
    """Return (factory, config, kinds of actions) of an algorithm; one of teams trains a team of one."""
    (factory, config), row = small(name), ALGORITHMS[name]
    return (team.of_one(factory) if row.teams else factory), config, row.actions


def needs_a_rule_that_teaches(name):
    if name == "disco" and not WEIGHTS.exists():
        pytest.skip("needs .cache/disco_103.npz")


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_traced_environment(name):
    check_contract(registry.make(name), name, jax.random.key(0))


@pytest.mark.parametrize("name", rows(ENVIRONMENTS, QUICK, pytest.mark.long))
def test_environment(name):
    check_environment(registry.make(name), name=name)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_traced_contract(name):
    """Structures, shapes and dtypes, and that every number may be traced: nothing is compiled."""
    factory, config, actions = made(name)
    check_algorithm(factory, config, name=name, actions=actions[:1], compiled=False, learn=False)


@pytree
class Parts(Environment):
    """An environment in which one part of the observation is switched off: it has no numbers."""

    continuous: bool = static(default=False)

    def reset(self, key):
        return jnp.int32(0), self.see(0)

    def step(self, key, state, action):
        return state + 1, TimeStep.transition(self.see(state), jnp.float32(1), time_up=state >= 7)

    def see(self, time):
        return {"contacts": jnp.zeros(0), "joints": jnp.full(2, time, jnp.float32)}

    @property
    def observation_space(self):
        return Dict(spaces={name: Box(low=-9, high=9, shape=(n,)) for name, n in (("contacts", 0), ("joints", 2))})

    @property
    def action_space(self):
        return Box(low=-1, high=1, shape=(1,)) if self.continuous else Discrete(n=2)


@pytest.mark.parametrize("name", rows([name for name, row in ALGORITHMS.items() if not row.teams], HEADS))
def test_a_part_of_the_observation_may_be_empty(name):
    factory, config, actions = made(name)
    if any(field.name == "normalize_observation" for field in dataclasses.fields(config)):
        config = dataclasses.replace(config, normalize_observation=True)
    env = Parts(continuous="discrete" not in actions)
    state, _ = jax.eval_shape(purerl.make_train(factory, env, config, config.total_timesteps), jax.random.key(0))
    assert any(leaf.shape == (config.num_envs, 0) for leaf in jax.tree.leaves(state.observation))


@pytest.mark.parametrize("name", rows(ALGORITHMS, HEADS, pytest.mark.long))
def test_compiled_contract(name):
    (factory, config), row = tiny(name), ALGORITHMS[name]
    factory = team.of_one(factory) if row.teams else factory
    check_algorithm(factory, config, name=name, actions=row.actions[:1], masks=True, learn=False)


@pytest.mark.long
@pytest.mark.parametrize("name", rows([name for name, row in ALGORITHMS.items() if not row.teams], WHOLE))
def test_algorithm(name):
    """Contract and learning, and that a run vmapped over the probes is the run alone."""
    needs_a_rule_that_teaches(name)
    factory, config, actions = made(name)
    check_algorithm(factory, config, name=name, actions=actions[:1], masks=True)


@pytest.mark.long
@pytest.mark.parametrize("name", rows([name for name in ALGORITHMS if name not in WHOLE], {*ALGORITHMS} - LONG))
def test_learning(name):
    needs_a_rule_that_teaches(name)
    factory, config, actions = made(name)
    check_algorithm(factory, config, name=name, actions=actions[:1], contract=False)


SINGLE = [name for name in ALGORITHMS if name not in ("vdn", "qmix")]  # those have one agent per environment


@pytest.mark.long
@pytest.mark.parametrize("name", rows(SINGLE, {"dqn"}))
def test_meetings(name):
    factory, config = small(name)
    actions = ALGORITHMS[name].actions
    check_algorithm(factory, config, name=name, actions=actions[:1], contract=False, meetings=True, learn=False)


OTHER_ACTIONS = [f"{name} {kind}" for name, row in ALGORITHMS.items() if not row.teams for kind in row.actions[1:]]


@pytest.mark.long
@pytest.mark.parametrize("name_and_kind", rows(OTHER_ACTIONS, {"ppo continuous", "ppo multi-discrete"}))
def test_other_actions(name_and_kind):
    name, kind = name_and_kind.split()
    factory, config, _ = made(name)
    check_algorithm(factory, config, actions=(kind,), contract=False)


@pytest.mark.long
def test_memory():
    """One kind of memory is enough, as all policies share it."""
    factory, config, _ = made("ppo")
    check_algorithm(factory, dataclasses.replace(config, rnn="gru", num_minibatches=2), contract=False)


@pytest.mark.parametrize("kind", rows(["rnd", "icm"], set()))
def test_curiosity(kind):
    """Contract, learning and meetings of a curious agent, whose knowledge is a part of the run's state."""
    factory, config, _ = made("ppo")
    check_algorithm(factory, dataclasses.replace(config, curiosity=kind), actions=("discrete",), meetings=True)
