"""R2D2: targets, burn-in and sequences against independent NumPy."""

import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import make, make_train
from purerl.algos.r2d2 import R2D2Config, r2d2, recurrent_q_network
from purerl.errors import InputError
from purerl.replay.sequences import Sequences
from purerl.replay.uniform import Replay
from tests.helpers.numbered import SPEC, rollout
from tests.helpers.slow_targets import slow_targets

SIZES = {"num_envs": 2, "rollout_length": 4, "burn_in": 4, "sequence_length": 8, "batch_size": 3, "n_step": 3}


SMALL = {**SIZES, "replay_capacity": 64, "learning_starts": 64, "hidden_sizes": (5,), "rnn_size": 6}


def drawn(seed, ends, num=1):
    """Sequences of 4 + 8 steps with random contents; `ends` i32[12, num]."""
    rng = np.random.default_rng(seed)
    normal = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)
    return Sequences(
        normal(12, num, 2),
        jnp.asarray(rng.integers(0, 3, (12, num)), jnp.int32),
        normal(12, num),
        jnp.asarray(ends == 1),
        jnp.asarray(ends == 2),
        jnp.ones(ends.shape, bool),
        normal(3, num, 2),
        (normal(num, 6), normal(num, 6)),
        jnp.asarray(rng.uniform(0.2, 1.0, num), jnp.float32),
        jnp.zeros(num, jnp.int32),
    )


@functools.cache
def learning(batch_size, burn_in):
    """A compiled (batch, params, target_params) -> (agent before, agent after, metrics)."""
    config = R2D2Config(**{**SMALL, "batch_size": batch_size, "burn_in": burn_in}, discount=0.9)

    @jax.jit
    def program(batch, params, target_params):
        held = Replay(lambda: jnp.zeros(batch_size), lambda s, _: s, lambda s, _: batch, lambda s, b, p: s + p)
        algorithm = r2d2(SPEC, config, replay=held)
        agent = algorithm.init(jax.random.key(0))
        agent = agent._replace(params=params, target_params=target_params, num_updates=jnp.int32(10**6))
        return agent, *algorithm.update(agent, jax.random.key(0), rollout())

    return program


@functools.cache
def params(seed):
    """A network's parameters."""
    return jax.jit(recurrent_q_network(SPEC, R2D2Config(**SMALL), 3).init)(jax.random.key(seed))


def learn(batch, burn_in=4, target=1):
    """One gradient step on given sequences: (agent before, agent after, metrics)."""
    return learning(batch.weight.shape[0], burn_in)(batch, params(0), params(target))


@functools.cache
def stepping():
    """A compiled step of the network."""
    return jax.jit(recurrent_q_network(SPEC, R2D2Config(**SMALL), 3).step)


def q_along(params, carry, observations):
    """Q values and memory, one step at a time."""
    values = []
    for observation in observations:
        q, carry = stepping()(params, carry, observation)
        values.append(np.asarray(q))
    return np.stack(values), carry


