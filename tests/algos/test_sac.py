"""SAC: the learned temperature, time limits, entropies between steps, both forms of actions."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.sac import SACConfig, SquashedActorCritic, sac
from purerl.errors import InputError
from purerl.replay.uniform import Between, Replay, Transitions
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout
from tests.helpers import replays

OBSERVATION = Box(low=-1.0, high=1.0, shape=(2,))
ACTION = Box(low=-2.0, high=6.0, shape=(1,))
SMALL = SACConfig(
    hidden_sizes=(8,), batch_size=16, replay_capacity=256, learning_starts=1, num_envs=4, rollout_length=8
)


def fill(action, truncated=False, terminated=False):
    num_envs, length = 4, 8
    flags = lambda value: jnp.full((length, num_envs), value)
    zeros = jnp.zeros((length, num_envs, 2))
    return Rollout(zeros, action, jnp.ones((length, num_envs)), flags(terminated), flags(truncated), zeros, (), ())


@partial(jax.jit, static_argnums=0)
def learned(discrete, config, key, rollout):
    """Return (agent before an update, agent after it, metrics): one program for all numbers."""
    algorithm = sac(EnvironmentSpec(OBSERVATION, Discrete(n=2) if discrete else ACTION), config)
    agent = algorithm.init(key)
    return agent, *algorithm.update(agent, key, rollout)


@pytest.mark.long
def test_actions_stay_inside_the_box_and_are_random_at_first(key):
    config = SACConfig(hidden_sizes=(8,), num_envs=512, learning_starts=1000)
    algorithm = sac(EnvironmentSpec(OBSERVATION, ACTION), config)
    agent = algorithm.init(key)
    action, _, _ = algorithm.act(agent, (), key, jnp.zeros((512, 2)), True)
    assert action.shape == (512, 1) and bool(jnp.all((action >= -2) & (action <= 6)))
    # Uniform over the box before learning starts: mean 2, standard deviation 8 / sqrt(12).
    assert float(jnp.mean(action)) == pytest.approx(2.0, abs=0.4)
    assert float(jnp.std(action)) == pytest.approx(8 / 12**0.5, abs=0.2)
    greedy, _, _ = algorithm.act(agent, (), key, jnp.zeros((512, 2)), False)
    assert float(jnp.std(greedy)) < 1e-5


def test_entropies_of_both_signs_count(key):
    """In the targets and in the policy's value, of SAC, TQC and REDQ alike."""
    net = SquashedActorCritic(
        policy=SimpleNamespace(distribution=replays.KnownPolicy),
        critics=SimpleNamespace(apply=lambda scale, seen, action: scale * seen[:, 1] + jnp.zeros((3, 1))),
        next_values=lambda outputs, key: outputs.T[:, :2],
        compare=lambda *_: (),
        value=lambda outputs: outputs[0],
    )
    seen = jax.random.normal(key, (16, 2))
    log_prob, plain = np.asarray(replays.log_probs(seen)), 2.0 * np.asarray(seen[:, 1])
    assert (log_prob > 0.5).any() and (log_prob < -0.5).any()
    target = net.target_values((), 2.0, key, seen, jnp.float32(0.7))
    np.testing.assert_allclose(target, np.stack([plain - 0.7 * log_prob] * 2, axis=1), rtol=1e-5)
    value, entropy = net.soft_value((), 2.0, key, seen, jnp.float32(0.7))
    np.testing.assert_allclose(value, plain - 0.7 * log_prob, rtol=1e-5)
    np.testing.assert_allclose(entropy, -log_prob)


@pytest.mark.long
@pytest.mark.parametrize("target_entropy", [-50.0, 50.0])
def test_the_temperature_moves_towards_the_target_entropy(key, target_entropy):
    config = SACConfig(**{**vars(SMALL), "target_entropy": target_entropy, "num_gradient_steps": 8})
    agent, after, metrics = learned(False, config, key, fill(jnp.zeros((8, 4, 1))))
    moved = after.params["log_temperature"] - agent.params["log_temperature"]
    assert jnp.sign(moved) == jnp.sign(target_entropy)
    assert all(jnp.isfinite(value) for value in metrics.values())


