"""Episodes that bsuite's own environments recorded, played again from the same start with the same actions."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.bsuite.catch import Catch
from purerl.envs.bsuite.deep_sea import DeepSea
from purerl.envs.bsuite.discounting_chain import DiscountingChain
from purerl.envs.bsuite.memory_chain import MemoryChain
from purerl.envs.bsuite.simple_bandit import SimpleBandit
from purerl.envs.bsuite.umbrella_chain import UmbrellaChain

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "bsuite.npz"


def recorded(name):
    with np.load(GOLDEN) as arrays:
        return {
            field: arrays[f"{name}/{field}"] for field in ("hidden", "first", "action", "observation", "reward", "last")
        }


def replay(env, record, start):
    """Run the recorded actions; `start` puts what the record's `hidden` holds into the state."""

    def one_step(carry, inputs):
        state, fresh = carry
        hidden, action, last, key = inputs
        began, _ = env.reset(key)
        began = start(began, hidden)
        state = jax.tree.map(lambda a, b: jnp.where(fresh, a, b), began, state)
        state, step = env.step(key, state, action)
        return (state, last), step

    inputs = (record["hidden"], record["action"].astype(np.int32), record["last"])
    keys = jax.random.split(jax.random.key(0), len(record["last"]))
    state, _ = env.reset(keys[0])
    return jax.jit(lambda: jax.lax.scan(one_step, (state, True), (*map(jnp.asarray, inputs), keys))[1])()


def check(step, record, rewards=slice(None), columns=slice(None)):
    observation = np.asarray(step.observation).reshape(len(record["last"]), -1)
    np.testing.assert_allclose(observation[:, columns], record["observation"][:, columns], atol=1e-6)
    np.testing.assert_allclose(np.asarray(step.reward)[rewards], record["reward"][rewards], atol=1e-6)
    np.testing.assert_array_equal(step.terminated, record["last"])
    assert not np.any(step.truncated)
    assert record["last"].sum() > 10


def test_catch():
    record = recorded("catch")
    check(replay(Catch(), record, lambda s, hidden: s._replace(ball_column=hidden.astype(jnp.int32))), record)


def test_deep_sea():
    record = recorded("deep_sea")
    table = jnp.asarray(record["hidden"][0].reshape(10, 10), jnp.int32)

    class Injected(DeepSea):
        def action_right(self, row, column):
            return table[row, column]

    check(replay(Injected(size=10), record, lambda s, hidden: s), record)


def test_discounting_chain():
    record = recorded("discounting_chain")
    check(replay(DiscountingChain(bonus_chain=2), record, lambda s, hidden: s), record)


def test_umbrella_chain():
    record = recorded("umbrella_chain")
    env = UmbrellaChain(chain_length=20, num_distractors=3)
    step = replay(env, record, lambda s, hidden: s._replace(need=hidden.astype(jnp.int32)))
    check(step, record, rewards=record["last"], columns=slice(3))
    noise = np.asarray(step.reward)[~record["last"]]
    assert set(noise) == {-1.0, 1.0}
    assert abs(noise.mean()) < 4 / np.sqrt(noise.size)
    bits = np.asarray(step.observation)[:, 3:]
    assert set(np.unique(bits)) == {0.0, 1.0}
    np.testing.assert_allclose(bits.mean(0), 0.5, atol=2 / np.sqrt(len(bits)))


def test_memory_chain():
    record = recorded("memory_chain")

    def start(state, hidden):
        hidden = hidden.astype(jnp.int32)
        return state._replace(context=hidden[:3], query=hidden[3])

    check(replay(MemoryChain(memory_length=7, num_bits=3), record, start), record)


def test_simple_bandit():
    record = recorded("simple_bandit")
    np.testing.assert_allclose(SimpleBandit().rewards, record["hidden"][0], atol=1e-6)
    check(replay(SimpleBandit(), record, lambda s, hidden: s), record)


@pytest.mark.parametrize(
    ("env", "columns"),
    [
        (DeepSea(size=10), slice(None)),
        (DiscountingChain(), slice(None)),
        (UmbrellaChain(chain_length=20, num_distractors=3), slice(2, 3)),
    ],
)
def test_first_observation(env, columns, key):
    name = {DeepSea: "deep_sea", DiscountingChain: "discounting_chain", UmbrellaChain: "umbrella_chain"}[type(env)]
    first = np.asarray(env.reset(key)[1]).reshape(-1)
    np.testing.assert_allclose(first[columns], recorded(name)["first"][0][columns], atol=1e-6)


def test_deep_sea_mapping_differs_by_seed_and_cell():
    rows, columns = np.indices((30, 30)).astype(np.int32)
    tables = np.stack([DeepSea(size=30, mapping_seed=s).action_right(rows, columns) for s in range(20)])
    assert abs(tables.mean() - 0.5) < 0.02
    agreement = np.mean(tables[:-1] == tables[1:], axis=(1, 2))
    assert np.all(np.abs(agreement - 0.5) < 0.1)


def test_windy_deep_sea(key):
    env = DeepSea(size=5, windy=True)

    def always_right(key):
        def body(state, key):
            state, step = env.step(key, state, env.action_right(state.row, state.column))
            return state, step.reward

        return jax.lax.scan(body, env.reset(key)[0], jax.random.split(key, 5))[1].sum()

    returns = np.asarray(jax.jit(jax.vmap(always_right))(jax.random.split(key, 20_000)))
    assert abs(returns.mean() - ((1 - 1 / 5) ** 4 - 0.01)) < 5 * returns.std() / np.sqrt(returns.size)


@pytest.mark.parametrize("size", [2, 10, 30])
def test_the_best_return_of_a_windy_deep_sea_is_the_docstrings(size):
    """By dynamic programming over the cells; the noise of the last rewards has the mean 0."""
    cost, wind = 0.5, 1 / size
    value = np.zeros(size)
    for _ in range(size):
        left = value[np.maximum(np.arange(size) - 1, 0)]
        right = (1 - wind) * value[np.minimum(np.arange(size) + 1, size - 1)] + wind * value - cost / size
        right[-1] += 1.0
        value = np.maximum(left, right)
    assert "(1 - 1/size)^(size - 1) - `move_cost` (1 - (1 - 1/size)^size)" in DeepSea.__doc__
    assert value[0] == pytest.approx((1 - wind) ** (size - 1) - cost * (1 - (1 - wind) ** size))
