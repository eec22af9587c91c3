"""The derivative that self-tuning follows, compared with finite differences."""

import dataclasses
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from purerl.algos.ppo import PPOConfig, ppo
from purerl.envs.bsuite.catch import Catch
from purerl.extensions.self_tuning import tuning
from purerl.loop.train import compiled_trainer
from purerl.prng import update_keys
from purerl.types import Algorithm, Likelihood, Values
from purerl.xla.trees import split_floats

NAMES = ("gae_lambda", "entropy_coefficient", "learning_rate")
CONFIG = PPOConfig(
    num_envs=4,
    rollout_length=20,
    num_epochs=2,
    num_minibatches=2,
    hidden_sizes=(16,),
    network="mlp",
    learning_rate=0.2,
    value_clip=None,  # where it begins, gradients jump
)
smooth_ppo = partial(ppo, optimizer=optax.sgd)  # Adam's first steps are the signs of gradients: hardly a derivative


@pytest.fixture(scope="module")
def first_update():
    """Return (trainer, agent before an update, its rollout, agent after it, the next rollout)."""
    trainer = compiled_trainer(tuning.self_tuned(smooth_ppo, NAMES, 0.1, 0.5), Catch(), CONFIG)

    @jax.jit
    def two(key):
        start = trainer.init(key)
        keys = update_keys(start.key, start.num_updates)
        state, rollout = trainer.collect(start, keys[0])
        after, _ = trainer.algorithm.update(start.agent, keys[1], rollout)
        _, later = trainer.collect(state._replace(agent=after), keys[0])
        return start.agent, keys[1], rollout, after, later

    return trainer, *two(jax.random.key(0))


def test_the_trace_is_the_derivative_of_the_update(first_update):
    """And the numbers move against the sign of the meta-gradient."""
    trainer, before, key, rollout, after, later = first_update
    algorithm = compiled_trainer(ppo, Catch(), CONFIG).algorithm

    advantage = tuning.advantages(algorithm, CONFIG, after.agent, later)  # a constant, although the critic learns

    @jax.jit
    def loss(free):
        agent, _ = trainer.algorithm.update(before._replace(free=free), key, rollout)
        return tuning.outer_loss(algorithm, CONFIG, agent.agent, later, advantage)

    floats, join = split_floats(after.agent)
    slopes = jax.jit(jax.grad(lambda x: tuning.outer_loss(algorithm, CONFIG, join(x), later, advantage)))(floats)
    gradient = [sum(float(jnp.vdot(z[i], g)) for z, g in zip(after.trace, slopes, strict=True)) for i in range(3)]
    for i, step in enumerate(0.05 * np.eye(3, dtype=np.float32)):
        difference = (loss(before.free + step) - loss(before.free - step)) / 0.1
        np.testing.assert_allclose(gradient[i], difference, rtol=0.03, atol=2e-6)
    assert max(map(abs, gradient)) > 1e-4, "there is something to compare"
    np.testing.assert_array_equal(after.free, before.free)  # nothing was known before the first update
    stepped = jax.jit(trainer.algorithm.update)(after, key, later)[0].free
    np.testing.assert_array_equal(np.sign(stepped - after.free), -np.sign(gradient))


def test_the_trace_decays():
    """theta' = 3 theta + learning_rate, tuned as its logarithm: z' = learning_rate + decay 3 z."""

    def tripling(spec, config):
        zeros = jnp.zeros((1, 2))
        values = Values(value=zeros, next_value=zeros, reward=zeros, scale=lambda x: x)
        return Algorithm(
            init=lambda key: jnp.float32(1.0),
            initial_carry=lambda num_envs: (),
            act=lambda *_: None,
            update=lambda agent, key, rollout: (3.0 * agent + config.learning_rate, {}),
            values=lambda agent, rollout: values,
            likelihood=lambda agent, rollout: Likelihood(log_prob=zeros + agent, entropy=zeros),
        )

    flags = jnp.zeros((1, 2), jnp.bool_)
    rollout: Any = SimpleNamespace(mask=None, terminated=flags, done=flags)
    tuned = tuning.self_tuned(tripling, ["learning_rate"], 0.0, 0.5)(None, CONFIG)
    update = jax.jit(lambda agent: tuned.update(agent, jax.random.key(0), rollout)[0])
    first = update(tuned.init(jax.random.key(0)))
    traces = [float(agent.trace[0][0]) for agent in (first, update(first))]
    np.testing.assert_allclose(traces, [0.2, 0.2 + 0.5 * 3 * 0.2], rtol=1e-5)


def test_an_overflow_does_not_end_the_tuning(first_update):
    trainer, before, key, rollout, after, _ = first_update
    broken = before._replace(trace=[jnp.full_like(z, jnp.inf) for z in before.trace])
    tuned, _ = jax.jit(trainer.algorithm.update)(broken, key, rollout)
    assert all(jnp.isfinite(z).all() for z in tuned.trace) and jnp.isfinite(tuned.free).all()
    np.testing.assert_allclose(tuned.trace[0], after.trace[0], rtol=1e-3, atol=1e-6)


def test_numbers_stay_within_their_ranges():
    for name, scale in tuning.SCALES.items():
        value = getattr(PPOConfig(), name)
        np.testing.assert_allclose(scale.bound(scale.free(jnp.float32(value))), value, rtol=1e-5)
        assert scale.holds(scale.bound(jnp.float32(3.0))) and not scale.holds(0.0)
    assert {field.name for field in dataclasses.fields(PPOConfig)} >= set(tuning.SCALES)


def test_the_outer_loss_by_hand():
    now = Likelihood(log_prob=jnp.array([[-1.0, -2.0]]), entropy=jnp.array([[0.5, 1.5]]))
    algorithm: Any = SimpleNamespace(likelihood=lambda agent, rollout: now)
    rollout: Any = SimpleNamespace(mask=None)
    config = dataclasses.replace(CONFIG, entropy_coefficient=0.1)
    loss = tuning.outer_loss(algorithm, config, (), rollout, jnp.array([[3.0, -1.0]]))
    np.testing.assert_allclose(loss, 0.5 - 0.1)
