"""AlphaZero: its trees against a plain search in NumPy, its targets and its loss by hand, and a game that it solves."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl import InputError
from purerl.algos.alphazero import AlphaZeroConfig, alphazero
from purerl.algos.muzero import MuZeroConfig, muzero
from purerl.envs.classic.cartpole import CartPole
from purerl.functional.distributions import Categorical
from purerl.functional.q_targets import rescale
from purerl.networks.actor_critic import ActorCritic
from purerl.prng import fast
from purerl.settings import runs
from purerl.spaces import Box, Discrete
from purerl.types import Environment, EnvironmentSpec, Rollout, TimeStep, pytree
from purerl.wrappers import Situations
from purerl.wrappers.situations import Situation
from tests.helpers.nim import Nim, Pile
from tests.helpers.restated import Restated

DRAWS = np.random.default_rng(3)
LOGITS, VALUES = DRAWS.normal(size=(8, 2)).astype(np.float32), DRAWS.uniform(-0.5, 0.5, 8).astype(np.float32)


def table(space, head, config):
    """Logits and values of what is left in Nim, as a network."""

    def unroll(params, carry, observation, done):
        left = jnp.argmax(observation["observation"], axis=-1)
        logits = jnp.where(observation["action_mask"], params["logits"][left], -1e9)
        return Categorical(logits), params["values"][left], ()

    return ActorCritic(
        init=lambda key: {"logits": jnp.asarray(LOGITS), "values": jnp.asarray(VALUES)},
        initial_carry=lambda num_envs: (),
        policy=lambda params, carry, observation: (unroll(params, carry, observation, ())[0], ()),
        value=lambda params, carry, observation: unroll(params, carry, observation, ())[1],
        unroll=unroll,
    )


def config(**changes):
    given = {"num_envs": 7, "rollout_length": 4, "num_epochs": 1, "num_minibatches": 1, "discount": 0.9, "epsilon": 0.0}
    return AlphaZeroConfig(**{**given, "num_simulations": 24, "rescale_value": False, **changes})


def situations():
    """All seven states of Nim in which there is a move, both sides to move."""
    game = Situations(Nim())
    made = [game._situation(state, Nim().observe(state)) for state in (piles(left) for left in range(1, 8))]
    return jax.tree.map(lambda *xs: jnp.stack(xs), *made)


def piles(left):
    return Pile(jnp.int32(left), jnp.bool_(left % 2))


def act(settings, explore=False, key=0):
    trainer = purerl.make_trainer(lambda *a, **k: alphazero(*a, **k, network=table), Nim(), settings)
    agent = trainer.algorithm.init(jax.random.key(0))
    do = jax.jit(lambda key: trainer.algorithm.act(agent, (), key, situations(), explore))
    return do(fast(jax.random.key(key)))


class Node:
    """A state of Nim in a plain search: what is left, as the side to move sees it."""

    def __init__(self, left):
        self.left, self.value, self.visits, self.children = left, VALUES[left] if left else 0.0, 1, {}
        logits = np.where([True, left > 1], LOGITS[left], -1e9)
        self.prior = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()

    def q(self, action, discount):
        child = self.children[action]
        return 1.0 if child.left == 0 else -discount * child.value


def puct(left, simulations, discount, constant):
    """Return the share of visits of the root's two actions."""
    root, base = Node(left), 19652.0
    counts = {id(root): np.zeros(2)}
    for _ in range(simulations):
        path, node = [], root
        while True:
            seen = counts[id(node)]
            known = [node.q(a, discount) for a in node.children]
            low, high = min([node.value, *known]), max([node.value, *known])
            q = [(node.q(a, discount) if a in node.children else low) for a in (0, 1)]
            score = (np.array(q) - low) / max(high - low, 1e-8)
            weight = constant + np.log((node.visits + base + 1) / base)
            score = score + np.sqrt(node.visits) * weight * node.prior / (seen + 1)
            score[[not (node is not root or left > 1 or a == 0) for a in (0, 1)]] = -np.inf
            action = int(np.argmax(score))
            path.append((node, action))
            if action not in node.children:
                # What follows the end of a game is the end of the game.
                node.children[action] = Node(max(node.left - 1 - action, 0))
                counts[id(node.children[action])] = np.zeros(2)
                break
            if node.children[action].left == 0:
                node.children[action].visits += 1
                break
            node = node.children[action]
        back = node.children[action].value
        for node, action in reversed(path):
            over = node.children[action].left == 0
            back = 1.0 if over else -discount * back
            node.value = (node.value * node.visits + back) / (node.visits + 1)
            node.visits += 1
            counts[id(node)][action] += 1
    return counts[id(root)] / simulations


