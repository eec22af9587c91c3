"""SPO: its particles against a plain search in NumPy, its resampling, its loss by hand, and what it refuses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl import InputError
from purerl.algos.spo import SPOConfig, spo
from purerl.functional.distributions import Categorical
from purerl.networks.actor_critic import ActorCritic
from purerl.optim.trust_region import LEAST
from purerl.prng import fast
from purerl.spaces import Box, Discrete
from purerl.types import Environment, EnvironmentSpec, Rollout, TimeStep, pytree, static
from purerl.wrappers.situations import Situation
from tests.helpers.nim import Nim

LOGITS = np.array([[0.2, -0.3], [1.0, 0.0], [0.4, 0.9], [0.0, 0.0]], np.float32)  # one row for each of four states
VALUES = np.array([0.5, -0.2, 1.5, 0.8], np.float32)
DISCOUNT = 0.9


@pytree
class Chain(Environment):
    """Action 1 leads from state s to s + 1 and pays s; action 0 stays and costs 0.1. State 3 ends the task or time."""

    limited: bool = static(default=False)
    observation_space = Box(low=0, high=3, shape=(1,))
    action_space = Discrete(n=2)

    def reset(self, key):
        return jnp.int32(0), jnp.zeros(1)

    def step(self, key, state, action):
        after = jnp.minimum(state + action, 3)
        reward = jnp.where(action == 1, state.astype(jnp.float32), -0.1)
        over = after == 3
        return after, TimeStep.transition(
            after[None].astype(jnp.float32), reward, terminated=over & ~jnp.bool_(self.limited), time_up=over
        )


def table(space, head, config):
    """Logits [state, action] and values [state], as a network."""
    at = lambda observation: observation[..., 0].astype(jnp.int32)
    return ActorCritic(
        init=lambda key: {"logits": jnp.asarray(LOGITS), "values": jnp.asarray(VALUES)},
        initial_carry=lambda num_envs: (),
        policy=lambda params, carry, observation: (Categorical(params["logits"][at(observation)]), ()),
        value=lambda params, carry, observation: params["values"][at(observation)],
        unroll=lambda *_: (_ for _ in ()).throw(AssertionError("not used")),
    )


def config(**changes):
    given = {"num_envs": 3, "rollout_length": 2, "num_epochs": 1, "num_minibatches": 1, "discount": DISCOUNT}
    return SPOConfig(**{**given, "learning_rate": 1e-2, "learning_rate_schedule": "constant", **changes})


def acted(settings, key=0, explore=True, limited=False):
    """Return (action i32[3], extras) in states 0, 1 and 2."""
    trainer = purerl.make_trainer(lambda *a, **k: spo(*a, **k, network=table), Chain(limited=limited), settings)
    states = jnp.arange(3, dtype=jnp.int32)
    situation = Situation(observation=states[:, None].astype(jnp.float32), state=states, side=jnp.zeros(3, jnp.int32))
    agent = trainer.algorithm.init(jax.random.key(0))
    do = jax.jit(lambda key: trainer.algorithm.act(agent, (), key, situation, explore))
    action, _, extras = do(fast(jax.random.key(key)))
    return np.asarray(action), jax.tree.map(np.asarray, extras)


def gains(state, depth, limited):
    """Return {(first action, gain)} of all ways to act for `depth` steps from a state."""
    paths = [((), state, 0.0, False)]
    for _ in range(depth):
        longer = []
        for actions, at, gain, over in paths:
            for action in (0, 1):
                after = min(at + action, 3)
                reward = float(at) if action else -0.1
                following = 0.0 if after == 3 and not limited else DISCOUNT * VALUES[after]
                advantage = 0.0 if over else reward + following - VALUES[at]
                longer.append(((*actions, action), after, gain + advantage, over or after == 3))
        paths = longer
    return {(actions[0], round(float(gain), 4)) for actions, _, gain, _ in paths}


@pytest.mark.parametrize("limited", [False, True])
def test_particles_gain_what_a_plain_search_finds(limited):
    """Every gain is one of the ways to act, each way is found, and nothing follows the end; a limit keeps its value."""
    depth = 3
    _, extras = acted(config(num_particles=256, depth=depth, resampling_period=depth), limited=limited)
    assert extras["first"].shape == (3, 256) and extras["gain"].shape == (3, 1, 256)
    for state in range(3):
        pairs = zip(extras["first"][state].tolist(), extras["gain"][state, 0].tolist(), strict=True)
        found = {(action, round(gain, 4)) for action, gain in pairs}
        expected = gains(state, depth, limited)
        assert all(any(a == b and abs(x - y) < 2e-4 for b, y in expected) for a, x in found)
        assert all(any(a == b and abs(x - y) < 2e-4 for b, y in found) for a, x in expected)


@pytest.mark.long
def test_first_actions_follow_the_policy_and_the_light_die_out():
    """With one period the first actions are the policy's; after a resampling those that gained more are more."""
    once = acted(config(num_particles=4096, depth=1, resampling_period=1))[1]
    policy = np.exp(LOGITS[:3]) / np.exp(LOGITS[:3]).sum(-1, keepdims=True)
    np.testing.assert_allclose(once["first"].mean(-1), policy[:, 1], atol=0.03)
    twice = acted(config(num_particles=4096, depth=2, resampling_period=1, initial_temperature=0.5))[1]
    advantage = np.array(
        [
            [-0.1 + DISCOUNT * VALUES[s] - VALUES[s], s + (0.0 if s == 2 else DISCOUNT * VALUES[s + 1]) - VALUES[s]]
            for s in range(3)
        ]
    )
    weighed = policy * np.exp(advantage / 0.5)
    np.testing.assert_allclose(twice["first"].mean(-1), (weighed / weighed.sum(-1, keepdims=True))[:, 1], atol=0.03)
    np.testing.assert_allclose(
        np.unique(twice["gain"][0, 0]).round(3), np.unique(advantage[0]).round(3), atol=1e-3, err_msg="by period"
    )


