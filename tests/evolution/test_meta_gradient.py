"""Meta-gradients: against finite differences, resets, several devices, and what is refused."""

from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import purerl
from purerl.algos.disco import DiscoConfig, disco
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.lpg import LPGConfig, lpg
from purerl.algos.ppo import PPOConfig, ppo
from purerl.devices import memory
from purerl.devices.sharding import make_mesh
from purerl.errors import InputError
from purerl.evolution.inner_loop import Plug, Task
from purerl.evolution.meta_gradient import Agents, Life, make_meta_gradient
from purerl.evolution.method import flatten
from purerl.functional.drifts import KLPenalty
from purerl.functional.objectives import ActorCriticLoss, Drifting
from purerl.functional.update_rules import LPG
from purerl.loop.train import TrainState
from purerl.networks.disco_rule import DiscoRule
from purerl.networks.meta_network import MetaSizes

CATCH = purerl.make("Catch")
SMALL = {"num_envs": 4, "rollout_length": 9, "hidden_sizes": (8,), "activation": "tanh"}
RULES = LPGConfig(**SMALL, learning_rate=0.03)
RULE = LPG.create(jax.random.key(1), 4, units=8)
FOLLOWER = DiscoConfig(
    **SMALL,
    learning_rate=1.0,
    model_size=8,
    num_atoms=11,
    v_min=-2.0,
    v_max=2.0,
    batch_size=4,
    replay_capacity=72,
    learning_starts=36,
)
DISCOVERED = DiscoRule.create(jax.random.key(1), MetaSizes(predictions=6, units=8, lifetime_units=4, hidden=4))
STRONG = jax.tree.map(lambda x: 4 * x, DISCOVERED)  # else rounding hides how little it does
CLIPPED = PPOConfig(**SMALL, learning_rate=0.03, num_epochs=2, num_minibatches=1, value_clip=None)
LEARNER, TASK = Plug(lpg, "rule"), Task("Catch", CATCH, RULES, 360)


def actor_critic():
    """Return the loss of PPO with weights as arrays, which move."""
    return ActorCriticLoss(
        objective=Drifting(drift=KLPenalty(coefficient=jnp.float32(1.0))),
        value_coefficient=jnp.float32(0.5),
        entropy_coefficient=jnp.float32(0.1),
    )


@pytest.mark.long_for("loss", "replay")
@pytest.mark.parametrize(
    ("learner", "config", "candidate", "steps"),
    [
        pytest.param(LEARNER, RULES, RULE, (3e-3, 1e-3), id="rule"),
        pytest.param(Plug(ppo, "loss"), CLIPPED, actor_critic(), (3e-3, 1e-3), id="loss"),
        pytest.param(Plug(partial(disco, optimizer=optax.sgd), "rule"), FOLLOWER, STRONG, (5e-4, 2e-4), id="replay"),
    ],
)
def test_the_gradient_is_that_of_finite_differences(learner, config, candidate, steps):
    """Along random directions: small steps change no action, so the rollouts stay and the loss is smooth."""
    start, tree = flatten(candidate)
    agents = Agents(learner, Task("Catch", CATCH, config, 3600), tree, inner_updates=3, entropy_coefficient=0.1)
    life = jax.jit(agents.born)(start, jax.random.key(3))
    differentiate = jax.jit(jax.value_and_grad(lambda center: agents.outer_loss(center, life, jax.random.key(5))[0]))
    gradient = differentiate(start)[1]
    assert np.isfinite(gradient).all()
    size = np.linalg.norm(gradient)
    random = np.random.default_rng(0)
    for step in steps:
        for direction in (gradient / size, random.normal(size=start.size) / np.sqrt(start.size)):
            direction = np.asarray(direction, np.float32)
            ahead, behind = (differentiate(start + sign * step * direction)[0] for sign in (1, -1))
            np.testing.assert_allclose((ahead - behind) / (2 * step), gradient @ direction, atol=0.03 * size)


def generations(count=3, **changes):
    """Return (state, results of each) of a small search."""
    settings = {"population": 4, "inner_updates": 2, "learning_rate": 0.01} | changes
    method = make_meta_gradient(RULE, LEARNER, [TASK], **settings)
    step = jax.jit(method.step)
    state, results = jax.jit(method.init)(jax.random.key(3)), []
    for _ in range(count):
        state, found = step(state)
        results.append(found)
    return state, results


@pytest.fixture(scope="module")
def alone():
    return generations(6)


@pytest.mark.long
def test_agents_are_of_different_ages_and_are_reset(alone):
    """A life is 10 updates at most; it ends after an even number of them, and then another agent begins."""
    state, results = alone
    life = state.lives[0]
    ends, ages = np.asarray(life.end), np.asarray(life.train.num_updates)
    assert len(set(ages)) > 1 and (ages > 0).all() and (ages <= 10).all() and (ages < 12).all()
    assert (ends % 2 == 0).all() and (ends >= 2).all() and (ends <= 10).all()
    assert not any(found.failed.any() for found in results)
    assert results[0].metrics["progress"] == 0 < results[2].metrics["progress"] < 1
    assert np.abs(state.center - flatten(RULE)[0]).max() > 0.01