@pytest.mark.long
def test_trees_equal_a_plain_search():
    settings = config(search="puct", dirichlet_fraction=0.0, puct_constant=1.6, temperature=1.0)
    weights = act(settings, explore=True)[2]["action_weights"]
    expected = np.stack([puct(left, 24, 0.9, 1.6) for left in range(1, 8)])
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    assert (np.abs(expected - 0.5) < 0.45).any(), "some trees are no mere line"


@pytest.mark.long
def test_gumbels_policy_by_hand():
    """Two simulations try both moves once: the policy is softmax(logits + 51 x value_scale x Q)."""
    settings = config(num_simulations=2, value_scale=0.05, normalize_search_value=False)
    action, _, extras = act(settings, explore=True)
    for row, left in enumerate(range(2, 8), start=1):
        q = np.array([1.0 if left - take == 0 else -0.9 * VALUES[left - take] for take in (1, 2)])
        scores = LOGITS[left] + 51 * 0.05 * q
        expected = np.exp(scores) / np.exp(scores).sum()
        np.testing.assert_allclose(extras["action_weights"][row], expected, rtol=1e-4)
        np.testing.assert_allclose(extras["root_value"][row], expected @ q, rtol=1e-4)
    assert int(action[0]) == 0 and extras["action_weights"][0].tolist() == [1.0, 0.0], "the one legal move"


@pytest.mark.long
@pytest.mark.parametrize("search", ["gumbel", "puct"])
def test_greedy_actions_win_and_depend_on_no_key(search):
    """By simulations alone: the prior and the values are random."""
    more = {"num_simulations": 64, "value_scale": 1.0} if search == "gumbel" else {"num_simulations": 400}
    settings = config(search=search, **more)
    first, second = act(settings, key=1)[0], act(settings, key=2)[0]
    np.testing.assert_array_equal(first, second)
    best = {1: 0, 2: 1, 4: 0, 5: 1, 7: 0}
    assert {left: int(first[left - 1]) for left in best} == best


@pytest.mark.long
def test_depth_bounds_a_tree():
    """At a depth of one action, every simulation visits a child of the root, whose value is the network's."""
    extras = act(config(max_depth=1, search="puct", dirichlet_fraction=0.0), explore=True)[2]
    q = np.array([-0.9 * VALUES[left] for left in (6, 5)])
    np.testing.assert_allclose(extras["root_value"][6], extras["action_weights"][6] @ q, rtol=1e-4)


@pytree
class Walk(Environment):
    """Each step rewards 1 and leads to state s + 1; from state 2 on, time is up, or action 1 ends the task."""

    observation_space = Box(low=0, high=9, shape=(1,))
    action_space = Discrete(n=2)

    def reset(self, key):
        return jnp.int32(0), jnp.zeros(1)

    def step(self, key, state, action):
        after = state + 1
        over = after >= 2
        end = over & (action == 1)
        return after, TimeStep.transition(after[None].astype(jnp.float32), jnp.float32(1), terminated=end, time_up=over)


