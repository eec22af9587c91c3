"""VDN and QMIX: a team's common value."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.value_decomposition import QMIXConfig, VDNConfig, qmix, vdn
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.games.matrix_game import MatrixGame
from purerl.envs.particle.spread import Spread
from purerl.errors import InputError
from purerl.extensions.groups.joint import SHARED, MultiAgentConfig, Policy, multi_agent, policies_for
from purerl.loop.train import make_train, make_trainer
from purerl.networks.mixer import mixing
from purerl.networks.q_networks import q_network
from purerl.networks.recurrent_q_network import recurrent_q_network
from purerl.settings.runs import settings
from purerl.spaces import Box, Dict, Discrete, Stacked
from purerl.types import EnvironmentSpec, Rollout


def run(factory, env, config, updates=3):
    trainer = make_trainer(factory, env, config)
    state, step = jax.jit(trainer.init)(jax.random.key(0)), jax.jit(trainer.step)
    for _ in range(updates):
        state, metrics = step(state)
    return state, metrics


@pytest.mark.long
def test_a_team_learns_what_is_best_together():
    """VDN on a game that pays both for meeting at 1, and less for meeting at 0."""
    env = MatrixGame(row_payoff=((0.5, 0.0), (0.0, 1.0)), column_payoff=((0.5, 0.0), (0.0, 1.0)))
    replayed = {"learning_starts": 64, "batch_size": 32, "replay_capacity": 1024, "hidden_sizes": (8,)}
    base = VDNConfig(num_envs=8, rollout_length=8, learning_rate=1e-2, total_timesteps=64 * 80, **replayed)
    team = Policy(algorithm=vdn, config=base, groups=("row", "column"))
    config = policies_for(env, vdn, base, team=team)
    _, metrics = jax.jit(make_train(multi_agent, env, config))(jax.random.key(0))
    assert (
        metrics.episodes["info/row_last"][-10:].mean() > 0.8 and metrics.episodes["episode_return"][-10:].mean() > 0.8
    )
    mixed = QMIXConfig(num_envs=4, **replayed | {"learning_starts": 8, "batch_size": 4})
    state, metrics = run(multi_agent, Spread(), policies_for(Spread(), qmix, mixed))
    assert jnp.isfinite(metrics.algorithm["loss"]) and int(state.agent["agents"].num_gradient_steps) == 2
    with pytest.raises(InputError, match="and this one has none"):
        make_trainer(multi_agent, env, policies_for(env, qmix, mixed))
    with pytest.raises(InputError, match="no groups of agents"):
        make_trainer(vdn, CartPole(), base)


TEAM = Stacked(space=Box(low=-1, high=1, shape=(2,)), n=3)
ACTIVE = Dict(spaces={"agents": Box(low=0, high=1, shape=(3,), dtype=jnp.bool_)})
STATE = Box(low=-1, high=1, shape=(4,))
LEAVING = EnvironmentSpec(
    Dict(spaces={"agents": TEAM, "active": ACTIVE, "global_state": STATE}),
    Dict(spaces={"agents": Stacked(space=Discrete(n=2), n=3)}),
)
REPLAYED = {"learning_starts": 16, "batch_size": 16, "replay_capacity": 512, "hidden_sizes": (4,), "learning_rate": 0.1}


def team(factory, config_class, **changes):
    """The algorithm of a team of three."""
    config = config_class(**REPLAYED | changes)
    policy = Policy(algorithm=factory, config=config, groups=("agents",))
    shared = {name: getattr(config, name) for name in SHARED}
    return multi_agent(LEAVING, MultiAgentConfig(**shared, policies={"agents": policy})), config


def played(length, active, seed=0, same=False):
    """Random steps [T, B] of three agents; active bool[T + 1, B, 3]; `same`: those of all environments are alike."""
    rng = np.random.default_rng(seed)
    num_envs = active.shape[1]

    def normal(*shape):
        x = rng.normal(size=(length + 1, 1 if same else num_envs, *shape)).astype(np.float32)
        return np.broadcast_to(x, (length + 1, num_envs, *shape))

    agents, state = normal(3, 2), normal(4)
    seen = lambda part: {"agents": agents[part], "active": {"agents": active[part]}, "global_state": state[part]}
    no = np.zeros((length, num_envs), bool)
    return Rollout(
        observation=seen(slice(0, -1)),
        action={"agents": (normal(3)[1:] > 0).astype(np.int32)},
        reward={"agents": normal(3)[1:]},
        terminated=no,
        truncated=no,
        next_observation=seen(slice(1, None)),
        extras={"agents": ()},
        carry={"agents": ()},
    )


def garble(tree, where, by):
    """Put numbers in the agents' arrays, [T, B, 3, ...], where bool[T, B, 3]."""
    put = lambda x: np.where(where.reshape(*where.shape, *[1] * (x.ndim - 3)), np.asarray(by, x.dtype), x)
    return tree | {"agents": put(tree["agents"])}


