"""R2D2: targets, burn-in and sequences against independent NumPy."""

import functools
import itertools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import evaluate, make, make_train, make_trainer
from purerl.algos.r2d2 import R2D2Config, r2d2, recorded_error
from purerl.envs.bsuite.memory_chain import MemoryChain
from purerl.envs.memory.t_maze import TMaze
from purerl.errors import InputError
from purerl.networks.recurrent_q_network import recurrent_q_network
from purerl.replay.sequences import Sequences
from purerl.replay.uniform import Replay
from tests.helpers.marks import rows
from tests.helpers.numbered import SPEC, rollout
from tests.helpers.slow_targets import slow_targets, slow_trace_targets

SIZES = {"num_envs": 2, "rollout_length": 4, "burn_in": 4, "sequence_length": 8, "batch_size": 3, "n_step": 3}


SMALL = {**SIZES, "replay_capacity": 64, "learning_starts": 64, "hidden_sizes": (5,), "rnn_size": 6}
NETWORK = recurrent_q_network(SPEC.observation_space, 3, R2D2Config(**SMALL), rnn="lstm", rnn_size=6)


def drawn(seed, ends, num=1):
    """Sequences of 4 + 8 steps in chunks of 4 with random contents; `ends` i32[12, num]."""
    rng = np.random.default_rng(seed)
    cut = lambda n, chunk: [t for t in range(4 * chunk, 4 * chunk + 4) if ends[4 + t, n] == 2]
    follows = [[*[(cut(n, chunk) or [8])[0] for chunk in (0, 1)], 7] for n in range(num)]
    normal = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)
    return Sequences(
        observation=normal(12, num, 2),
        action=jnp.asarray(rng.integers(0, 3, (12, num)), jnp.int32),
        reward=normal(12, num),
        terminated=jnp.asarray(ends == 1),
        truncated=jnp.asarray(ends == 2),
        mask=jnp.ones(ends.shape, bool),
        successor=normal(3, num, 2),
        follows=jnp.asarray(follows, jnp.int32).T,
        carry=(normal(num, 6), normal(num, 6)),
        weight=jnp.asarray(rng.uniform(0.2, 1.0, num), jnp.float32),
        start=jnp.zeros(num, jnp.int32),
    )


@functools.cache
def learning(batch_size, burn_in, kind="n-step"):
    """A compiled (batch, params, target_params) -> (agent before, agent after, metrics)."""
    sizes = {**SMALL, "batch_size": batch_size, "burn_in": burn_in}
    config = R2D2Config(**sizes, discount=0.9, target=kind, trace_lambda=0.8)

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
    return jax.jit(NETWORK.init)(jax.random.key(seed))


def learn(batch, burn_in=4, target=1, kind="n-step"):
    """One gradient step on given sequences: (agent before, agent after, metrics)."""
    return learning(batch.weight.shape[0], burn_in, kind)(batch, params(0), params(target))


@functools.cache
def stepping():
    """A compiled step of the network."""
    return jax.jit(NETWORK.step)


def q_along(params, carry, observations):
    """Q values and memory, one step at a time."""
    values = []
    for observation in observations:
        q, carry = stepping()(params, carry, observation)
        values.append(np.asarray(q))
    return np.stack(values), carry


