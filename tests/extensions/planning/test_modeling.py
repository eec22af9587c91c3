"""The environment as a model: what an algorithm is given, learns from, and is evaluated in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl import InputError
from purerl.extensions.host.jax_source import JaxSource
from purerl.types import Algorithm, Config, pytree
from purerl.wrappers import Against, Situations
from purerl.wrappers.situations import Situation
from tests.helpers.nim import Nim

SEEN = {}


@pytree
class PlanningConfig(Config):
    plans = 2


def planning(spec, config: PlanningConfig, *, model=None):
    """Takes the action whose imagined reward is highest."""

    def act(agent, carry, key, situation, explore):
        assert isinstance(situation, Situation)
        num = situation.side.shape[0]
        imagine = jax.vmap(lambda situation, action: model(key, situation, action).reward, (0, None))
        rewards = jnp.stack([imagine(situation, jnp.int32(a)) for a in range(spec.action_space.n)], axis=-1)
        assert rewards.shape == (num, spec.action_space.n)
        return jnp.argmax(rewards, axis=-1).astype(jnp.int32), carry, {"best": jnp.max(rewards, axis=-1)}

    def update(agent, key, rollout):
        SEEN["rollout"] = rollout
        return agent + 1, {"imagined": jnp.mean(rollout.extras["best"] - rollout.reward)}

    return Algorithm(init=lambda key: jnp.int32(0), initial_carry=lambda num_envs: (), act=act, update=update)


def test_what_is_imagined_comes_true_and_states_are_not_learned_from():
    config = PlanningConfig(num_envs=4, rollout_length=6)
    trainer = purerl.make_trainer(planning, purerl.make("Catch"), config)
    state, metrics = jax.jit(lambda key: trainer.step(trainer.init(key)))(jax.random.key(0))
    assert float(metrics.algorithm["imagined"]) == 0.0
    for seen in (SEEN["rollout"].observation, SEEN["rollout"].next_observation):
        assert seen.state == () and seen.side.shape == (6, 4)
    assert isinstance(state.observation, Situation) and len(jax.tree.leaves(state.observation.state)) > 0


@pytest.mark.long
def test_a_game_in_turns_is_evaluated_against_a_look_ahead():
    trainer = purerl.make_trainer(planning, Nim(), PlanningConfig(num_envs=4, rollout_length=8))
    assert isinstance(trainer.environment, Situations) and isinstance(trainer.evaluation, Against)
    state, metrics = jax.jit(lambda key: trainer.step(trainer.init(key)))(jax.random.key(0))
    assert float(metrics.episodes["episode_return"]) == 1.0, "the side that moves last wins"
    played = jax.jit(lambda agent: purerl.evaluate(trainer, agent, jax.random.key(1), 256))(state.agent)
    assert set(np.unique(played.episode_return).tolist()) == {-1.0, 1.0} and played.finished.all()
    assert float(played.episode_return.mean()) < 0.2, "it looks ahead as far, but at no reply"


@pytest.mark.long
def test_other_environments_are_evaluated_as_they_are():
    trainer = purerl.make_trainer(planning, purerl.make("Catch"), PlanningConfig())
    assert trainer.evaluation is trainer.environment


def test_what_cannot_be_planned_in_is_told_in_a_line():
    with pytest.raises(InputError, match=r"planning needs one agent.*CoinGame act at the same time"):
        purerl.make_trainer(planning, purerl.make("CoinGame"), PlanningConfig())
    with pytest.raises(InputError, match=r"planning cannot be combined with host: .* CartPole-v1 runs"):
        source = JaxSource("CartPole-v1", purerl.make("CartPole-v1"), PlanningConfig())
        purerl.make_trainer(planning, source, PlanningConfig())
