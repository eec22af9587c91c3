"""Several policies as one algorithm."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.ppo import PPOConfig, ppo
from purerl.algos.value_decomposition import QMIXConfig, VDNConfig, mixer, qmix, vdn
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.games.coin_game import CoinGame
from purerl.envs.games.matrix_game import MatrixGame
from purerl.envs.particle.spread import Spread
from purerl.envs.tag.continuous import TagContinuous
from purerl.errors import InputError
from purerl.loop.train import collect, make_train, make_trainer
from purerl.multi_agent.joint import Policy, multi_agent, policies_for
from purerl.run import policies
from purerl.run.config import RunOptions, Settings
from purerl.spaces import Box, Dict, Discrete, Stacked
from purerl.types import Environment, EnvironmentSpec, number, pytree

SMALL = PPOConfig(num_envs=4, rollout_length=8, hidden_sizes=(8,), num_minibatches=2)

WITH_STATE = Dict(spaces={name: Box(low=-1, high=1, shape=(4,)) for name in ("observation", "global_state")})


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


def run(factory, env, config, updates=3):
    trainer = make_trainer(factory, env, config)
    state, step = jax.jit(trainer.init)(jax.random.key(0)), jax.jit(trainer.step)
    for _ in range(updates):
        state, metrics = step(state)
    return state, metrics


@pytest.mark.parametrize("core", ["none", "gru"])
def test_one_agent_alone_is_the_single_agent_algorithm_to_the_bit(core):
    """MAPPO on one agent, whose environment offers no global state, is PPO."""
    config = dataclasses.replace(SMALL, rnn=core, rnn_size=8, normalize_observation=True, normalize_reward=True)
    single, metrics = run(ppo, CartPole(), config)
    central = dataclasses.replace(config, centralized_critic=True)
    alone, others = run(multi_agent, Alone(), policies_for(Alone(), ppo, central))
    jax.tree.map(np.testing.assert_array_equal, single.agent, alone.agent["agents"])
    assert all(np.array_equal(metrics[name], others[name], equal_nan=True) for name in metrics)


def test_agents_that_left_contribute_nothing():
    """What they see, do and get after they left changes no bit of what their policy learns."""
    env = TagContinuous(num_taggers=3, num_runners=6, side=2.0, tagging_distance=0.15)
    config = policies_for(env, ppo, dataclasses.replace(SMALL, rollout_length=16, normalize_observation=True))
    trainer = make_trainer(multi_agent, env, config)
    state = jax.jit(trainer.init)(jax.random.key(0))
    _, rollout = jax.jit(lambda s: collect(trainer.algorithm, trainer.environment, s, jax.random.key(1), 16))(state)
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


def test_prisoners_defect():
    """The only equilibrium of the dilemma, found by two independent learners."""
    env = MatrixGame()
    base = PPOConfig(num_envs=16, rollout_length=8, hidden_sizes=(8,), learning_rate=2e-2, entropy_coefficient=0.0)
    config = policies_for(env, ppo, base, column=Policy(algorithm=a2c, config=A2CConfig(), groups=("column",)))
    _, metrics = jax.jit(make_train(multi_agent, env, config, total_timesteps=16 * 8 * 60))(jax.random.key(0))
    assert metrics["info/row_last"][-1] > 0.9 and metrics["info/column_last"][-1] > 0.7
    assert metrics["info/return_row"][-1] < 1.6 and metrics["info/row_last"][0] < 0.8


def test_a_shared_policy_and_one_of_its_own():
    env = CoinGame()
    shared = Policy(algorithm=ppo, config=SMALL, groups=("blue", "red"))
    state, metrics = run(multi_agent, env, policies_for(env, ppo, SMALL, both=shared), updates=1)
    assert set(state.agent) == {"both"} and "policy_loss" in metrics
    replayed = DQNConfig(learning_starts=16, batch_size=8, replay_capacity=512, hidden_sizes=(8,))
    config = policies_for(env, ppo, SMALL, red=Policy(algorithm=dqn, config=replayed, groups=("red",)))
    state, metrics = run(multi_agent, env, config, updates=2)
    assert {"blue/policy_loss", "red/loss"} <= set(metrics) and int(state.agent["red"].num_gradient_steps) == 2


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


def test_a_team_learns_what_is_best_together():
    """VDN on a game that pays both for meeting at 1, and less for meeting at 0."""
    env = MatrixGame(row_payoff=((0.5, 0.0), (0.0, 1.0)), column_payoff=((0.5, 0.0), (0.0, 1.0)))
    replayed = {"learning_starts": 64, "batch_size": 32, "replay_capacity": 1024, "hidden_sizes": (8,)}
    base = VDNConfig(num_envs=8, rollout_length=8, learning_rate=1e-2, total_timesteps=64 * 80, **replayed)
    team = Policy(algorithm=vdn, config=base, groups=("row", "column"))
    config = policies_for(env, vdn, base, team=team)
    _, metrics = jax.jit(make_train(multi_agent, env, config))(jax.random.key(0))
    assert metrics["info/row_last"][-10:].mean() > 0.8 and metrics["episode_return"][-10:].mean() > 0.8
    mixed = QMIXConfig(num_envs=4, **replayed | {"learning_starts": 8, "batch_size": 4})
    state, metrics = run(multi_agent, Spread(), policies_for(Spread(), qmix, mixed))
    assert jnp.isfinite(metrics["loss"]) and int(state.agent["agents"].num_gradient_steps) == 2
    with pytest.raises(InputError, match="this one offers none"):
        make_trainer(multi_agent, env, policies_for(env, qmix, mixed))
    with pytest.raises(InputError, match="no groups of agents"):
        make_trainer(vdn, CartPole(), base)


def test_a_mixed_value_never_falls_in_an_agents():
    spec = EnvironmentSpec(Stacked(space=WITH_STATE, n=3), Stacked(space=Discrete(n=2), n=3))
    mix = mixer(spec, QMIXConfig())
    params, rng = mix.init(jax.random.key(0)), np.random.default_rng(0)
    values, state = rng.normal(size=(64, 3)).astype(np.float32), rng.normal(size=(64, 3, 4)).astype(np.float32)
    slope = jax.grad(lambda q: mix.apply(params, q, {"global_state": state}).sum())(values)
    assert slope.shape == (64, 3) and (slope >= 0).all() and (slope > 0).mean() > 0.9


def test_a_centralized_critic_sees_the_global_state_and_the_policy_does_not():
    env = Spread()
    config = policies_for(env, ppo, dataclasses.replace(SMALL, centralized_critic=True))
    trainer = make_trainer(multi_agent, env, config)
    params = jax.jit(trainer.init)(jax.random.key(0)).agent["agents"].params
    inputs = {name: jax.tree.leaves(params[name])[1].shape[0] for name in ("body", "critic_body")}
    assert inputs == {"body": 14, "critic_body": 14 + 42}


def assembled(env, name="CoinGame", **groups):
    run = Settings(algorithm="ppo", environment=name, options=RunOptions(), config=SMALL, parameters={}, groups=groups)
    return policies.assemble(run, env)


def test_settings_of_groups_become_policies():
    factory, config = assembled(CoinGame(), red={"learning_rate": 1e-3, "hidden_sizes": 16})
    assert factory is multi_agent and config.policies["red"].config.learning_rate == 1e-3
    assert config.policies["red"].config.hidden_sizes == (16,) and config.policies["blue"].config == SMALL
    _, config = assembled(CoinGame(), red={"policy": "blue"})
    assert config.policies["blue"].groups == ("blue", "red") and set(config.policies) == {"blue"}
    factory, config = assembled(CoinGame(), red={"frozen": "random"})
    state, metrics = run(factory, CoinGame(), config, updates=1)
    assert state.agent["red"] == () and "blue/policy_loss" in metrics and not any("red/" in name for name in metrics)
    assert assembled(CartPole(), "CartPole-v1")[0] is ppo


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"rod": {"learning_rate": 1.0}}, "unknown group of CoinGame 'rod': did you mean 'red'"),
        ({"red": {"learning_rat": 1.0}}, "unknown setting of red 'learning_rat': did you mean 'learning_rate'"),
        ({"red": {"num_envs": 3}}, "red.num_envs: all policies of a run share num_envs"),
        ({"red": {"policy": "green"}}, "unknown group in red.policy 'green'"),
        ({"red": {"policy": "blue", "learning_rate": 1.0}}, "group 'red' has the policy of 'blue'"),
        ({"red": {"policy": "blue"}, "blue": {"policy": "red"}}, "lends its policy"),
        ({"red": {"learning_rate": "fast"}}, "red.learning_rate is 'fast'; it must be: number"),
        ({"red": {"frozen": "nowhere"}}, "there is no run in nowhere"),
    ],
)
def test_settings_that_cannot_be(groups, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        assembled(CoinGame(), **groups)


def test_groups_of_a_single_agent_and_policies_that_do_not_match():
    with pytest.raises(InputError, match="has a single agent: there is no group 'red'"):
        assembled(CartPole(), "CartPole-v1", red={"frozen": True})
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