def constant(space, head, config):
    """A value of 5 everywhere and equal logits."""
    zeros = lambda observation: jnp.zeros((*observation.shape[:-1], 2))
    five = lambda observation: jnp.full(observation.shape[:-1], 5.0)
    return ActorCritic(
        init=lambda key: jnp.zeros(1),
        initial_carry=lambda num_envs: (),
        policy=lambda params, carry, observation: (Categorical(zeros(observation)), ()),
        value=lambda params, carry, observation: five(observation),
        unroll=lambda params, carry, observation, done: (Categorical(zeros(observation)), five(observation), ()),
    )


@pytest.mark.long_for("puct")
@pytest.mark.parametrize("search", ["gumbel", "puct"])
def test_nothing_follows_an_end_and_a_time_limit_keeps_its_value(search):
    """From state 1: action 0 is worth 1 + 0.9 x 5, action 1 is worth 1, however often the tree looks beyond them."""
    trainer = purerl.make_trainer(
        lambda *a, **k: alphazero(*a, **k, network=constant), Walk(), config(search=search, dirichlet_fraction=0.0)
    )
    one = Situation(observation=jnp.ones((1, 1)), state=jnp.ones(1, jnp.int32), side=jnp.zeros(1, jnp.int32))
    agent = trainer.algorithm.init(jax.random.key(0))
    extras = jax.jit(lambda key: trainer.algorithm.act(agent, (), key, one, True))(fast(jax.random.key(0)))[2]
    weights = extras["action_weights"][0]
    assert float(weights[0]) > 0.6
    np.testing.assert_allclose(extras["root_value"][0], weights[0] * 5.5 + weights[1] * 1.0, rtol=1e-4)


def rollout(**changes):
    """One game of Nim from 4 in which sides take 1, 1, 2, and a step of the next game."""
    left, side = np.array([4, 3, 2, 7]), np.array([0, 1, 0, 1])
    after, next_side = np.array([3, 2, 0, 6]), np.array([1, 0, 1, 0])

    def seen(left, side):
        observation = {"observation": jax.nn.one_hot(left, 8), "action_mask": jnp.stack([left >= 0, left > 1], axis=-1)}
        return jax.tree.map(lambda x: x[:, None], Situation(observation=observation, state=(), side=jnp.asarray(side)))

    column = lambda x: jnp.asarray(x)[:, None]
    extras = {
        "action_weights": jnp.asarray([[0.3, 0.7], [0.5, 0.5], [0.1, 0.9], [0.6, 0.4]])[:, None],
        "root_value": column(np.array([0.2, -0.1, 0.8, 0.3], np.float32)),
        "uniform": column(np.zeros(4, bool)),
        "candidates": (),
    }
    return Rollout(
        observation=seen(jnp.asarray(left), side),
        action=column(np.array([0, 0, 1, 0])),
        reward=column(np.array([0.0, 0.0, 1.0, 0.0], np.float32)),
        terminated=column(np.array([False, False, True, False])),
        truncated=column(np.zeros(4, bool)),
        next_observation=seen(jnp.asarray(after), next_side),
        extras=extras | changes,
        carry=(),
    )


def learned(given, **changes):
    """Return (parameters after one step of plain gradient descent of size 1, metrics)."""
    import optax

    settings = config(num_envs=1, value_coefficient=0.5, **changes)
    game = Situations(Nim())
    spec = EnvironmentSpec(game.observation_space, game.action_space)
    algo = alphazero(spec, settings, network=table, optimizer=lambda plan: optax.sgd(1.0))
    agent, metrics = jax.jit(algo.update)(algo.init(jax.random.key(0)), jax.random.key(1), given)
    return jax.tree.map(np.asarray, (agent.params, metrics))


def softmax(x):
    return np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)