@pytest.mark.parametrize("kind", rows(["n-step", "peng", "retrace"], {"retrace"}, pytest.mark.long))
@pytest.mark.parametrize(
    ("burned", "trained"),
    [
        ((0, 0, 0, 0), (0, 0, 0, 0, 0, 0, 0, 0)),
        ((0, 2, 0, 0), (0, 0, 0, 1, 0, 0, 2, 0)),
        ((0, 0, 0, 1), (0, 0, 0, 0, 0, 2, 0, 0)),
        ((0, 1, 0, 2), (2, 0, 0, 1, 0, 1, 2, 1)),
        ((0, 0, 0, 0), (2, 0, 2, 0, 0, 0, 2, 2)),
    ],
    ids=["no ending", "terminated", "truncated", "short episodes", "more truncations than successors"],
)
def test_loss_and_priority_equal_numpy(burned, trained, kind):
    ends = np.array(burned + trained)[:, None]
    batch = drawn(3, ends)
    agent, stored, metrics = learn(batch, kind=kind)
    initial_carry = NETWORK.initial_carry
    follows, along, after = batch.follows[:, 0].tolist(), {}, {}
    for name, params in (("online", agent.params), ("target", agent.target_params)):
        carry, along[name], after[name] = batch.carry, [], []
        for t, ended in enumerate((*burned, *trained)):
            value, carry = stepping()(params, carry, batch.observation[t])
            if t >= 4:
                held = t - 4 in follows
                successor = batch.successor[follows.index(t - 4)] if held else batch.observation[min(t + 1, 11)]
                along[name].append(np.asarray(value)[0])
                after[name].append(np.asarray(stepping()(params, carry, successor)[0])[0])
            if ended:
                carry = initial_carry(1)
    values = np.array(after["target"])[np.arange(8), np.array(after["online"]).argmax(axis=1)]
    flat = lambda x: np.asarray(x)[4:, 0]
    steps = (flat(batch.reward), flat(batch.terminated), flat(batch.truncated), values)
    if kind == "n-step":
        y, last = slow_targets(*steps, 0.9, 3)
    else:
        taken = np.array(along["target"])[np.arange(8), flat(batch.action)]
        greedy = np.array(along["online"]).argmax(axis=1) == flat(batch.action)
        y, last = slow_trace_targets(*steps, 0.9, 0.8, *((taken, greedy) if kind == "retrace" else ()))
    valid = np.array([trained[t] != 2 or t in follows for t in last])
    assert valid.sum() == (6 if sum(ended == 2 for ended in trained) > 3 else 8)
    error = (np.array(along["online"])[np.arange(8), flat(batch.action)] - y)[valid]
    assert float(metrics["loss"]) == pytest.approx(float(batch.weight[0]) * 0.5 * np.sum(error**2), rel=1e-3)
    assert float(stored.replay[0]) == pytest.approx(0.9 * np.abs(error).max() + 0.1 * np.abs(error).mean(), rel=1e-3)


@pytest.mark.long
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
        carry=carry,
    )

    with_burn_in, without = learn(batch, 4, target=0)[1].params, learn(plain, 0, target=0)[1].params
    for one, other in zip(jax.tree.leaves(with_burn_in), jax.tree.leaves(without), strict=True):
        assert np.allclose(one, other, atol=1e-6)
    pairs = zip(jax.tree.leaves(after.params), jax.tree.leaves(agent.params), strict=True)
    assert not all(np.allclose(new, old) for new, old in pairs)


@functools.cache
def garbled(chunk):
    """Compiled: (terminated, truncated, action, reward, each [4, T, 2]) -> the parameters of one gradient step.

    Draws do not depend on the errors, so parameters differ only where the loss does.
    """
    config = R2D2Config(
        num_envs=2,
        rollout_length=chunk,
        burn_in=0,
        sequence_length=2 * chunk,
        batch_size=6,
        n_step=3,
        replay_capacity=16 * chunk,
        learning_starts=8 * chunk,
        hidden_sizes=(5,),
        rnn_size=6,
        priority_exponent=0.0,
        num_gradient_steps=6,
    )
    algorithm = r2d2(SPEC, config)
    rng = np.random.default_rng(0)
    normal = lambda *shape: jnp.asarray(rng.normal(size=(4, chunk, 2, *shape)), jnp.float32)
    rollouts = rollout(chunk)._replace(observation=normal(2), next_observation=normal(2))
    rollouts = rollouts._replace(extras={"q": normal(), "best_q": normal()})
    carry = (normal()[:, 0, :, None] * jnp.ones(6),) * 2

    def program(terminated, truncated, action, reward):
        given = rollouts._replace(action=action, reward=reward, terminated=terminated, truncated=truncated)
        update = lambda agent, seen: (algorithm.update(agent, jax.random.key(1), seen)[0], None)
        agent = jax.lax.scan(update, algorithm.init(jax.random.key(0)), given._replace(carry=carry))[0]
        return jax.flatten_util.ravel_pytree(agent.params)[0]

    return jax.jit(jax.vmap(program, in_axes=(None, None, 0, 0)))