@pytest.mark.long
def test_greedy_actions_depend_on_no_key():
    settings = config(num_particles=64, depth=2, resampling_period=1)
    first, extras = acted(settings, key=1, explore=False)
    np.testing.assert_array_equal(first, acted(settings, key=2, explore=False)[0])
    assert extras == () and first[2] == 1, "going on from state 2 pays 2"


def in_state_one(first, gain):
    """Return a rollout of a step from state 1 to state 2, with particles of these first actions and gains."""
    seen = lambda at: Situation(observation=jnp.full((1, 1, 1), at), state=(), side=jnp.zeros((1, 1), jnp.int32))
    no = jnp.zeros((1, 1), bool)
    return Rollout(
        observation=seen(1.0),
        action=jnp.ones((1, 1), jnp.int32),
        reward=jnp.ones((1, 1)),
        terminated=no,
        truncated=no,
        next_observation=seen(2.0),
        carry=(),
        extras={"first": jnp.asarray(first)[None, None], "gain": jnp.asarray(gain, jnp.float32)[None, None]},
    )


def test_the_divergence_is_of_the_policy_that_acted_from_the_new_one():
    """It is 0 in the first of two passes; after a large step the two directions differ by half."""
    settings = config(num_envs=1, rollout_length=1, num_particles=3, depth=2, resampling_period=1)
    settings = dataclasses.replace(settings, num_epochs=2, learning_rate=2.0)
    algorithm = spo(EnvironmentSpec(Chain.observation_space, Chain.action_space), settings, network=table)
    agent = algorithm.init(jax.random.key(0))
    rollout = in_state_one(np.array([1, 1, 1]), np.zeros((2, 3)))
    _, metrics = algorithm.update(agent, jax.random.key(1), rollout)
    shares = lambda logits: np.exp(logits) / np.exp(logits).sum()
    old, new = shares(LOGITS[1]), shares(LOGITS[1] + np.array([-2.0, 2.0]))  # Adam's first step is the gradient's sign
    assert float(metrics["kl"]) == pytest.approx(0.5 * float(old @ np.log(old / new)), rel=1e-3)


@pytest.mark.long
def test_the_first_gradient_step_by_hand():
    """The divergence of the policy that acted is 0, so the gradient is that of the weighted likelihood."""
    settings = config(num_envs=1, rollout_length=1, num_particles=3, depth=2, resampling_period=1)
    spec = EnvironmentSpec(Chain.observation_space, Chain.action_space)
    algorithm = spo(spec, settings, network=table)
    agent = algorithm.init(jax.random.key(0))
    first, gain = np.array([1, 0, 1]), np.array([[0.3, -0.2, 0.1], [1.0, 0.4, -0.5]])
    rollout = in_state_one(first, gain)
    learned, metrics = algorithm.update(agent, jax.random.key(1), rollout)
    t = 1.0 + LEAST
    weight = np.exp(gain[1] / t) / np.exp(gain[1] / t).sum()
    log_pi = LOGITS[1] - np.log(np.exp(LOGITS[1]).sum())
    assert float(metrics["policy_loss"]) == pytest.approx(-float(weight @ log_pi[first]), rel=1e-5)
    assert float(metrics["value_loss"]) == pytest.approx(0.5 * (1.0 + DISCOUNT * 1.5 + 0.2) ** 2, rel=1e-5)
    assert float(metrics["kl"]) == pytest.approx(0.0, abs=1e-6)
    # d/dT of T (epsilon + sum_k log mean exp(g_k / T)), through softplus; Adam's first step is its sign.
    means = [np.log(np.mean(np.exp(row / t))) for row in gain]
    tilted = [np.exp(row / t) / np.exp(row / t).sum() for row in gain]
    slope = 0.5 + sum(means) - sum(w @ row for w, row in zip(tilted, gain, strict=True)) / t
    moved = jax.tree.map(lambda new, old: np.asarray(new - old), learned.params, agent.params)
    assert np.sign(moved["duals"].temperature) == -np.sign(slope)
    share = weight[first == 1].sum()
    gradient = np.exp(log_pi) - np.array([1 - share, share])
    np.testing.assert_allclose(moved["network"]["logits"][1], -1e-2 * np.sign(gradient), rtol=1e-2)
    assert not moved["network"]["logits"][[0, 2, 3]].any()


def test_an_observation_alone_is_acted_on_by_the_policy():
    algorithm = spo(EnvironmentSpec(Chain.observation_space, Chain.action_space), config(), network=table)
    agent = algorithm.init(jax.random.key(0))
    action, _, extras = algorithm.act(agent, (), jax.random.key(0), jnp.arange(3.0)[:, None], False)
    assert action.tolist() == LOGITS[:3].argmax(-1).tolist() and extras == ()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"depth": 3, "resampling_period": 2}, "spo: resampling_period 2 does not divide depth 3"),
        ({"num_minibatches": 5}, "spo: num_minibatches 5 does not divide num_envs x rollout_length = 6"),
        ({"num_particles": 1}, "num_particles is 1; it must be at least 2"),
    ],
)
def test_settings_must_fit(changes, line):
    with pytest.raises(InputError, match=line):
        purerl.make_trainer(spo, Chain(), config(**changes))


def test_a_game_of_two_sides_is_refused():
    with pytest.raises(InputError, match="spo plans for one agent"):
        purerl.make_trainer(spo, Nim(), config())