@pytest.mark.long_for("one step", "whole returns")
@pytest.mark.parametrize(
    ("lambda_", "drawn", "targets"),
    [
        # The winner's +1, seen by the sides in turn; the last step leads to 6, whose value is the network's.
        (1.0, None, [0.81, -0.9, 1.0, -0.9 * VALUES[6]]),
        (0.0, None, [0.9 * 0.1, -0.9 * 0.8, 1.0, -0.9 * VALUES[6]]),
        # A move that was drawn says nothing of the state before it: its search's value stands, for what led to it, too.
        (1.0, 1, [0.9 * 0.1, -0.1, 1.0, -0.9 * VALUES[6]]),
        (0.5, None, [0.9 * 0.5 * (0.1 + 0.9 * 0.5 * (0.8 + 1.0)), -0.9 * 0.5 * (0.8 + 1.0), 1.0, -0.9 * VALUES[6]]),
    ],
    ids=["whole returns", "one step", "a drawn move", "half"],
)
def test_targets_and_loss_by_hand(lambda_, drawn, targets):
    extras = {} if drawn is None else {"uniform": jnp.arange(4)[:, None] == drawn}
    params, metrics = learned(rollout(**extras), td_lambda=lambda_)
    left, weights = [4, 3, 2, 7], np.array([[0.3, 0.7], [0.5, 0.5], [0.1, 0.9], [0.6, 0.4]])
    errors = VALUES[left] - targets
    np.testing.assert_allclose(metrics["value_loss"], np.mean(errors**2) / 2, rtol=1e-4)
    log_pi = np.log(softmax(LOGITS[left]))
    np.testing.assert_allclose(metrics["policy_loss"], -np.mean((weights * log_pi).sum(-1)), rtol=1e-4)
    np.testing.assert_allclose(params["values"][left], VALUES[left] - 0.5 * errors / 4, rtol=1e-4)
    np.testing.assert_allclose(
        params["logits"][left], LOGITS[left] - (softmax(LOGITS[left]) - weights) / 4, rtol=1e-4, atol=1e-6
    )


@pytest.mark.long
def test_values_on_a_compressed_scale():
    """The network's numbers are h(value): the target of the step that won is h(1)."""
    _, metrics = learned(rollout(), rescale_value=True, td_lambda=1.0)
    unscaled = np.float32(-0.9) * float(jax.jit(lambda x: purerl.functional.q_targets.unscale(x))(VALUES[6]))
    targets = np.asarray(rescale(jnp.array([0.81, -0.9, 1.0, unscaled])))
    np.testing.assert_allclose(metrics["value_loss"], np.mean((VALUES[[4, 3, 2, 7]] - targets) ** 2) / 2, rtol=1e-4)


@pytest.mark.long
def test_a_share_of_the_actions_is_drawn():
    settings = config(epsilon=0.5, num_simulations=64)
    trainer = purerl.make_trainer(lambda *a, **k: alphazero(*a, **k, network=table), Nim(), settings)
    agent = trainer.algorithm.init(jax.random.key(0))
    many = jax.tree.map(lambda x: jnp.repeat(x[1:2], 400, axis=0), situations())  # two left: the search takes both
    action, _, extras = jax.jit(lambda key: trainer.algorithm.act(agent, (), key, many, True))(fast(jax.random.key(0)))
    drawn = np.asarray(extras["uniform"])
    assert 0.4 < drawn.mean() < 0.6 and (np.asarray(action)[~drawn] == 1).all()
    assert 0.35 < np.asarray(action)[drawn].mean() < 0.65


@pytest.mark.long
def test_without_a_state_the_network_acts_alone():
    game = Situations(Nim())
    algo = alphazero(EnvironmentSpec(game.observation_space, game.action_space), config(), network=table)
    agent, seen = algo.init(jax.random.key(0)), situations().observation
    np.testing.assert_array_equal(algo.act(agent, (), jax.random.key(0), seen, False)[0][1:], LOGITS[2:].argmax(-1))


