"""What all Q-learning agents share: when they learn, and how the target network follows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import make, make_trainer
from purerl.algo_parts.q_learning import q_agent, value_pair
from purerl.algos.dqn import dqn
from tests.helpers.tables import PARAMS, SPEC, STEP, TABLE, fixed, loop, small


@pytest.mark.parametrize(("period", "rate", "share"), [(1, 0.1, 0.1), (3, 1.0, 0.0), (2, 0.5, 0.5)])
def test_target_moves_by_its_rate_when_due(period, rate, share):
    """After two gradient steps: the shares of old and new parameters in the target."""
    config = small(num_gradient_steps=2, target_update_interval=period, tau=rate)
    algorithm = dqn(SPEC, config, network=TABLE, replay=fixed(**STEP, weight=jnp.float32(1)))
    agent = algorithm.init(jax.random.key(0))._replace(params=PARAMS, num_updates=jnp.int32(1000))
    after, _ = algorithm.update(agent._replace(target_params=jnp.zeros((4, 2))), jax.random.key(0), loop(False))
    expected = {0.1: 0.1 * PARAMS * 0.9 + 0.1 * after.params, 0.0: 0 * PARAMS, 0.5: 0.5 * after.params}[share]
    assert np.allclose(after.target_params, expected, atol=0.01)


def test_does_nothing_before_learning_starts():
    algorithm = dqn(SPEC, small(), network=TABLE)
    agent = algorithm.init(jax.random.key(0))
    update = jax.jit(algorithm.update)
    counts = []
    for i in range(5):
        agent, metrics = update(agent, jax.random.key(i), loop(True))
        counts.append((int(agent.num_updates), int(agent.num_gradient_steps), float(metrics["loss"]) > 0))
    assert counts == [(1, 0, False), (2, 0, False), (3, 0, False), (4, 20, True), (5, 40, True)]


def test_mapped_runs_start_learning_each_in_its_own_time():
    """One that has started beside one that has not: as alone, and without computing both sides where none has."""
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


def test_one_program_serves_vmapped_settings():
    env = make("CartPole-v1")

    def final_loss(learning_rate, epsilon_end):
        config = small(hidden_sizes=(8,), learning_rate=learning_rate, epsilon_end=epsilon_end)
        trainer = make_trainer(dqn, env, config)
        _, metrics = jax.lax.scan(lambda s, _: trainer.step(s), trainer.init(jax.random.key(0)), None, 6)
        return metrics.algorithm["loss"][-1]

    losses = jax.jit(jax.vmap(final_loss))(jnp.array([0.0001, 0.01]), jnp.array([0.1, 0.1]))
    assert losses.shape == (2,) and float(losses[0]) != float(losses[1])


@pytest.mark.parametrize(("double", "following"), [(False, 9.0), (True, 7.0)])
def test_the_successors_action_is_chosen_by_the_network_that_the_setting_names(double, following):
    """The target network prefers action 0 of state 1, the online one action 1; the value is the target's."""
    target = jnp.array([[0.0, 0.0], [9.0, 7.0], [0.0, 0.0], [0.0, 0.0]])
    online = jnp.array([[2.0, 4.0], [5.0, 6.0], [0.0, 0.0], [0.0, 0.0]])
    batch = fixed(**STEP, weight=jnp.float32(1)).sample(None, None)
    pair = value_pair(TABLE, small(double=double), lambda q: q, online, target, batch, jax.random.key(0))
    assert pair.taken.tolist() == [4.0] * 4 and pair.following.tolist() == [following] * 4


def test_a_loss_counts_by_its_weight():
    """Of four transitions with losses 1 to 4, of which two count half."""
    drawn = fixed(**STEP, weight=jnp.float32(1))
    batch = drawn.sample(None, None)._replace(weight=jnp.array([1.0, 0.5, 0.5, 1.0]))
    losses = jnp.arange(1.0, 5.0)
    loss = lambda params, target, batch, key: (losses + 0.0 * jnp.sum(params), losses, {})
    algorithm = q_agent(SPEC, small(), TABLE, lambda q: q, loss, drawn._replace(sample=lambda state, key: batch))
    agent = algorithm.init(jax.random.key(0))._replace(num_updates=jnp.int32(1000))
    _, metrics = algorithm.update(agent, jax.random.key(0), loop(False))
    assert float(metrics["loss"]) == pytest.approx((1 + 1 + 1.5 + 4) / 4)
