"""DQN: its targets, target network, time limits, masks, schedules, and vmapped seeds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import make, make_train, make_trainer
from purerl.algos.dqn import dqn, taken_and_next
from purerl.errors import InputError
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Box, Dict, Discrete
from purerl.types import EnvironmentSpec
from tests.helpers.tables import OBSERVATION, PARAMS, SPEC, STEP, TABLE, fixed, loop, small


def value_of_loop(truncated, **changes):
    algorithm = dqn(SPEC, small(discount=0.8, **changes), network=TABLE)
    agent = algorithm.init(jax.random.key(0))
    update = jax.jit(algorithm.update)
    for i in range(60):
        agent, _ = update(agent, jax.random.key(i), loop(truncated))
    return float(agent.params[0, 0])


@pytest.mark.long_for("1", "3")
@pytest.mark.parametrize("n_step", [1, 3])
def test_a_time_limit_is_not_an_ending(n_step):
    """Reward 1 forever is worth 1 / (1 - 0.8) = 5; if every second step ended the task, 1 + 0.8 / 2 on average."""
    assert value_of_loop(truncated=True, n_step=n_step) == pytest.approx(5.0, abs=0.3)
    done = value_of_loop(truncated=False, n_step=n_step)
    # Half of the steps are worth 1, half 1 + 0.8 v (or, in n steps, 1 + 0.8 1); one state holds the mean.
    assert done == pytest.approx((1 + 1) / (2 - 0.8) if n_step == 1 else 1.4, abs=0.15)


TARGETS = jnp.array([[9.0, 9.0], [3.0, 7.0], [0.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize(("double", "target"), [(False, 1 + 0.5 * 7), (True, 1 + 0.5 * 3)], ids=["plain", "double"])
@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_loss_by_hand(double, target, weight):
    """Q(s) = (2, 4), Q(s') = (6, 5), Q'(s') = (3, 7): the networks would choose differently in s'."""
    config = small(double=double, num_gradient_steps=1, learning_starts=64, huber_delta=1.0)
    algorithm = dqn(SPEC, config, network=TABLE, replay=fixed(**STEP, weight=jnp.float32(weight)))
    agent = algorithm.init(jax.random.key(0))
    agent = agent._replace(params=PARAMS, target_params=TARGETS, num_updates=jnp.int32(1000))
    after, metrics = algorithm.update(agent, jax.random.key(0), loop(False))
    error = abs(4.0 - target)
    assert float(metrics["loss"]) == pytest.approx(weight * (0.5 * error**2 if error <= 1 else error - 0.5))
    assert np.allclose(after.replay, error)
    moved = np.asarray(after.params != PARAMS)
    assert moved.tolist() == [[False, True], [False, False], [False, False], [False, False]]


@pytest.mark.long
def test_illegal_actions_are_neither_taken_nor_bootstrapped(key):
    space = Dict(spaces={"observation": OBSERVATION, "action_mask": Box(low=0, high=1, shape=(2,), dtype=bool)})
    spec = EnvironmentSpec(space, Discrete(n=2))
    masked = lambda state, legal: {"observation": jnp.array([state, 0.0]), "action_mask": jnp.array(legal)}
    table = TABLE._replace(
        apply=lambda params, observation, noise=None: TABLE.apply(params, observation["observation"])
    )
    step = STEP | {"observation": masked(0.0, [True, True]), "next_observation": masked(1.0, [True, False])}
    flat = lambda tree: jax.tree.map(lambda x: jnp.broadcast_to(x, (4, *x.shape)), tree)
    batch = Transitions(*(flat(step[name]) for name in Transitions._fields[:5]), jnp.ones(4), jnp.arange(4))
    stuck = Replay(lambda: (), lambda s, _: s, lambda s, _: batch, lambda s, *_: s)
    algorithm = dqn(spec, small(num_gradient_steps=1), network=table, replay=stuck)
    agent = algorithm.init(key)._replace(params=PARAMS, target_params=TARGETS, num_updates=jnp.int32(1000))
    _, metrics = algorithm.update(agent, key, loop(False))
    assert float(metrics["td_error"]) == pytest.approx(4.0 - (1 + 0.5 * 3))  # 3 is legal, 7 is not
    for explore in (True, False):
        observation = flat(masked(0.0, [True, False]))
        action, _, _ = algorithm.act(agent._replace(num_updates=jnp.int32(0)), (), key, observation, explore)
        assert action.tolist() == [0, 0, 0, 0]


@pytest.mark.long
def test_vmapped_seeds_equal_solo_runs():
    config = small(rollout_length=2, num_gradient_steps=2, hidden_sizes=(16,), learning_rate=1e-3)
    train = make_train(dqn, make("CartPole-v1"), config, total_timesteps=8 * 12)
    keys = jax.random.split(jax.random.key(3), 3)
    together, _ = jax.jit(jax.vmap(train))(keys)
    alone, _ = jax.jit(train)(keys[1])
    assert int(alone.agent.num_gradient_steps) == 10
    for one, many in zip(jax.tree.leaves(alone.agent), jax.tree.leaves(together.agent), strict=True):
        assert np.allclose(one, many[1], atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 65}, "batch_size 65 is larger than"),
        ({"learning_starts": 32}, "batch_size 64 is larger than the 32 steps that are stored"),
        ({"exploration_fraction": 1.5}, "exploration_fraction is 1.5"),
        ({"n_step": 17}, "n_step 17 is larger"),
        ({"replay_capacity": 10**13}, "MB; there are"),
    ],
)
def test_refuses_settings_that_cannot_be(changes, message):
    with pytest.raises(InputError, match=message):
        dqn(SPEC, small(**changes))


def test_refuses_continuous_actions():
    with pytest.raises(InputError, match="discrete actions"):
        dqn(EnvironmentSpec(OBSERVATION, Box(low=-1.0, high=1.0, shape=(1,))), small())


@pytest.mark.parametrize(("period", "rate", "share"), [(1, 0.1, 0.1), (3, 1.0, 0.0), (2, 0.5, 0.5)])
def test_target_moves_by_its_rate_when_due(period, rate, share):
    """After two gradient steps: the shares of old and new parameters in the target."""
    config = small(num_gradient_steps=2, target_update_interval=period, tau=rate)
    algorithm = dqn(SPEC, config, network=TABLE, replay=fixed(**STEP, weight=jnp.float32(1)))
    agent = algorithm.init(jax.random.key(0))._replace(params=PARAMS, num_updates=jnp.int32(1000))
    after, _ = algorithm.update(agent._replace(target_params=jnp.zeros((4, 2))), jax.random.key(0), loop(False))
    expected = {0.1: 0.1 * PARAMS * 0.9 + 0.1 * after.params, 0.0: 0 * PARAMS, 0.5: 0.5 * after.params}[share]
    assert np.allclose(after.target_params, expected, atol=0.01)


@pytest.mark.long
def test_does_nothing_before_learning_starts():
    algorithm = dqn(SPEC, small(), network=TABLE)
    agent = algorithm.init(jax.random.key(0))
    update = jax.jit(algorithm.update)
    counts = []
    for i in range(5):
        agent, metrics = update(agent, jax.random.key(i), loop(True))
        counts.append((int(agent.num_updates), int(agent.num_gradient_steps), float(metrics["loss"]) > 0))
    assert counts == [(1, 0, False), (2, 0, False), (3, 0, False), (4, 20, True), (5, 40, True)]


@pytest.mark.long
def test_mapped_runs_start_learning_each_in_its_own_time():
    """One run has started learning and one has not: both equal solo runs, and only the needed branch is computed."""
    algorithm = dqn(SPEC, small(priority_exponent=0.6), network=TABLE)
    update, agents = jax.jit(algorithm.update), [algorithm.init(jax.random.key(0))]
    for i in range(4):
        agents.append(update(agents[-1], jax.random.key(i), loop(True))[0])
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), agents[2], agents[3])
    mapped = jax.vmap(algorithm.update, (0, None, None))
    together, metrics = jax.jit(mapped)(both, jax.random.key(9), loop(True))
    assert together.num_gradient_steps.tolist() == [0, 20] and metrics["loss"][0] == 0 < metrics["loss"][1]
    for i, alone in enumerate(agents[2:4]):
        after, _ = update(alone, jax.random.key(9), loop(True))
        one = jax.tree.map(lambda x, i=i: x[i], together)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), one, after)
    assert "cond[" in str(jax.make_jaxpr(mapped)(both, jax.random.key(9), loop(True)))


@pytest.mark.long
def test_one_program_serves_vmapped_settings():
    env = make("CartPole-v1")

    def final_loss(learning_rate, epsilon_end):
        config = small(hidden_sizes=(8,), learning_rate=learning_rate, epsilon_end=epsilon_end)
        trainer = make_trainer(dqn, env, config)
        _, metrics = jax.lax.scan(lambda s, _: trainer.step(s), trainer.init(jax.random.key(0)), None, 6)
        return metrics.algorithm["loss"][-1]

    losses = jax.jit(jax.vmap(final_loss))(jnp.array([0.0001, 0.01]), jnp.array([0.1, 0.1]))
    assert losses.shape == (2,) and float(losses[0]) != float(losses[1])


@pytest.mark.parametrize(("double", "expected"), [(False, 9.0), (True, 7.0)])
def test_the_successors_action_is_chosen_by_the_network_that_the_setting_names(double, expected):
    """The target network prefers action 0 of state 1, the online one action 1; the value is the target's."""
    target = jnp.array([[0.0, 0.0], [9.0, 7.0], [0.0, 0.0], [0.0, 0.0]])
    online = jnp.array([[2.0, 4.0], [5.0, 6.0], [0.0, 0.0], [0.0, 0.0]])
    batch = fixed(**STEP, weight=jnp.float32(1)).sample(None, None)
    taken, next_best = taken_and_next(TABLE, online, target, batch, jax.random.key(0), config=small(double=double))
    assert taken.tolist() == [4.0] * 4 and next_best.tolist() == [expected] * 4


def test_a_loss_counts_by_its_weight():
    """The target is 1 + 0.5 x 6 = 4; Q of four transitions is 2, 3, 6 and 7, and two of them count half."""
    fixed_replay = fixed(**STEP, weight=jnp.float32(1))
    batch = fixed_replay.sample(None, None)._replace(weight=jnp.array([1.0, 0.5, 0.5, 1.0]), action=jnp.arange(4) % 2)
    batch = batch._replace(observation=jnp.array([[0.0, 0.0], [0.0, 0.0], [2.0, 0.0], [2.0, 0.0]]))
    table = jnp.array([[2.0, 3.0], [6.0, 5.0], [6.0, 7.0], [0.0, 0.0]])
    algorithm = dqn(
        SPEC, small(num_gradient_steps=1), network=TABLE, replay=fixed_replay._replace(sample=lambda *_: batch)
    )
    agent = algorithm.init(jax.random.key(0))._replace(params=table, target_params=table, num_updates=jnp.int32(1000))
    _, metrics = algorithm.update(agent, jax.random.key(0), loop(False))
    assert float(metrics["loss"]) == pytest.approx((2.0**2 + 0.5 * 1.0 + 0.5 * 2.0**2 + 3.0**2) / 8)
