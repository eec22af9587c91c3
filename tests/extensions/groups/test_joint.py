"""Several policies as one algorithm."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.mappo import MAPPOConfig
from purerl.algos.ppo import PPOConfig, ppo
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.games.coin_game import CoinGame
from purerl.envs.games.matrix_game import MatrixGame
from purerl.envs.particle.spread import Spread
from purerl.envs.tag.continuous import TagContinuous
from purerl.errors import InputError
from purerl.extensions.groups.joint import Policy, config_of, multi_agent, policies_for
from purerl.loop.train import collect, make_train, make_trainer
from purerl.spaces import Dict, Stacked
from purerl.types import Environment, EnvironmentSpec, number, pytree
from purerl.wrappers import FrameStack
from tests.helpers.compiled import jit_exactly
from tests.helpers.groups import SMALL, assembled, run
from tests.helpers.leaving import Leaving
from tests.helpers.marks import rows
from tests.helpers.nim import Nim


@pytree
class Alone(Environment):
    """CartPole, or another environment, as a group of one agent."""

    env: CartPole = number(default=CartPole())

    def reset(self, key):
        state, observation = self.env.reset(key)
        return state, {"agents": observation[None]}

    def step(self, key, state, action):
        state, step = self.env.step(key, state, action["agents"][0])
        return state, step._replace(
            observation={"agents": step.observation[None]}, reward={"agents": step.reward[None]}
        )

    observation_space = property(lambda self: Dict(spaces={"agents": Stacked(space=self.env.observation_space, n=1)}))
    action_space = property(lambda self: Dict(spaces={"agents": Stacked(space=self.env.action_space, n=1)}))


@pytest.mark.long
@pytest.mark.parametrize("core", rows(["none", "gru"], {"gru"}))
def test_one_agent_alone_is_the_single_agent_algorithm_to_the_bit(core):
    """MAPPO on one agent, whose environment offers no global state, is PPO."""
    config = dataclasses.replace(SMALL, rnn=core, rnn_size=8, normalize_observation=True, normalize_reward=True)
    single, metrics = run(ppo, CartPole(), config, jit=jit_exactly)
    central = policies_for(Alone(), ppo, MAPPOConfig(**vars(config)))
    alone, others = run(multi_agent, Alone(), central, jit=jit_exactly)
    jax.tree.map(np.testing.assert_array_equal, single.agent, alone.agent["agents"])
    jax.tree.map(np.testing.assert_array_equal, metrics.algorithm, others.algorithm)
    assert all(np.array_equal(value, others.episodes[name], equal_nan=True) for name, value in metrics.episodes.items())


def test_pieces_have_a_policy_per_group_where_there_are_groups():
    assert purerl.make_trainer(ppo, CartPole(), SMALL).config == SMALL
    assert purerl.make_trainer(ppo, CoinGame(), SMALL).config == policies_for(CoinGame(), ppo, SMALL)


@pytest.mark.long
def test_agents_that_left_contribute_nothing():
    """What they see, do and get after they left changes no bit of what their policy learns."""
    env = Leaving(num_taggers=3, num_runners=6)
    config = policies_for(env, ppo, dataclasses.replace(SMALL, rollout_length=16, normalize_observation=True))
    trainer = make_trainer(multi_agent, env, config)
    state = jax.jit(trainer.init)(jax.random.key(0))
    _, rollout = jax.jit(lambda s: collect(trainer.algorithm, trainer.vector, s, jax.random.key(1), 16))(state)
    gone = ~rollout.observation["active"]["runners"]
    assert 0.05 < gone.mean() < 0.9

    def garble(x, by):
        return jnp.where(gone.reshape(gone.shape + (1,) * (x.ndim - 3)), jnp.asarray(by, x.dtype), x)

    other = rollout._replace(
        observation=rollout.observation | {"runners": garble(rollout.observation["runners"], 0.7)},
        next_observation=rollout.next_observation | {"runners": garble(rollout.next_observation["runners"], -3.0)},
        action=rollout.action | {"runners": garble(rollout.action["runners"], 3)},
        reward=rollout.reward | {"runners": garble(rollout.reward["runners"], 50.0)},
    )
    update = jax.jit(trainer.algorithm.update)
    results = [update(state.agent, jax.random.key(2), seen) for seen in (rollout, other)]
    jax.tree.map(np.testing.assert_array_equal, *results)
    left = gone[1:] & ~gone[:-1]
    assert left.any(), "an agent left within the rollout"


@pytest.mark.long
def test_prisoners_defect():
    """The only equilibrium of the dilemma, found by two independent learners."""
    env = MatrixGame()
    base = PPOConfig(num_envs=16, rollout_length=8, hidden_sizes=(8,), learning_rate=2e-2, entropy_coefficient=0.0)
    config = policies_for(env, ppo, base, column=Policy(algorithm=a2c, config=A2CConfig(), groups=("column",)))
    _, metrics = jax.jit(make_train(multi_agent, env, config, total_timesteps=16 * 8 * 60))(jax.random.key(0))
    assert metrics.episodes["info/row_last"][-1] > 0.9 and metrics.episodes["info/column_last"][-1] > 0.7
    assert metrics.episodes["info/return_row"][-1] < 1.6 and metrics.episodes["info/row_last"][0] < 0.8


@pytest.mark.long
def test_a_shared_policy_and_one_of_its_own():
    env = CoinGame()
    shared = Policy(algorithm=ppo, config=SMALL, groups=("blue", "red"))
    state, metrics = run(multi_agent, env, policies_for(env, ppo, SMALL, both=shared), updates=1)
    assert set(state.agent) == {"both"} and "policy_loss" in metrics.algorithm
    replayed = DQNConfig(learning_starts=16, batch_size=8, replay_capacity=512, hidden_sizes=(8,))
    config = policies_for(env, ppo, SMALL, red=Policy(algorithm=dqn, config=replayed, groups=("red",)))
    state, metrics = run(multi_agent, env, config, updates=2)
    assert {"blue/policy_loss", "red/loss"} <= set(metrics.algorithm) and int(
        state.agent["red"].num_gradient_steps
    ) == 2


@pytest.mark.long
def test_learning_rates_of_a_group_may_be_mapped():
    env = CoinGame()
    config = policies_for(env, ppo, SMALL, red=Policy(algorithm=ppo, config=SMALL, groups=("red",)))

    def learn(rate):
        red = dataclasses.replace(config.policies["red"], config=dataclasses.replace(SMALL, learning_rate=rate))
        changed = dataclasses.replace(config, policies={**config.policies, "red": red})
        trainer = make_trainer(multi_agent, env, changed)
        return trainer.step(trainer.init(jax.random.key(0)))[0].agent

    agents = jax.jit(jax.vmap(learn))(jnp.array([1e-4, 1e-2]))
    moved = lambda name: float(jnp.abs(jnp.diff(jax.tree.leaves(agents[name].params)[0], axis=0)).max())
    assert moved("red") > 1e-4 and moved("blue") < 1e-5


@pytest.mark.long
def test_a_centralized_critic_sees_the_global_state_and_the_policy_does_not():
    env = Spread()
    config = policies_for(env, ppo, MAPPOConfig(**vars(SMALL)))
    trainer = make_trainer(multi_agent, env, config)
    params = jax.jit(trainer.init)(jax.random.key(0)).agent["agents"].params
    inputs = {name: jax.tree.leaves(params[name])[1].shape[0] for name in ("body", "critic_body")}
    assert inputs == {"body": 14, "critic_body": 14 + 42}


def test_groups_of_a_single_agent_and_policies_that_do_not_match():
    with pytest.raises(InputError, match="has a single agent: settings of a group 'red'"):
        assembled(CartPole(), red={"frozen": True})
    policy = lambda *names: Policy(algorithm=ppo, config=SMALL, groups=names)
    good = policies_for(CoinGame(), ppo, SMALL)
    for wrong, message in (
        ({"blue": policy("blue")}, "no policy for the groups: red"),
        ({"blue": policy("blue"), "other": policy("rod")}, "unknown group of policy 'other' 'rod'"),
        ({"blue": policy("blue"), "red": policy("red", "blue")}, "group 'blue' has two policies"),
    ):
        with pytest.raises(InputError, match=message):
            make_trainer(multi_agent, CoinGame(), dataclasses.replace(good, policies=wrong))
    tag = TagContinuous(num_taggers=1, num_runners=2)
    uneven = dataclasses.replace(good, policies={"all": policy("taggers", "runners")})
    make_trainer(multi_agent, tag, uneven)
    with pytest.raises(InputError, match="has no groups of agents"):
        make_trainer(multi_agent, CartPole(), good)


def test_frames_between_turns_are_others():
    """A replay must keep an agent's frame stacks complete: its own turns are not consecutive steps."""
    seen = []

    def spying(spec, config):
        seen.append(spec.observation_space)
        return dqn(spec, config)

    env = FrameStack(Nim(), num_frames=3)
    config = policies_for(env, spying, DQNConfig(num_envs=4, hidden_sizes=(8,)))
    multi_agent(EnvironmentSpec(env.observation_space, env.action_space), config)
    assert {space.spaces["observation"].stack for space in seen} == {1}
    assert env.observation_space.spaces["first"].space.spaces["observation"].stack == 3


def test_a_policy_counts_the_steps_of_all_its_agents():
    config = config_of(dataclasses.replace(SMALL, num_envs=4, total_timesteps=800), PPOConfig(discount=0.5), 3)
    assert (config.num_envs, config.total_timesteps, config.discount) == (12, 2400, 0.5)
