"""MuZero: its targets by hand, its loss by hand, and an environment that it learns."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import purerl
from purerl.algos.muzero import MuZeroConfig, ahead, futures, muzero
from purerl.functional.distributions import Categorical
from purerl.networks.latent_model import LatentModel, latent_model
from purerl.settings import runs
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

T = 6
SEEN = Box(low=-1.0, high=1.0, shape=(2,))
ACTIONS = {"discrete": Discrete(n=3), "continuous": Box(low=-1.0, high=1.0, shape=(2,))}
DRAWS = np.random.default_rng(0)


def column(x):
    return jnp.asarray(x)[:, None]


def rollout(kind="discrete"):
    """Six steps of one environment: a termination at step 1, a truncation at step 4, a third episode at step 5."""
    weights = DRAWS.dirichlet(np.ones(3), T).astype(np.float32)
    moves, draws = DRAWS.normal(size=(T, 2)).astype(np.float32), DRAWS.normal(size=(T, 3, 2)).astype(np.float32)
    discrete = kind == "discrete"
    return Rollout(
        observation=column(DRAWS.normal(size=(T, 2)).astype(np.float32)),
        action=column(np.array([0, 2, 1, 1, 0, 2]) if discrete else moves),
        reward=column(np.array([1.0, 2.0, -1.0, 0.5, 3.0, 0.25], np.float32)),
        terminated=column(np.array([0, 1, 0, 0, 0, 0], bool)),
        truncated=column(np.array([0, 0, 0, 0, 1, 0], bool)),
        next_observation=column(DRAWS.normal(size=(T, 2)).astype(np.float32)),
        extras={
            "action_weights": column(weights),
            "root_value": column(DRAWS.normal(size=T).astype(np.float32)),
            "uniform": column(np.zeros(T, bool)),
            "candidates": () if discrete else column(draws),
        },
        carry=(),
    )


def test_what_is_known_of_the_future():
    known = futures(rollout(), 3)
    rows = lambda x: ["".join("1" if flag else "." for flag in row) for row in np.asarray(x[:, 0])]
    assert rows(known.ongoing) == ["11..", "1...", "111.", "11..", "1...", "1..."]
    # Beyond the task's end all is 0 and known; beyond a time limit or the rollout only the successor is.
    assert rows(known.absorbing) == ["..11", ".111", "....", "....", "....", "...."]
    assert rows(known.bootstrap) == ["....", "....", "...1", "..1.", ".1..", ".1.."]
    np.testing.assert_array_equal(ahead(column(np.arange(1, T + 1)), 2)[3:, 0], [[4, 5, 6], [5, 6, 0], [6, 0, 0]])


def log_softmax(x):
    return x - np.log(np.exp(x).sum())


def log_probs(policy, draws):
    if not len(draws):
        return log_softmax(np.asarray(policy.logits))
    mean, log_std = np.asarray(policy.mean), np.asarray(policy.log_std)
    z = (draws - mean) / np.exp(log_std)
    return np.sum(-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi), axis=-1)


def compressed(x):
    """Return h(x) of R2D2 and MuZero."""
    return np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + 0.001 * x


def stretched(y):
    """Return x with h(x) = y, by bisection."""
    low, high = -100.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if compressed(middle) < y else (low, middle)
    return low


@pytest.mark.long
@pytest.mark.parametrize("kind", ACTIONS)
def test_the_loss_by_hand(kind):
    """Step by step, with the network as a black box: on its compressed scale, and for continuous actions without."""
    settings = MuZeroConfig(
        num_envs=1, rollout_length=T, num_epochs=1, num_minibatches=1, unroll_steps=2, discount=0.9, td_lambda=1.0,
        hidden_sizes=(4,), **({} if kind == "discrete" else {"rescale_value": False}),
    )  # fmt: skip
    squeeze, stretch = (compressed, stretched) if kind == "discrete" else (float, float)
    spec = EnvironmentSpec(SEEN, ACTIONS[kind])
    algo, net = muzero(spec, settings), latent_model(spec.observation_space, spec.action_space, settings)
    given, agent = rollout(kind), algo.init(jax.random.key(2))
    agent = agent._replace(params=jax.tree.map(lambda x: x + 0.1, agent.params))
    _, metrics = jax.jit(algo.update)(agent, jax.random.key(1), given)

    flat = jax.tree.map(lambda x: np.asarray(x)[:, 0], given._replace(carry=()))
    value_of = lambda seen: stretch(float(net.predict(agent.params, net.represent(agent.params, jnp.asarray(seen)))[1]))
    last, cut = value_of(flat.next_observation[5]), value_of(flat.next_observation[4])
    returns = np.zeros(T)
    returns[5] = 0.25 + 0.9 * last
    returns[4] = 3.0 + 0.9 * cut
    for t in (3, 2):
        returns[t] = flat.reward[t] + 0.9 * returns[t + 1]
    returns[1] = 2.0
    returns[0] = 1.0 + 0.9 * 2.0

    going, over, cut_off = (np.asarray(x)[:, 0] for x in futures(given, 2))
    sums = {"policy_loss": 0.0, "value_loss": 0.0, "reward_loss": 0.0}
    for t in range(T):
        latent = net.represent(agent.params, jnp.asarray(flat.observation[t]))
        for k in range(3):
            weight = 1.0 if k == 0 else 0.5
            if k:
                action = jnp.asarray(flat.action[(t + k - 1) % T])  # beyond an end, that of another step
                latent, reward = net.advance(agent.params, latent, action)
                if going[t, k - 1] or over[t, k - 1]:
                    real = flat.reward[t + k - 1] if going[t, k - 1] else 0.0
                    sums["reward_loss"] += weight * 0.5 * (float(reward) - squeeze(real)) ** 2
            policy, value = net.predict(agent.params, latent)
            if going[t, k] or over[t, k] or cut_off[t, k]:
                beyond = (last if t + k == T else cut) if cut_off[t, k] else 0.0
                real = returns[t + k] if going[t, k] else beyond
                sums["value_loss"] += weight * 0.5 * (float(value) - squeeze(real)) ** 2
            if going[t, k]:
                draws = flat.extras["candidates"][t + k] if kind == "continuous" else ()
                sums["policy_loss"] -= weight * flat.extras["action_weights"][t + k] @ log_probs(policy, draws)
    for name, total in sums.items():
        np.testing.assert_allclose(metrics[name], total / T, rtol=2e-4, err_msg=name)


def counting(advance):
    """Return a model whose latent is a number and its value, with three actions that are alike."""
    return LatentModel(
        init=lambda key: jnp.zeros(()),
        represent=lambda step, observation: observation[..., 0],
        advance=advance,
        predict=lambda step, latent: (Categorical(jnp.zeros((*latent.shape, 3))), latent),
    )


def test_a_tree_discounts_the_values_of_the_model(monkeypatch):
    """One simulation: the root's value is 2 + 0.5 (3 + 1)."""
    model = counting(lambda step, latent, action: (latent + 1, jnp.full_like(latent, 2.0)))
    monkeypatch.setattr("purerl.algos.muzero.latent_model", lambda *_: model)
    settings = MuZeroConfig(num_simulations=1, discount=0.5, rescale_value=False)
    algo = muzero(EnvironmentSpec(SEEN, ACTIONS["discrete"]), settings)
    agent = algo.init(jax.random.key(0))
    act = jax.jit(lambda key: algo.act(agent, (), key, jnp.full((2, 2), 3.0), True))
    np.testing.assert_allclose(act(jax.random.key(0))[2]["root_value"], 4.0)


