"""Many agents in one program, each with its seed and its own numbers, against runs made alone."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.a2c import A2CConfig, a2c
from purerl.devices.sharding import make_mesh
from purerl.envs.classic.cartpole import CartPole
from purerl.loop import population
from purerl.loop.extension import Setup, maker
from purerl.loop.train import TrainState, make_trainer

CONFIG = A2CConfig(num_envs=2, rollout_length=4, hidden_sizes=(4,), total_timesteps=800)
MAKE, SETUP = maker(a2c), Setup(config=CONFIG, env=CartPole(), options={})
VALUES = {"learning_rate": np.float32([1e-3, 1e-2]), "env.gravity": np.float32([9.8, 3.0])}


@pytest.mark.long
def test_blank_states_have_the_types_of_states():
    one = {name: column[0] for name, column in VALUES.items()}
    state = population.blank_states(MAKE, 3, one, SETUP, population.TOGETHER)
    wanted = jax.eval_shape(make_trainer(a2c, CartPole(), CONFIG).init, jax.random.key(0))
    for leaf, shape in zip(jax.tree.leaves(state.agent), jax.tree.leaves(wanted.agent), strict=True):
        assert (leaf.shape, leaf.dtype) == ((3, *shape.shape), shape.dtype) and not np.any(leaf)
    assert state.num_updates.shape == ()
    apart = population.blank_states(MAKE, 3, one, SETUP, population.APART)
    assert apart.num_updates.shape == (3,)


@pytest.mark.long
def test_a_member_is_the_run_with_its_numbers_alone():
    mesh = make_mesh(1, {population.AXIS: 1})
    one = {name: column[0] for name, column in VALUES.items()}
    state = population.place(population.blank_states(MAKE, 2, one, SETUP, population.TOGETHER), mesh)
    train = jax.jit(population.train_members(MAKE, mesh))
    rest = (np.uint32([7, 8]), VALUES, np.int32(3), np.bool_(True), SETUP)
    together, point = train(state, *rest)
    assert point.finite.tolist() == [True, True] and int(together.num_updates) == 3
    for i, seed in enumerate((7, 8)):
        own = dataclasses.replace(CONFIG, learning_rate=float(VALUES["learning_rate"][i]))
        trainer = make_trainer(a2c, CartPole(gravity=float(VALUES["env.gravity"][i])), own)
        alone, step = jax.jit(trainer.init)(jax.random.key(seed)), jax.jit(trainer.step)
        for _ in range(3):
            alone, _ = step(alone)
        for x, y in zip(jax.tree.leaves(alone.agent.params), jax.tree.leaves(together.agent.params), strict=True):
            np.testing.assert_allclose(x, y[i], rtol=1e-4, atol=1e-6)
    again, _ = train(together, rest[0], VALUES, np.int32(2), np.bool_(False), SETUP)
    assert int(again.num_updates) == 5, "it goes on where it does not begin"


@pytest.mark.long
def test_a_loss_that_is_not_finite_is_noted():
    mesh = make_mesh(1, {population.AXIS: 1})
    rates = {"learning_rate": np.float32([1e-3, 1e30])}
    setup = SETUP._replace(config=dataclasses.replace(CONFIG, max_grad_norm=1e30))
    state = population.blank_states(MAKE, 2, {"learning_rate": np.float32(1)}, setup, population.TOGETHER)
    rest = (np.uint32([0, 0]), rates, np.int32(4), np.bool_(True), setup)
    _, point = jax.jit(population.train_members(MAKE, mesh))(population.place(state, mesh), *rest)
    assert point.finite.tolist() == [True, False]


@pytest.mark.parametrize(("metric", "value"), [("loss", 2.0), ("-loss", -2.0)])
def test_a_metric_with_a_minus_is_negated(metric, value, monkeypatch):
    """So that more is better."""
    state = TrainState(agent=jnp.ones(3), vector=(), observation=(), carry=(), key=(), num_updates=jnp.int32(0))
    one = state._replace(agent=jnp.float32(0))
    found = SimpleNamespace(algorithm={}, flat=lambda: {"loss": jnp.float32(2)})
    monkeypatch.setattr(population, "_init", lambda trainer, seed: one)
    monkeypatch.setattr(population, "advance", lambda trainer, state, num: (state, found))
    mesh = make_mesh(1, {population.AXIS: 1})
    train = population.train_members(lambda setup: None, mesh, metric=metric)
    _, point = train(state, np.arange(3, dtype=np.uint32), {}, np.int32(1), np.bool_(False), SETUP)
    assert point.episode_return.tolist() == [value] * 3