@pytest.mark.long
@pytest.mark.parametrize("kind", [1, 2], ids=["terminated", "truncated"])
@pytest.mark.parametrize(("chunk", "length"), [(8, 3), (8, 5), (8, 20), pytest.param(40, 5, marks=pytest.mark.slow)])
def test_every_step_of_every_episode_is_learned_from(chunk, length, kind):
    """Change one step's action, or its reward: the parameters change, but where the docstring says so."""
    steps = np.arange(4 * chunk)
    ends = np.stack([steps % length == length - 1, (steps + 2) % length == length - 1], axis=1)
    never = np.zeros_like(ends)
    terminated, truncated = (ends, never) if kind == 1 else (never, ends)
    rng = np.random.default_rng(1)
    action, reward = rng.integers(0, 3, ends.shape).astype(np.int32), rng.normal(size=ends.shape).astype(np.float32)
    own, within = np.zeros(ends.shape, bool), np.zeros(ends.shape, bool)
    for begin, env in itertools.product(range(0, 3 * chunk, chunk), range(2)):  # every sequence of two chunks
        here = slice(begin, begin + 2 * chunk)
        cut = np.asarray(truncated[here, env], int)
        held = (cut == 0) | (np.cumsum(cut.reshape(2, -1), axis=1) <= 1 + chunk // 8).ravel()
        held[-1] = True
        _, last = slow_targets(reward[here, env], terminated[here, env], truncated[here, env], reward[:, env], 1, 3)
        own[here, env] |= held[last]
        for t in np.flatnonzero(held[last]):
            within[begin + t : begin + last[t] + 1, env] = True

    variants = np.arange(8 * chunk + 1)  # the first one changes nothing
    at = (variants[:, None] == variants[1:]).reshape(-1, *ends.shape)

    def changed(actions, rewards):
        given = [np.broadcast_to(x, at.shape) for x in (actions, rewards)]
        shaped = [x.reshape(*x.shape[:-2], 4, chunk, 2) for x in (terminated, truncated, *given)]
        params = np.asarray(garbled(chunk)(*shaped))
        return (params[1:] != params[0]).any(axis=1).reshape(ends.shape)

    np.testing.assert_array_equal(changed(np.where(at, (action + 1) % 3, action), reward), own)
    np.testing.assert_array_equal(changed(action, np.where(at, reward + 9, reward)), within)
    assert own.all() if kind == 1 or length > 8 else own.mean() > 0.7


@pytest.mark.long
@pytest.mark.parametrize(("length", "n_step"), [(9, 3), (5, 5), (4, 6)])
def test_first_errors_are_those_whose_outcome_was_recorded(length, n_step):
    rng = np.random.default_rng(length)
    ends = rng.choice([0, 0, 0, 1, 2], (length, 30))
    mask = rng.random((length, 30)) < 0.9
    given = rollout(length, 30, ends=ends)._replace(mask=jnp.asarray(mask))
    given = given._replace(reward=jnp.asarray(rng.normal(size=ends.shape), jnp.float32))
    given.extras.update({name: jnp.asarray(rng.normal(size=ends.shape), jnp.float32) for name in ("q", "best_q")})
    error, known = recorded_error(given, R2D2Config(n_step=n_step, discount=0.9))
    best = np.concatenate([given.extras["best_q"][1:], np.zeros((1, 30))])
    for env in range(30):
        column = lambda x, env=env: np.asarray(x)[:, env]
        y, last = slow_targets(column(given.reward), ends[:, env] == 1, ends[:, env] == 2, column(best), 0.9, n_step)
        expected = [ends[t, env] == 1 or (t < length - 1 and ends[t, env] == 0) for t in last] & mask[:, env]
        assert np.asarray(known)[:, env].tolist() == expected.tolist()
        assert np.allclose((column(given.extras["q"]) - y)[expected], column(error)[expected], atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "solved"), [(TMaze(), 3.8), (MemoryChain(memory_length=19), 0.95)], ids=["maze", "cue"]
)
def test_what_the_first_step_showed_is_remembered(env, solved):
    """Chunks of 40 steps hold episodes of about 10, or of 20, that begin anywhere in them."""
    config = R2D2Config(
        num_envs=32,
        burn_in=0,
        sequence_length=40,
        num_gradient_steps=4,
        replay_capacity=50_000,
        learning_starts=5_000,
        learning_rate=1e-3,
        adam_epsilon=1e-6,
        discount=0.98,
        target_update_interval=200,
        hidden_sizes=(32,),
        rnn="gru",
        rnn_size=32,
        epsilon_min=0.01,
        epsilon_max=0.4,
    )
    state, _ = jax.jit(make_train(r2d2, env, config, total_timesteps=400_000))(jax.random.key(1))
    played = evaluate(make_trainer(r2d2, env, config), state.agent, jax.random.key(7), 200)
    assert float(played.episode_return.mean()) > solved