@pytest.mark.long
def test_devices_and_chunks_change_nothing(alone):
    for changes in ({"mesh": make_mesh(2)}, {"chunk": 3}):
        state, results = generations(6, **changes)
        np.testing.assert_allclose(state.center, alone[0].center, atol=2e-3, err_msg=str(changes))
        np.testing.assert_allclose(results[0].metrics["gradient_norm"], alone[1][0].metrics["gradient_norm"], rtol=1e-3)


@pytest.mark.long
def test_an_agent_that_fails_counts_nowhere_and_is_reset():
    """A rule with NaN among its weights: nothing moves, all agents are due to be reset."""
    broken = jax.tree.map(lambda x: x.at[0].set(jnp.nan), RULE)
    method = make_meta_gradient(broken, LEARNER, [TASK], population=2, inner_updates=1)
    before = jax.jit(method.init)(jax.random.key(0))
    state, found = jax.jit(method.step)(before)
    assert found.failed.all() and not state.lives[0].end.any()
    np.testing.assert_array_equal(state.center, before.center)


def test_what_is_refused(monkeypatch):
    def refused(message, candidate=RULE, learner=LEARNER, task=TASK, **changes):
        with pytest.raises(InputError, match=message) as caught:
            make_meta_gradient(candidate, learner, [task], population=4, **changes)
        assert "\n" not in str(caught.value)

    off_policy = DQNConfig(num_envs=2, learning_starts=8, batch_size=4, replay_capacity=64)
    task = Task("Catch", CATCH, off_policy, 360)
    learner = lambda factor: lambda spec, config: dqn(spec, config)
    refused("dqn does not define Algorithm.likelihood, .* ppo, a2c, lpg and disco do", jnp.float32(1), learner, task)
    refused("50 inner updates are more than the 10 of a lifetime on Catch: raise total_timesteps 360", inner_updates=50)
    monkeypatch.setattr(memory, "free", lambda: 100_000)
    long = TASK._replace(total_timesteps=36_000)
    refused("1,000 inner updates of Catch need about .* GB, and .* reduce them", task=long, inner_updates=1000)


@pytest.mark.parametrize(("slope", "scaled"), [(0.1, 0.1), (5.0, 1.0)])
def test_long_meta_gradients_are_scaled_down_and_short_ones_are_not(slope, scaled, monkeypatch):
    agents = Agents(LEARNER, TASK, lambda x: x, inner_updates=2, entropy_coefficient=0.0)
    train = TrainState(agent=jnp.zeros(1), vector=(), observation=(), carry=(), key=(), num_updates=jnp.int32(2))
    life = Life(train=train, baseline=(), key=(), end=jnp.int32(4), episode_return=jnp.float32(0))
    monkeypatch.setattr(agents, "born", lambda center, key: life)
    monkeypatch.setattr(agents, "outer_loss", lambda center, life, key: (slope * center[0], life))
    report = agents.live(jnp.zeros(2), life, jax.random.key(0))[1]
    np.testing.assert_allclose(report.gradient, [scaled, 0.0], rtol=1e-6)
    np.testing.assert_allclose(report.norm, slope, rtol=1e-6)


class Known(NamedTuple):
    """The statistics and the rollout of agents without an environment."""

    episode_return: Any = np.float32(0)
    mask: Any = None

    @property
    def statistics(self):
        return self

    def summary(self):
        return self._asdict()


def without_environment(monkeypatch):
    """Return agents that remember the numbers that their updates draw."""
    agents = Agents(LEARNER, TASK, lambda x: x, inner_updates=2, entropy_coefficient=0.0)
    now = SimpleNamespace(log_prob=jnp.zeros((1, 1)), entropy=jnp.zeros((1, 1)))
    trainer = SimpleNamespace(
        init=lambda key: (),
        collect=lambda state, key: (state, Known()),
        algorithm=SimpleNamespace(likelihood=lambda agent, rollout: now),
    )
    learn = lambda state, rollout: ((), jnp.zeros((1, 1)))
    monkeypatch.setattr(agents, "trainer", lambda center, key: trainer)
    monkeypatch.setattr(agents, "baseline", SimpleNamespace(init=lambda key: (), learn=learn))
    drawn = lambda center, agent, key, rollout: jnp.roll(agent, 1).at[0].set(jax.random.uniform(key))
    monkeypatch.setattr(agents, "updated", drawn)
    return agents


def test_a_life_is_any_whole_number_of_generations(monkeypatch):
    keys = jax.random.split(jax.random.key(0), 64)
    lives = jax.vmap(without_environment(monkeypatch).born, (None, 0))(jnp.zeros(1), keys)
    assert set(lives.end.tolist()) == {2, 4, 6, 8, 10}


def test_each_update_of_a_generation_draws_its_own_numbers(monkeypatch):
    train = TrainState(
        agent=jnp.zeros(2),
        vector=Known(jnp.float32(0)),
        observation=(),
        carry=(),
        key=jax.random.key(0),
        num_updates=jnp.int32(4),
    )
    life = Life(train=train, baseline=(), key=(), end=jnp.int32(9), episode_return=jnp.float32(0))
    after = without_environment(monkeypatch).outer_loss(jnp.zeros(1), life, jax.random.key(1))[1].train
    first, second = after.agent
    assert first != second and after.num_updates == 6