@pytest.mark.long
def test_it_learns_nim():
    """Whoever leaves a multiple of three wins; the trained network alone knows it, as far as the rules allow."""
    settings = config(num_envs=32, rollout_length=8, num_simulations=12, learning_rate=1e-2, hidden_sizes=(32,))
    settings = dataclasses.replace(settings, discount=1.0, epsilon=0.2, num_epochs=2, num_minibatches=2)
    trainer = purerl.make_trainer(alphazero, Nim(), settings)
    advance = jax.jit(lambda state: jax.lax.fori_loop(0, 60, lambda _, s: trainer.step(s)[0], state))
    state = advance(jax.jit(trainer.init)(jax.random.key(0)))
    seen = situations().observation
    choice = trainer.algorithm.act(state.agent, (), jax.random.key(0), seen, False)[0]
    best = {2: 1, 4: 0, 5: 1, 7: 0}
    assert {left: int(choice[left - 1]) for left in best} == best


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_simulations": 0}, "num_simulations is 0; it must be at least 1"),
        ({"search": "minimax"}, "search is 'minimax'; allowed: gumbel, puct"),
        ({"num_minibatches": 3}, "num_minibatches 3 does not divide"),
        ({"max_depth": 0}, "max_depth is 0"),
    ],
)
def test_wrong_settings_are_told(changes, words):
    with pytest.raises(InputError, match=words):
        purerl.make_trainer(alphazero, Nim(), config(**changes))


@pytree
class Slide(Environment):
    """A point moves by the action and pays the square of where it is."""

    observation_space = Box(low=-9, high=9, shape=(1,))
    action_space = Box(low=-1.0, high=1.0, shape=(1,))

    def reset(self, key):
        return jnp.float32(1), jnp.ones(1)

    def step(self, key, state, action):
        after = state + action[0]
        return after, TimeStep.transition(after[None], -(after**2))


def sloped(space, head, config):
    """A value of 2 x and a normal policy around 0.2, as a network."""
    policy = lambda params, x: head.distribution(jnp.full((*x.shape[:-1], 1), 0.2) + params, jnp.full(1, -0.5))
    return ActorCritic(
        init=lambda key: jnp.zeros(1),
        initial_carry=lambda num_envs: (),
        policy=lambda params, carry, x: (policy(params, x), ()),
        value=lambda params, carry, x: 2.0 * x[..., 0],
        unroll=lambda params, carry, x, done: (policy(params, x), 2.0 * x[..., 0], ()),
    )


def slid(explore, **changes):
    settings = config(num_sampled_actions=3, num_simulations=3, normalize_search_value=False, value_scale=0.05)
    settings = dataclasses.replace(settings, **changes)
    trainer = purerl.make_trainer(lambda *a, **k: alphazero(*a, **k, network=sloped), Slide(), settings)
    x = jnp.array([1.0, -0.5])
    situation = Situation(observation=x[:, None], state=x, side=jnp.zeros(2, jnp.int32))
    agent = trainer.algorithm.init(jax.random.key(0))
    do = jax.jit(lambda key: trainer.algorithm.act(agent, (), key, situation, explore))
    return trainer, agent, do


@pytest.mark.long
def test_sampled_actions_by_hand():
    """Three simulations try each of three draws once: the policy over them is softmax(51 x value_scale x Q)."""
    _, _, do = slid(True)
    action, _, extras = do(fast(jax.random.key(0)))
    draws = np.asarray(extras["candidates"])
    assert draws.shape == (2, 3, 1) and len(np.unique(draws)) == 6
    after = np.array([[1.0], [-0.5]]) + np.clip(draws[..., 0], -1, 1)
    q = -(after**2) + 0.9 * 2 * after
    scores = 51 * 0.05 * q
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(extras["action_weights"], expected, rtol=1e-4)
    np.testing.assert_allclose(extras["root_value"], (expected * q).sum(axis=1), rtol=1e-4)
    assert all(action[row, 0] in np.clip(draws[row, :, 0], -1, 1) for row in range(2))