@pytest.mark.long_for("terminated", "truncated")
@pytest.mark.parametrize("kind", ["terminated", "truncated"])
def test_values_bootstrap_through_a_time_limit_only(key, kind):
    """Reward 1 at every step of one state: Q is 1 after a termination and 1 / (1 - 0.5) = 2 after a truncation."""
    config = SACConfig(
        **{
            **vars(SMALL),
            "discount": 0.5,
            "learning_rate": 1e-2,
            "num_gradient_steps": 400,
            "tau": 0.05,
            "initial_temperature": 1e-6,
            "target_entropy": -50.0,
        }
    )
    algorithm = sac(EnvironmentSpec(OBSERVATION, Discrete(n=2)), config)
    agent = algorithm.init(key)
    action = jax.random.randint(key, (8, 4), 0, 2)
    rollout = fill(action, **{kind: True})
    update = jax.jit(algorithm.update)
    agent, _ = update(agent, key, rollout)
    value = -float(update(agent, key, rollout)[1]["actor_loss"])
    assert value == pytest.approx(1.0 if kind == "terminated" else 2.0, abs=0.15)


@pytest.mark.long
def test_the_entropies_of_the_steps_between_count_as_rewards(key):
    """A batch with two steps between, or one where the episode ended, is worth what these rewards are alone."""
    settings = {**vars(SMALL), "initial_temperature": 0.3, "n_step": 3}
    zeros = jnp.zeros((4, 2))
    batch = Transitions(
        observation=zeros,
        action=jnp.array([0, 1, 0, 1]),
        reward=jnp.arange(4.0),
        discount=jnp.array([0.125, 0.0, 0.25, 0.125]),
        next_observation=zeros,
        weight=jnp.ones(4),
        start=jnp.arange(4),
    )
    factors = jnp.array([[0.5, 0.5, 0.5, 0.5], [0.25, 0.25, 0.0, 0.25]])

    @partial(jax.jit, static_argnums=1)
    def learn(batch, discrete=True):
        replay = Replay(lambda: (), lambda state, _: (), lambda state, _: batch, lambda state, _, error: ())
        spec = EnvironmentSpec(OBSERVATION, Discrete(n=2) if discrete else ACTION)
        algorithm = sac(spec, SACConfig(**settings), replay=replay)
        return algorithm.update(algorithm.init(key), key, fill(jnp.zeros((8, 4), jnp.int32)))[1]

    alone = learn(batch)
    worth = 0.3 * np.asarray(alone["entropy"]) * factors.sum(axis=0)
    rewarded = learn(batch._replace(reward=batch.reward + worth))
    batch = batch._replace(between=Between(jnp.zeros((2, 4, 2)), factors))
    found = learn(batch)
    assert float(found["critic_loss"]) == pytest.approx(float(rewarded["critic_loss"]), rel=1e-5)
    assert abs(float(found["critic_loss"]) - float(alone["critic_loss"])) > 0.01
    continuous = learn(batch._replace(action=jnp.zeros((4, 1))), False)
    assert all(jnp.isfinite(value) for value in continuous.values())


@pytest.mark.long
@pytest.mark.parametrize("discrete", [False, True])
def test_the_policys_loss_falls_with_its_entropy(key, discrete):
    """-E(Q - temperature log pi): less by temperature x entropy than without a temperature."""
    action = jnp.zeros((8, 4), jnp.int32) if discrete else jnp.zeros((8, 4, 1))

    def learn(temperature):
        config = SACConfig(**{**vars(SMALL), "initial_temperature": temperature})
        return learned(discrete, config, key, fill(action))[2]

    without, with_it = learn(1e-8), learn(0.5)
    fell = float(without["actor_loss"]) - float(with_it["actor_loss"])
    assert fell == pytest.approx(0.5 * float(with_it["entropy"]), rel=1e-4)


@pytest.mark.long
def test_n_steps_are_drawn_with_what_lies_between(key):
    *_, metrics = learned(False, SACConfig(**{**vars(SMALL), "n_step": 3}), key, fill(jnp.zeros((8, 4, 1))))
    assert float(metrics["critic_loss"]) > 0


def test_refuses_what_it_cannot_do():
    unbounded = Box(low=-jnp.inf, high=jnp.inf, shape=(1,))
    with pytest.raises(InputError, match="finite"):
        sac(EnvironmentSpec(OBSERVATION, unbounded), SMALL)
    with pytest.raises(InputError, match="larger than the replay"):
        sac(EnvironmentSpec(OBSERVATION, ACTION), SACConfig(batch_size=512, replay_capacity=256))
    with pytest.raises(InputError, match="batch_size 64 is larger than the 32 steps that are stored"):
        sac(EnvironmentSpec(OBSERVATION, ACTION), SACConfig(batch_size=64, learning_starts=32))