@pytest.mark.slow  # by default the contract holds it
def test_vmapped_seeds_equal_solo_runs():
    train = make_train(r2d2, make("TMaze"), R2D2Config(**SMALL), total_timesteps=8 * 10)
    keys = jax.random.split(jax.random.key(3), 2)
    together, _ = jax.jit(jax.vmap(train))(keys)
    alone, _ = jax.jit(train)(keys[1])
    assert int(alone.agent.num_gradient_steps) == 3
    for one, many in zip(jax.tree.leaves(alone.agent), jax.tree.leaves(together.agent), strict=True):
        assert np.allclose(one, many[1], atol=1e-4)


@pytest.mark.long
def test_explores_at_a_rate_per_environment():
    config = R2D2Config(**{**SMALL, "num_envs": 3}, epsilon_min=0.01, epsilon_max=1.0)
    algorithm = r2d2(SPEC, config)
    agent = algorithm.init(jax.random.key(0))
    observation = jnp.ones((3, 2))
    act = jax.jit(lambda key: algorithm.act(agent, algorithm.initial_carry(3), key, observation, True)[0])
    best = algorithm.act(agent, algorithm.initial_carry(3), jax.random.key(0), observation, False)[0]
    actions = jax.vmap(act)(jax.random.split(jax.random.key(1), 20_000))
    rate = np.mean(np.asarray(actions) != np.asarray(best), axis=0) * 3 / 2  # one of the three actions is the best
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


@pytest.mark.long
def test_replay_ratio_holds_from_the_first_gradient_step():
    assert R2D2Config(**SMALL, num_gradient_steps=2).replay_ratio == 2 * 3 * 8 / (2 * 4)
    *_, counts = ten_updates()(2, 80.0)
    assert counts.tolist() == [0] * 7 + [2, 4, 6]


@pytest.mark.long
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


@pytest.mark.long
def test_evaluation_is_greedy():
    """Whatever the key, as in every algorithm of this family: an exported policy has none."""
    algorithm = r2d2(SPEC, R2D2Config(**{**SMALL, "num_envs": 1}))
    agent = algorithm.init(jax.random.key(0))
    act = lambda key: algorithm.act(agent, algorithm.initial_carry(1), key, jnp.ones((1, 2)), False)[0][0]
    actions = np.asarray(jax.jit(jax.vmap(act))(jax.random.split(jax.random.key(1), 5_000)))
    assert len(set(actions.tolist())) == 1


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
