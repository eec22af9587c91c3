"""Rollouts of states: the same updates as from observations, in less memory."""

import jax
import numpy as np
import pytest

from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.alphazero import AlphaZeroConfig, alphazero
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.ppo import MAPPOConfig, PPOConfig, ppo
from purerl.devices.memory import needed
from purerl.envs.bsuite.catch import Catch
from purerl.envs.classic.mountain_car import MountainCar
from purerl.envs.particle.spread import Spread
from purerl.envs.tag.continuous import TagContinuous
from purerl.envs.tag.grid_world import TagGridWorld
from purerl.errors import InputError
from purerl.loop.train import make_trainer
from purerl.multi_agent.joint import Policy, multi_agent, policies_for
from purerl.recompute import references
from purerl.recompute.observations import from_states
from tests.helpers.compiled import jit_exactly
from tests.host.ledger import Ledger

SMALL = {"num_envs": 4, "rollout_length": 8, "hidden_sizes": (8,)}


TAG = TagContinuous(num_taggers=2, num_runners=5, num_neighbors=1, side=3.0, tagging_distance=0.2)


SHARED = lambda factory, config: {"all": Policy(algorithm=factory, config=config, groups=("taggers", "runners"))}


CASES = {
    "tag": (TAG, a2c, A2CConfig(**SMALL)),
    "tag on a grid": (TagGridWorld(num_taggers=3), ppo, PPOConfig(**SMALL, num_minibatches=2, num_epochs=1)),
    "a global state": (Spread(), ppo, MAPPOConfig(**SMALL, num_minibatches=2, num_epochs=1)),
    "a memory, one agent": (Catch(), ppo, PPOConfig(**SMALL, rnn="gru", rnn_size=8, num_minibatches=2, num_epochs=1)),
}


def trainer_of(env, factory, config, rebuild):
    if not isinstance(env, Catch):
        groups = SHARED(factory, config) if env is TAG else {}
        factory, config = multi_agent, policies_for(env, factory, config, **groups)
    return make_trainer(*(from_states(factory, env) if rebuild else (factory, env)), config)


SLOW = ("a global state", "a memory, one agent", "tag on a grid")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASES])
def test_the_same_is_learned(name, monkeypatch):
    """Whether observations were kept or rebuilt, a few samples at a time: the number of steps is no multiple."""
    env, factory, config = CASES[name]
    monkeypatch.setattr(references, "PART_BYTES", 600)

    def learn(rebuild):
        trainer = trainer_of(env, factory, config, rebuild)
        state, metrics = jit_exactly(lambda key: trainer.step(trainer.init(key)))(jax.random.key(1))
        return state.agent, metrics, state.vector.env_state

    kept, rebuilt = learn(False), learn(True)
    close = lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-6)
    jax.tree.map(close, *((part[0], part[1]) for part in (kept, rebuilt)))
    jax.tree.map(np.testing.assert_array_equal, kept[2], rebuilt[2])


def test_rebuilt_observations_take_less_memory(monkeypatch):
    """60 agents that see all others, 16 environments, 16 steps: an update by its compiled program."""
    levels = {"acceleration_levels": 2, "turn_levels": 2}
    env = TagContinuous(num_taggers=10, num_runners=50, full_observation=True, **levels)
    config = A2CConfig(num_envs=16, rollout_length=16, hidden_sizes=(8,))
    monkeypatch.setattr(references, "PART_BYTES", 2**17)

    def bytes_of(rebuild):
        trainer = trainer_of(env, a2c, config, rebuild)
        state = jax.eval_shape(trainer.init, jax.random.key(0))
        return needed(jax.jit(trainer.step).lower(state).compile())

    observations = 60 * (7 * 59 + 1) * 4 * 16 * 16
    assert bytes_of(False) > 2 * observations
    assert bytes_of(True) < 0.5 * observations


def test_what_is_refused():
    def trainer(env, factory, **changed):
        return make_trainer(*from_states(factory, env), PPOConfig(**SMALL, **changed))

    with pytest.raises(InputError, match="MountainCar does not say how an observation follows from a state"):
        trainer(MountainCar(), ppo)
    with pytest.raises(InputError, match="goes without normalize_observation"):
        trainer(Catch(), ppo, normalize_observation=True)
    with pytest.raises(InputError, match="rebuild_observations: dqn needs observations"):
        make_trainer(*from_states(dqn, Catch()), DQNConfig())
    with pytest.raises(InputError, match="rebuild_observations: alphazero needs observations"):
        make_trainer(*from_states(alphazero, Catch()), AlphaZeroConfig())
    with pytest.raises(InputError, match="test/Ledger runs on the host and shows no states"):
        from_states(ppo, Ledger())
    replayed = Policy(algorithm=dqn, config=DQNConfig(), groups=("taggers",))
    with pytest.raises(InputError, match="policy 'taggers' needs observations; it is for all policies or none"):
        grid = TagGridWorld()
        policies = policies_for(grid, ppo, PPOConfig(**SMALL), taggers=replayed)
        make_trainer(*from_states(multi_agent, grid), policies)