@pytest.mark.long
def test_greedy_sampled_actions_depend_on_no_key_and_know_the_mode():
    _, _, do = slid(False)
    first, second = (do(fast(jax.random.key(key)))[0] for key in (1, 2))
    np.testing.assert_array_equal(first, second)
    wide = {"num_sampled_actions": 200, "num_simulations": 400, "max_considered_actions": 200, "max_depth": 1}
    _, _, do = slid(False, **wide)
    x = np.array([1.0, -0.5]) + np.asarray(do(fast(jax.random.key(1)))[0])[:, 0]
    np.testing.assert_allclose(x, [0.9, 0.5], atol=0.05, err_msg="x^2 is weighed against 1.8 x; the step is at most 1")


@pytest.mark.long
def test_the_loss_over_sampled_actions_by_hand():
    trainer, agent, do = slid(True, num_envs=2, rollout_length=1, value_coefficient=0.0, max_grad_norm=1e9)
    _, _, extras = do(fast(jax.random.key(0)))
    x = jnp.array([[1.0], [-0.5]])
    situation = Situation(observation=x[None], state=x[None, :, 0], side=jnp.zeros((1, 2), jnp.int32))
    given = Rollout(
        observation=situation,
        action=jnp.zeros((1, 2, 1)),
        reward=jnp.zeros((1, 2)),
        terminated=jnp.zeros((1, 2), bool),
        truncated=jnp.zeros((1, 2), bool),
        next_observation=situation,
        extras=jax.tree.map(lambda x: x[None], extras),
        carry=(),
    )
    _, metrics = jax.jit(trainer.algorithm.update)(agent, jax.random.key(1), given)
    draws, weights, std = np.asarray(extras["candidates"])[..., 0], np.asarray(extras["action_weights"]), np.exp(-0.5)
    log_pi = -0.5 * ((draws - 0.2) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(metrics["policy_loss"], -np.mean((weights * log_pi).sum(axis=1)), rtol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize(
    ("factory", "of"), [(alphazero, AlphaZeroConfig), (muzero, partial(MuZeroConfig, unroll_steps=1))]
)
def test_normalized_observations_do_not_depend_on_their_scale(factory, of):
    sizes = {"num_envs": 4, "rollout_length": 4, "num_simulations": 2, "num_minibatches": 2, "hidden_sizes": (8,)}
    config = of(**sizes, normalize_observation=True)

    @jax.jit
    def after(scale, offset):
        trainer = purerl.make_trainer(factory, Restated(env=CartPole(), scale=scale, offset=offset), config)
        state = trainer.init(jax.random.key(0))
        seen = scale * jax.random.normal(jax.random.key(1), (512, 4)) + offset
        statistics = state.agent.observation_statistics.update(seen, None)
        state = state._replace(agent=state.agent._replace(observation_statistics=statistics))
        return jax.lax.fori_loop(0, 4, lambda _, state: trainer.step(state)[0], state).agent

    plain, moved = after(1.0, 0.0), after(64.0, 32.0)
    assert float(plain.observation_statistics.samples) == 512 + 4 * config.steps_per_update
    mean = 64.0 * plain.observation_statistics.mean + 32.0
    np.testing.assert_allclose(moved.observation_statistics.mean, mean, rtol=1e-3, atol=0.1)
    for one, other in zip(*(jax.tree.leaves(agent.params) for agent in (plain, moved)), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)


@pytest.mark.slow
def test_it_learns_to_swing_up_by_sampled_actions():
    settings = runs.settings("alphazero", "Pendulum-v1", {"total_timesteps": 40_000}).config
    trained = purerl.make_train(alphazero, purerl.make("Pendulum-v1"), settings)
    state, _ = jax.jit(trained)(jax.random.key(0))
    trainer = purerl.make_trainer(alphazero, purerl.make("Pendulum-v1"), settings)
    played = purerl.evaluate(trainer, state.agent, jax.random.key(1), 64)
    assert played.episode_return.mean() > -250