def test_a_step_of_the_model_gets_half_of_the_gradient_of_later_steps(monkeypatch):
    """The latent is a sum of steps and the value itself: one step moves it by 1, two steps by 1 + 1/2."""
    model = counting(lambda step, latent, action: (latent + step, jnp.zeros_like(latent)))
    monkeypatch.setattr("purerl.algos.muzero.latent_model", lambda *_: model)
    settings = MuZeroConfig(
        num_envs=1, rollout_length=3, num_epochs=1, num_minibatches=1, unroll_steps=2, td_lambda=0.0, discount=1.0,
        max_grad_norm=1e9, rescale_value=False,
    )  # fmt: skip
    algo = muzero(EnvironmentSpec(SEEN, ACTIONS["discrete"]), settings, optimizer=lambda plan: optax.sgd(1.0))
    given = jax.tree.map(lambda x: x[:3], rollout())  # with all targets 1 and all predictions 0
    given = given._replace(
        observation=jnp.zeros((3, 1, 2)), next_observation=jnp.ones((3, 1, 2)), reward=jnp.zeros((3, 1)),
        terminated=jnp.zeros((3, 1), bool), extras=given.extras | {"root_value": jnp.ones((3, 1))},
    )  # fmt: skip
    agent, _ = jax.jit(algo.update)(algo.init(jax.random.key(0)), jax.random.key(1), given)
    # Two steps are known from the first two rows, weighted by 1/2; one from the last.
    assert float(agent.params) == pytest.approx((2 * (1 + 1.5) / 2 + 1 / 2) / 3)


@pytest.mark.slow
def test_it_learns_catch():
    """A ball falls for nine steps and only the last one pays: a random player catches a third."""
    settings = MuZeroConfig(
        num_envs=32, rollout_length=18, num_simulations=8, learning_rate=3e-3, hidden_sizes=(64,), discount=0.99,
        unroll_steps=3,
    )  # fmt: skip
    trainer = purerl.make_trainer(muzero, purerl.make("Catch"), settings)
    advance = jax.jit(lambda state: jax.lax.fori_loop(0, 160, lambda _, s: trainer.step(s)[0], state))
    state = advance(jax.jit(trainer.init)(jax.random.key(0)))
    played = jax.jit(lambda agent: purerl.evaluate(trainer, agent, jax.random.key(1), 128))(state.agent)
    assert float(played.episode_return.mean()) > 0.9


@pytest.mark.slow
def test_it_learns_to_swing_up_by_sampled_actions():
    settings = runs.settings("muzero", "Pendulum-v1", {}).config
    state, _ = jax.jit(purerl.make_train(muzero, purerl.make("Pendulum-v1"), settings))(jax.random.key(0))
    trainer = purerl.make_trainer(muzero, purerl.make("Pendulum-v1"), settings)
    played = purerl.evaluate(trainer, state.agent, jax.random.key(1), 64)
    assert played.episode_return.mean() > -250