@pytest.mark.long
@pytest.mark.parametrize(("factory", "config_class"), [(vdn, VDNConfig), (qmix, QMIXConfig)])
def test_agents_that_left_count_nowhere(factory, config_class):
    """What they see, do and get changes no bit of what is learned; where all have left, neither does the state."""
    algorithm, _ = team(factory, config_class, num_envs=4, rollout_length=8, n_step=2)
    time = np.arange(9)[:, None]
    leave = np.array([[9, 3, 5], [9, 9, 0], [2, 4, 6], [9, 9, 9]])  # in the third environment all of them
    active = (time < leave.reshape(1, -1)).reshape(9, 4, 3)
    rollout, gone, gone_next = played(8, active), ~active[:-1], ~active[1:]
    agent, update = algorithm.init(jax.random.key(0)), jax.jit(algorithm.update)
    learned = lambda seen: update(agent, jax.random.key(1), seen)[0]["agents"].params

    def changed(before, after):
        other = rollout._replace(
            observation=garble(rollout.observation, before, 0.7),
            next_observation=garble(rollout.next_observation, after, 0.7),
            action=garble(rollout.action, before, 1),
            reward=garble(rollout.reward, before, 5.0),
        )
        nobody = gone.all(axis=2)[..., None]
        state = np.where(nobody, np.float32(9), rollout.observation["global_state"])
        return other._replace(observation=other.observation | {"global_state": state})

    jax.tree.map(np.testing.assert_array_equal, learned(rollout), learned(changed(gone, gone_next)))
    there = ~gone & (time[:-1, :, None] == 1)
    assert not np.array_equal(
        *[jax.tree.leaves(learned(x)["network"])[0] for x in (rollout, changed(there, gone_next))]
    )


@pytest.mark.long
@pytest.mark.parametrize(("factory", "config_class"), [(vdn, VDNConfig), (qmix, QMIXConfig)])
def test_a_teams_loss_by_hand(factory, config_class):
    """One agent has left, one leaves, one stays: every drawn transition is the same one."""
    algorithm, config = team(factory, config_class, num_envs=16, rollout_length=1, discount=0.9, double=False)
    active = np.broadcast_to(np.array([[[1, 0, 1]], [[1, 0, 0]]], bool), (2, 16, 3))
    rollout = played(1, active, same=True)
    agent = algorithm.init(jax.random.key(0))
    agent["agents"] = agent["agents"]._replace(
        target_params=jax.tree.map(lambda x: 0.5 * x + 0.1, agent["agents"].params)
    )
    _, metrics = jax.jit(algorithm.update)(agent, jax.random.key(1), rollout)
    network = q_network(TEAM.space, 2, config)
    mixer = mixing(STATE, 3, 32, config.initializer) if factory is qmix else None

    def value(params, seen, action=None):
        q = np.asarray(network.apply(params["network"], seen["agents"][0, :1], None))
        q = q.max(axis=-1) if action is None else np.take_along_axis(q, action[0, :1, :, None], -1)[..., 0]
        q = q * seen["active"]["agents"][0, :1]
        if mixer is None:
            return q.sum()
        return float(mixer.apply(params["mixer"], q, {"global_state": seen["global_state"][0, :1]})[0])

    reward = rollout.reward["agents"][0, 0, [0, 2]].mean()
    target = reward + 0.9 * value(agent["agents"].target_params, rollout.next_observation)
    error = value(agent["agents"].params, rollout.observation, rollout.action["agents"]) - target
    counted = 16 * float(metrics["loss"]) / (0.5 * error**2)  # out of 16 samples; one that finds nothing has weight 0
    assert counted == pytest.approx(round(counted), rel=1e-4) and 10 <= round(counted) <= 16