@pytest.mark.parametrize(
    ("burned", "trained"),
    [
        ((0, 0, 0, 0), (0, 0, 0, 0, 0, 0, 0, 0)),
        ((0, 2, 0, 0), (0, 0, 0, 1, 0, 0, 2, 0)),
        ((0, 0, 0, 1), (0, 0, 0, 0, 0, 2, 0, 0)),
    ],
    ids=["no ending", "terminated", "truncated"],
)
def test_loss_and_priority_equal_numpy(burned, trained):
    ends = np.array(burned + trained)[:, None]
    batch = drawn(3, ends)
    agent, after, metrics = learn(batch)
    initial_carry, states = recurrent_q_network(SPEC, R2D2Config(**SMALL), 3).initial_carry, {}
    for name, params in (("online", agent.params), ("target", agent.target_params)):
        carry = batch.carry
        for t in range(4):
            _, carry = q_along(params, carry, [batch.observation[t]])
            if burned[t]:
                carry = initial_carry(1)
        first = next((t for t in range(8) if trained[t]), 7)
        observations = [batch.observation[4 + t] for t in range(first + 1)] + [batch.successor[1 + first // 4]]
        states[name] = q_along(params, carry, observations)[0][:, 0]
    values = states["target"][np.arange(first + 2), states["online"].argmax(axis=1)]
    part = slice(4, 4 + first + 1)
    flat = lambda x: np.asarray(x)[part, 0]
    y = slow_targets(flat(batch.reward), flat(batch.terminated), flat(batch.truncated), values, 0.9, 3)
    error = states["online"][np.arange(first + 1), flat(batch.action)] - np.array(y)
    assert float(metrics["loss"]) == pytest.approx(float(batch.weight[0]) * 0.5 * np.sum(error**2), rel=1e-3)
    assert float(after.replay[0]) == pytest.approx(0.9 * np.abs(error).max() + 0.1 * np.abs(error).mean(), rel=1e-3)


def test_no_gradient_through_the_burn_in():
    """An ending just before training cuts burn-in off; without one it still only sets the state, for which the
    gradient must be that of training from the burned-in state."""
    ends = np.zeros((12, 1), int)
    batch = drawn(5, ends)
    agent, after, _ = learn(batch)
    _, carry = q_along(agent.params, batch.carry, batch.observation[:4])
    _, target_memory = q_along(agent.target_params, batch.carry, batch.observation[:4])
    assert not np.allclose(carry[0], target_memory[0])
    # The same training steps from the burned-in memory, without a burn-in; the target's memory is the same.
    tail = lambda x: x[4:]
    steps = ("observation", "action", "reward", "terminated", "truncated", "mask")
    plain = batch._replace(
        **{name: tail(getattr(batch, name)) for name in steps},
        successor=batch.successor[1:],
        carry=carry,
    )

    with_burn_in, without = learn(batch, 4, target=0)[1].params, learn(plain, 0, target=0)[1].params
    for one, other in zip(jax.tree.leaves(with_burn_in), jax.tree.leaves(without), strict=True):
        assert np.allclose(one, other, atol=1e-6)
    pairs = zip(jax.tree.leaves(after.params), jax.tree.leaves(agent.params), strict=True)
    assert not all(np.allclose(new, old) for new, old in pairs)


def test_vmapped_seeds_equal_solo_runs():
    train = make_train(r2d2, make("TMaze"), R2D2Config(**SMALL), total_timesteps=8 * 10)
    keys = jax.random.split(jax.random.key(3), 2)
    together, _ = jax.jit(jax.vmap(train))(keys)
    alone, _ = jax.jit(train)(keys[1])
    assert int(alone.agent.num_gradient_steps) == 3
    for one, many in zip(jax.tree.leaves(alone.agent), jax.tree.leaves(together.agent), strict=True):
        assert np.allclose(one, many[1], atol=1e-4)


def test_explores_at_a_rate_per_environment():
    config = R2D2Config(**{**SMALL, "num_envs": 3}, epsilon_min=0.01, epsilon_max=1.0)
    algorithm = r2d2(SPEC, config)
    agent = algorithm.init(jax.random.key(0))
    observation = jnp.ones((3, 2))
    act = jax.jit(lambda key: algorithm.act(agent, algorithm.initial_carry(3), key, observation, True)[0])
    best = algorithm.act(agent, algorithm.initial_carry(3), jax.random.key(0), observation, False)[0]
    actions = jax.vmap(act)(jax.random.split(jax.random.key(1), 20_000))
    rate = np.mean(np.asarray(actions) != np.asarray(best), axis=0) * 3 / 2  # of three actions one is the best
    assert np.allclose(rate, [1.0, 0.1, 0.01], atol=[0.02, 0.01, 0.005])


@functools.cache
def ten_updates():
    """Compiled: (target_update_interval, max_grad_norm) -> (parameters, target, gradient steps) after each of ten."""
    keys = jax.vmap(jax.random.key)(jnp.arange(10))
    rollouts = jax.tree.map(lambda *xs: jnp.stack(xs), *[rollout(start=i) for i in range(10)])

    def program(target_update_interval, max_grad_norm):
        config = R2D2Config(
            **SMALL, num_gradient_steps=2, target_update_interval=target_update_interval, max_grad_norm=max_grad_norm
        )
        algorithm = r2d2(SPEC, config)

        def update(agent, given):
            agent, _ = algorithm.update(agent, *given)
            return agent, (agent.params, agent.target_params, agent.num_gradient_steps)

        return jax.lax.scan(update, algorithm.init(jax.random.key(0)), (keys, rollouts))[1]

    return jax.jit(program)


def test_replay_ratio_holds_from_the_first_gradient_step():
    assert R2D2Config(**SMALL, num_gradient_steps=2).replay_ratio == 2 * 3 * 8 / (2 * 4)
    *_, counts = ten_updates()(2, 80.0)
    assert counts.tolist() == [0] * 7 + [2, 4, 6]


def test_copies_to_the_target_when_due_and_clips_gradients():
    """Two gradient steps in the eighth update: both numbers are data, so one program serves all three settings."""

    def eighth(target_update_interval, max_grad_norm):
        params, target_params, _ = ten_updates()(target_update_interval, max_grad_norm)
        at = lambda tree, i: jax.tree.map(lambda x: np.asarray(x[i]), tree)
        return at(params, 6), at(params, 7), at(target_params, 7)

    before, after, target = eighth(2, 80.0)
    assert jax.tree.all(jax.tree.map(np.array_equal, after, target))
    moved = float(jnp.max(jnp.abs(jax.flatten_util.ravel_pytree(after)[0] - jax.flatten_util.ravel_pytree(before)[0])))
    _, waiting, target = eighth(3, 80.0)
    assert jax.tree.all(jax.tree.map(np.array_equal, after, waiting))
    assert jax.tree.all(jax.tree.map(np.array_equal, before, target)), "not copied before the third"
    # Adam's step is g / (|g| + 1e-3): far below its learning rate where the gradient is held to 1e-6.
    before, after, _ = eighth(3, 1e-6)
    held = float(jnp.max(jnp.abs(jax.flatten_util.ravel_pytree(after)[0] - jax.flatten_util.ravel_pytree(before)[0])))
    assert 0.0 < held < 0.01 * moved


def test_evaluation_explores_at_its_own_rate():
    algorithm = r2d2(SPEC, R2D2Config(**{**SMALL, "num_envs": 1}, epsilon_evaluation=0.6))
    agent = algorithm.init(jax.random.key(0))
    act = lambda key: algorithm.act(agent, algorithm.initial_carry(1), key, jnp.ones((1, 2)), False)[0][0]
    actions = np.asarray(jax.jit(jax.vmap(act))(jax.random.split(jax.random.key(1), 5_000)))
    assert np.allclose(np.sort(np.bincount(actions, minlength=3)) / 5_000, [0.2, 0.2, 0.6], atol=0.03)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"burn_in": 3}, "must be multiples of rollout_length"),
        ({"replay_capacity": 16, "batch_size": 1}, "longer than an environment's share"),
        ({"learning_starts": 24, "batch_size": 5}, "larger than the 2 sequences that are stored"),
        ({"rnn": "none"}, "rnn is 'none'"),
        ({"replay_capacity": 10**13}, "MB; there are"),
    ],
)
def test_refuses_settings_that_cannot_be(changes, message):
    with pytest.raises(InputError, match=message):
        r2d2(SPEC, R2D2Config(**{**SMALL, **changes}))
