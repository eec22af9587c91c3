"""PPO's loss, step and statistics against NumPy, on a tabular policy whose every number is known."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.ppo import PPOConfig, ppo
from purerl.errors import InputError
from purerl.functional.normalize import RunningStatistics
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete
from purerl.types import EnvironmentSpec
from tests.helpers.policy_table import PARAMS, SPEC, A, B, T, float64, make_rollout, table

CONFIG = PPOConfig(
    num_envs=B,
    rollout_length=T,
    num_epochs=1,
    num_minibatches=1,
    learning_rate=0.1,
    learning_rate_schedule="constant",
    discount=0.9,
    gae_lambda=0.8,
    clip_epsilon=0.1,
    value_clip=0.05,
    entropy_coefficient=0.03,
    value_coefficient=0.7,
)


def updated(config=CONFIG, rollout=None, agent=None, network=table, **changes):
    """Return (agent, metrics) after one update from the known table."""
    algo = ppo(SPEC, dataclasses.replace(config, **changes), network=network)
    agent = algo.init(jax.random.key(0)) if agent is None else agent
    return jax.jit(algo.update)(agent, jax.random.key(1), make_rollout() if rollout is None else rollout)


def numpy_advantage(values, r, config):
    """The advantages in float64, by plain loops, of the values of all states."""
    state, successor = r.observation[..., 0].astype(int), r.next_observation[..., 0].astype(int)
    done = r.terminated | r.truncated
    advantage = np.zeros((T, B))
    for b in range(B):
        following = 0.0
        for t in reversed(range(T)):
            bootstrap = 0.0 if r.terminated[t, b] else values[successor[t, b]]
            delta = r.reward[t, b] + config.discount * bootstrap - values[state[t, b]]
            following = delta + (0.0 if done[t, b] else config.discount * config.gae_lambda * following)
            advantage[t, b] = following
    return advantage


def numpy_loss(params, old, rollout, config):
    """The loss and its terms in float64, from the equations."""
    r = jax.tree.map(np.asarray, rollout)
    state = r.observation[..., 0].astype(int)
    advantage = numpy_advantage(old["value"], r, config)
    old_value = old["value"][state]
    target = advantage + old_value
    logits, value = params["logits"][state], params["value"][state]
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    log_ratio = np.take_along_axis(log_probs, r.action[..., None], -1)[..., 0] - r.extras["log_prob"]
    ratio = np.exp(log_ratio)
    scaled = (advantage - advantage.mean()) / advantage.std()
    epsilon = config.clip_epsilon
    policy_loss = -np.minimum(ratio * scaled, np.clip(ratio, 1 - epsilon, 1 + epsilon) * scaled).mean()
    error = (value - target) ** 2
    if config.value_clip is not None:
        near = old_value + np.clip(value - old_value, -config.value_clip, config.value_clip)
        error = np.maximum(error, (near - target) ** 2)
    terms = {
        "policy_loss": policy_loss,
        "value_loss": 0.5 * error.mean(),
        "entropy": -(np.exp(log_probs) * log_probs).sum(-1).mean(),
        "approx_kl": (ratio - 1 - log_ratio).mean(),
        "clip_fraction": (np.abs(ratio - 1) > epsilon).mean(),
    }
    loss = policy_loss + config.value_coefficient * terms["value_loss"] - config.entropy_coefficient * terms["entropy"]
    return loss, terms


@pytest.fixture(scope="module")
def once():
    return updated()


def test_terms_of_the_loss(once):
    _, terms = numpy_loss(float64(PARAMS), float64(PARAMS), make_rollout(), CONFIG)
    for name, value in terms.items():
        np.testing.assert_allclose(once[1][name], value, rtol=1e-5, err_msg=name)
    assert 0 < terms["clip_fraction"] < 1


def test_first_step_is_adams_on_the_clipped_gradient(once):
    """The gradient by central differences of the loss in float64; Adam's first step is -rate g / (|g| + eps)."""
    old, gradient = float64(PARAMS), float64(PARAMS)
    for name, values in old.items():
        for at in np.ndindex(values.shape):
            ends = []
            for sign in (1, -1):
                moved = {key: value.copy() for key, value in old.items()}
                moved[name][at] += sign * 1e-6
                ends.append(numpy_loss(moved, old, make_rollout(), CONFIG)[0])
            gradient[name][at] = (ends[0] - ends[1]) / 2e-6
    norm = np.sqrt(sum((g**2).sum() for g in gradient.values()))
    shrink = min(1.0, 0.5 / norm)
    for name, g in gradient.items():
        g = shrink * g
        expected = PARAMS[name] - 0.1 * g / (np.abs(g) + 1e-5)
        np.testing.assert_allclose(once[0].params[name], expected, atol=2e-3, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("value_clip", [0.05, None])
def test_second_epoch_clips_values(value_clip):
    """Metrics are means over steps, so the second epoch's are twice the mean less the first's."""
    first, one = updated(value_clip=value_clip)
    _, both = updated(value_clip=value_clip, num_epochs=2)
    config = dataclasses.replace(CONFIG, value_clip=value_clip)
    _, terms = numpy_loss(float64(first.params), float64(PARAMS), make_rollout(), config)
    for name, value in terms.items():
        np.testing.assert_allclose(2 * both[name] - one[name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def test_the_two_value_losses_differ():
    """Else the test above would not see the clip: values move by 0.1 in a step, twice the bound."""
    first, _ = updated()
    losses = [
        numpy_loss(float64(first.params), float64(PARAMS), make_rollout(), dataclasses.replace(CONFIG, value_clip=clip))
        for clip in (0.05, None)
    ]
    assert losses[0][1]["value_loss"] > 1.02 * losses[1][1]["value_loss"]


@pytest.mark.parametrize(("truncated", "target"), [(True, 1 + 0.9 * 10), (False, 1.0)])
def test_time_limits_bootstrap_from_the_true_successor(truncated, target):
    """From states of value 0 one step of reward 1 to state 4 of value 10: value loss is target^2 / 2."""
    agent = ppo(SPEC, CONFIG, network=table).init(jax.random.key(0))
    agent = agent._replace(params=agent.params | {"value": jnp.array([0.0, 0.0, 0.0, 0.0, 10.0])})
    done = jnp.ones((T, B), bool)
    rollout = make_rollout()._replace(
        observation=jnp.zeros((T, B, 1)),
        next_observation=jnp.full((T, B, 1), 4.0),
        reward=jnp.ones((T, B)),
        terminated=done & (not truncated),
        truncated=done & truncated,
    )
    np.testing.assert_allclose(updated(rollout=rollout, agent=agent)[1]["value_loss"], 0.5 * target**2, rtol=1e-5)


@pytest.mark.long
def test_kl_stop(once):
    """The rollout's policy is far from the table: above the bound nothing is learned, below it everything."""
    stopped, metrics = updated(target_kl=float(once[1]["approx_kl"]) * 0.9)
    for name, value in PARAMS.items():
        np.testing.assert_array_equal(stopped.params[name], value)
    np.testing.assert_allclose(metrics["approx_kl"], once[1]["approx_kl"], rtol=1e-6)
    free, _ = updated(target_kl=float(once[1]["approx_kl"]) * 1.1)
    for name in PARAMS:
        np.testing.assert_allclose(free.params[name], once[0].params[name], rtol=1e-6)


@pytest.mark.long
def test_metrics_stay_finite_at_any_ratio():
    """Log-ratios of about 200, whose exponential is infinite in float32."""
    rollout = make_rollout()
    rollout = rollout._replace(extras=rollout.extras | {"log_prob": rollout.extras["log_prob"] - 200.0})
    _, metrics = updated(rollout=rollout)
    assert all(np.isfinite(value) for value in metrics.values())


def test_learning_rate_falls_to_zero():
    """With a horizon of one update the second update may not change anything."""
    algo = ppo(SPEC, dataclasses.replace(CONFIG, learning_rate_schedule="linear", total_timesteps=T * B), network=table)
    update = jax.jit(algo.update)
    first, _ = update(algo.init(jax.random.key(0)), jax.random.key(1), make_rollout())
    second, _ = update(first, jax.random.key(1), make_rollout())
    assert not (first.params["logits"] == PARAMS["logits"]).all()
    for name in PARAMS:
        np.testing.assert_array_equal(first.params[name], second.params[name])


@pytest.mark.long
def test_normalized_rewards_do_not_depend_on_their_unit():
    rollout = make_rollout()
    losses = [
        updated(normalize_reward=True, rollout=rollout._replace(reward=rollout.reward * unit))[1]["value_loss"]
        for unit in (1.0, 1000.0)
    ]
    np.testing.assert_allclose(*losses, rtol=1e-3)
    plain = updated(rollout=rollout._replace(reward=rollout.reward * 1000.0))[1]["value_loss"]
    assert plain > 1000 * losses[0]


@pytest.mark.long
def test_observation_statistics_are_kept_and_used_also_when_greedy():
    spec = EnvironmentSpec(Box(low=-1e6, high=1e6, shape=(1,)), Discrete(n=A))
    config = dataclasses.replace(CONFIG, hidden_sizes=(8,), normalize_observation=True)
    algo, plain = ppo(spec, config), ppo(spec, dataclasses.replace(config, normalize_observation=False))
    agent = algo.init(jax.random.key(0))
    rollout = make_rollout()._replace(observation=make_rollout().observation * 100 + 3000)
    agent, _ = jax.jit(algo.update)(agent, jax.random.key(1), rollout)
    seen = np.asarray(rollout.observation, np.float64)
    statistics = agent.observation_statistics
    assert isinstance(statistics, RunningStatistics)
    np.testing.assert_allclose(statistics.mean, seen.mean((0, 1)), rtol=1e-4)
    np.testing.assert_allclose(statistics.variance, seen.var((0, 1)), rtol=1e-3)
    bare = agent._replace(observation_statistics=None)
    raw = rollout.observation[0]
    standard = ((raw - seen.mean((0, 1))) / seen.std((0, 1))).astype(jnp.float32)
    for explore in (True, False):
        ours = algo.act(agent, (), jax.random.key(2), raw, explore)
        theirs = plain.act(bare, (), jax.random.key(2), standard, explore)
        np.testing.assert_array_equal(ours[0], theirs[0])
        if explore:
            np.testing.assert_allclose(ours[2]["log_prob"], theirs[2]["log_prob"], rtol=1e-4)


@pytest.mark.long
def test_legal_actions_stay_legal_when_observations_are_normalized(key):
    mask = jax.random.bernoulli(key, 0.4, (T, B, A)).at[..., 1].set(True)
    flags = Box(low=0, high=1, shape=(A,), dtype=jnp.bool_)
    space = Dict(spaces={"observation": SPEC.observation_space, "action_mask": flags})
    spec = EnvironmentSpec(space, SPEC.action_space)
    algo = ppo(spec, dataclasses.replace(CONFIG, hidden_sizes=(8,), normalize_observation=True))
    observation = {"observation": make_rollout().observation, "action_mask": mask}
    rollout = make_rollout()._replace(observation=observation, next_observation=observation)
    agent, metrics = jax.jit(algo.update)(algo.init(key), key, rollout)
    assert all(np.isfinite(value) for value in metrics.values())
    one = jax.tree.map(lambda x: x[0], observation)
    for explore in (True, False):
        for seed in range(20):
            action, _, _ = algo.act(agent, (), jax.random.key(seed), one, explore)
            assert mask[0][jnp.arange(B), action].all()


@pytest.mark.long
def test_actions_of_every_kind(key):
    box = Box(low=np.array([-0.1, 0.0]), high=np.array([0.1, 2.0]), shape=(2,))
    observation = jax.random.normal(key, (64, 1))
    for space, squash in ((MultiDiscrete(nvec=(2, 5)), False), (box, False), (box, True)):
        config = dataclasses.replace(CONFIG, hidden_sizes=(8,), squash_actions=squash)
        algo = ppo(EnvironmentSpec(SPEC.observation_space, space), config)
        agent = algo.init(key)
        action, _, extras = algo.act(agent, (), key, observation, True)
        greedy, _, nothing = algo.act(agent, (), key, observation, False)
        assert jax.vmap(space.contains)(action).all() and jax.vmap(space.contains)(greedy).all()
        assert extras["log_prob"].shape == (64,) and nothing == ()
        if space is not box:
            np.testing.assert_array_equal(action, extras["raw_action"])
        elif squash:  # inside, by a tanh of the draw
            unit = (action - box.low) / (box.high - box.low)
            np.testing.assert_allclose(unit, 0.5 * (jnp.tanh(extras["raw_action"]) + 1), atol=1e-5)
            assert (unit > 0).all() and (unit < 1).all()
        else:  # the draw goes past the bounds, the action stops there, and the density is the draw's
            drawn = extras["raw_action"] + np.array([0.0, 1.0], np.float32)  # 0 is the middle of a box without 0 inside
            np.testing.assert_array_equal(action, np.clip(drawn, box.low, box.high).astype(np.float32))
            assert (np.abs(extras["raw_action"][:, 0]) > 0.1).mean() > 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_minibatches": 5}, "ppo: num_minibatches 5 does not divide num_envs x rollout_length = 12"),
        ({"num_minibatches": 4, "rnn": "gru"}, "ppo: num_minibatches 4 does not divide num_envs = 2"),
        ({"discount": 1.5}, "ppo: discount is 1.5; it must be at least 0 and at most 1"),
        ({"learning_rate": 0.0}, "ppo: learning_rate is 0.0; it must be above 0"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(InputError) as caught:
        ppo(SPEC, dataclasses.replace(CONFIG, **changes))
    assert str(caught.value) == message


def test_an_objective_of_the_wrong_shape_is_told():
    algo = ppo(SPEC, CONFIG, network=table, objective=lambda log_ratio, advantage, context: log_ratio[:, None])
    with pytest.raises(InputError, match=r"shape \(12, 1\); it must return one loss per sample, shape \(12,\)"):
        jax.eval_shape(algo.update, algo.init(jax.random.key(0)), jax.random.key(1), make_rollout())