def test_the_replay_of_a_team_holds_its_state_once():
    algorithm, _ = team(qmix, QMIXConfig)
    stored = jax.eval_shape(algorithm.init, jax.random.key(0))["agents"].replay.observation
    shapes = {name: part.shape[2:] for name, part in stored.items()}
    assert shapes == {"agents": (3, 2), "active": (3,), "global_state": (4,)}


def test_what_a_team_cannot_have_is_refused():
    """Settings of DQN that do not apply to teams are unknown to them."""
    for setting in ("priority_exponent", "noisy"):
        with pytest.raises(InputError, match=setting.split("_")[0]):
            settings("vdn", "Spread", {setting: 1})


@pytest.mark.long
def test_a_recurrent_teams_loss_by_hand():
    """A rollout with an ending and a truncation, unrolled step by step for each agent, in one drawn sequence."""
    settings = {"num_envs": 1, "rollout_length": 6, "rnn": "gru", "rnn_size": 5, "discount": 0.9, "batch_size": 1}
    algorithm, config = team(vdn, VDNConfig, **settings, learning_starts=6, dueling=False)
    rollout = played(6, np.ones((7, 1, 3), bool))
    successor = rollout.next_observation | {"agents": rollout.next_observation["agents"].copy()}
    successor["agents"][3] += 0.5  # the final observation of the truncated step
    rollout = rollout._replace(
        terminated=np.arange(6)[:, None] == 1,
        truncated=np.arange(6)[:, None] == 3,
        next_observation=successor,
        carry=algorithm.initial_carry(1),
    )
    agent = algorithm.init(jax.random.key(0))
    target = jax.tree.map(lambda x: 0.5 * x + 0.1, agent["agents"].params)
    agent["agents"] = agent["agents"]._replace(target_params=target)
    _, metrics = jax.jit(algorithm.update)(agent, jax.random.key(1), rollout)
    network = recurrent_q_network(TEAM.space, 2, config, rnn="gru", rnn_size=5, dueling=False)

    def along(params):
        """Q of every step and of its next observation, [6, 3, 2] each."""
        carry, now, after = network.initial_carry(3), [], []
        for t in range(6):
            q, carry = network.step(params["network"], carry, rollout.observation["agents"][t, 0])
            now.append(np.asarray(q))
            after.append(np.asarray(network.step(params["network"], carry, successor["agents"][t, 0])[0]))
            carry = network.initial_carry(3) if t in (1, 3) else carry
        return np.stack(now), np.stack(after)

    values, following = along(agent["agents"].params)
    _, target_following = along(target)
    taken = np.take_along_axis(values, rollout.action["agents"][:, 0, :, None], -1)[..., 0].sum(axis=1)
    best = following.argmax(axis=-1)[..., None]
    next_value = np.take_along_axis(target_following, best, -1)[..., 0].sum(axis=1)
    y = rollout.reward["agents"][:, 0].mean(axis=1) + 0.9 * np.where(np.arange(6) == 1, 0.0, next_value)
    assert float(metrics["loss"]) == pytest.approx(0.5 * np.mean((taken - y) ** 2), rel=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("factory", [vdn, qmix])
def test_a_recurrent_team_trains_in_the_loop(factory):
    sizes = {"rnn": "lstm", "rnn_size": 8, "rollout_length": 5, "burn_in": 5, "sequence_length": 10, "num_envs": 4}
    config = (VDNConfig if factory is vdn else QMIXConfig)(
        **REPLAYED | sizes | {"learning_starts": 80, "batch_size": 4}
    )
    state, metrics = run(multi_agent, Spread(), policies_for(Spread(), factory, config), updates=6)
    assert jnp.isfinite(metrics.algorithm["loss"]) and int(state.agent["agents"].num_gradient_steps) == 3
