"""Curiosity: the bonus by hand; it falls in known states, and PPO finds distant rewards with it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.algos import curiosity as source
from purerl.algos.curiosity import CURIOSITIES, DISCOUNT, LIMIT, predictor
from purerl.algos.policy_gradient import PolicyConfig
from purerl.algos.ppo import PPOConfig, ppo
from purerl.errors import InputError
from purerl.spaces import Box, Dict, Discrete
from purerl.types import EnvironmentSpec, Rollout

SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(3,)), Discrete(n=2))
CONFIG = PolicyConfig(num_envs=4, rollout_length=8, hidden_sizes=(16,), initializer="orthogonal")
T, B = 8, 4
FAST, FASTER = ({"coefficient": 1.0, "learning_rate": rate} for rate in (3e-3, 1e-2))


def rollout(key, spec=SPEC, mask=None):
    """States at random; an action tells the successor: it is the state shifted by the action. Two episodes end."""
    keys = jax.random.split(key, 2)
    state = jax.random.uniform(keys[0], (T, B, 3), jnp.float32, -1.0, 1.0)
    action = jax.random.randint(keys[1], (T, B), 0, 2)
    following = state + (action[..., None].astype(jnp.float32) * 2.0 - 1.0) * jnp.array([0.5, 0.0, 0.0])
    never = jnp.zeros((T, B), bool)
    ends = never.at[2, 1].set(True).at[5, 3].set(True)
    return Rollout(state, action, jnp.ones((T, B)), ends, never, following, (), (), mask)


def new_curiosity(key, *how):
    return jax.jit(lambda key: source.new_curiosity(key, *how))(key)


def with_bonus(before, given, *how, **settings):
    return jax.jit(lambda before, given: source.with_bonus(before, given, *how, **settings))(before, given)


def numpy_spread(bonus, mask=None):
    """The standard deviation of the discounted sums, environment by environment, whatever episodes end."""
    sums, running = [], np.zeros(bonus.shape[1])
    for t in range(len(bonus)):
        running = running * DISCOUNT + bonus[t]
        sums.append(running.copy())
    return np.sqrt(np.var(np.array(sums)))


@pytest.mark.long
@pytest.mark.parametrize("kind", CURIOSITIES)
def test_the_bonus_by_hand(key, kind):
    given = rollout(key)
    before = new_curiosity(key, SPEC, CONFIG, kind, B)
    after, learned = with_bonus(before, given, SPEC, CONFIG, kind=kind, coefficient=0.25, learning_rate=1e-3)
    x = np.asarray(given.next_observation, np.float64).reshape(-1, 3)
    mean, std = x.mean(axis=0), x.std(axis=0)
    standard = lambda y: jnp.asarray(np.clip((np.asarray(y, np.float64) - mean) / std, -LIMIT, LIMIT), jnp.float32)
    seen = given._replace(observation=standard(given.observation), next_observation=standard(given.next_observation))
    bonus, _ = jax.jit(predictor(SPEC, CONFIG, kind).surprise)(before.params, seen)
    expected = 1.0 + 0.25 * np.clip(np.asarray(bonus) / numpy_spread(np.asarray(bonus)), -10, 10)
    np.testing.assert_allclose(learned.reward, expected, rtol=1e-3)
    np.testing.assert_array_equal(learned.observation, given.observation)  # as the environment gave it
    np.testing.assert_allclose(after.statistics.mean, mean, rtol=1e-4, atol=1e-6)


def test_a_gradient_step_sees_steps_from_all_over_the_rollout(key):
    """The first of four steps sees steps 0 and 4 of eight: where these are equal, it is as one of a rollout of four."""
    four = jax.tree.map(lambda x: x[:4], rollout(key))
    eight = jax.tree.map(lambda x: jnp.concatenate([x, x]), four)
    before = new_curiosity(key, SPEC, CONFIG, "rnd", B)
    learned = jax.jit(
        lambda given: with_bonus(before, given, SPEC, CONFIG, kind="rnd", **FASTER)[0].params["predictor"]
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), learned(four), learned(eight))


@pytest.mark.long
def test_icms_features_learn_from_the_action_alone(key):
    """The forward error has no gradient in them: else features that are all equal would be best."""
    model = predictor(SPEC, CONFIG, "icm")

    def slopes(key):
        params, given = model.init(key), rollout(key)
        both = jax.jacrev(lambda params: jnp.stack([x.mean() for x in model.surprise(params, given)]))(params)
        return jax.tree.map(lambda x: jnp.abs(x).reshape(2, -1).max(axis=1), both)

    found = jax.jit(slopes)(key)
    error, loss = (lambda part, of=of: max(float(x[of]) for x in jax.tree.leaves(found[part])) for of in (0, 1))
    assert error("features") == 0.0 < 1e-4 < min(error("forward"), loss("features"))


@pytest.mark.long
def test_what_rnd_compares_with_never_learns(key):
    before = new_curiosity(key, SPEC, CONFIG, "rnd", B)
    after, _ = with_bonus(before, rollout(key), SPEC, CONFIG, kind="rnd", **FASTER)
    same = lambda part: [
        bool(jnp.all(x == y))
        for x, y in zip(jax.tree.leaves(before.params[part]), jax.tree.leaves(after.params[part]), strict=True)
    ]
    assert all(same("random")) and not all(same("predictor"))


@pytest.mark.long_for("icm", "rnd")
@pytest.mark.parametrize("kind", CURIOSITIES)
def test_the_bonus_falls_where_steps_are_known_and_not_elsewhere(key, kind):
    curiosity, known = new_curiosity(key, SPEC, CONFIG, kind, B), rollout(key)
    strange = known._replace(next_observation=-2.0 * known.next_observation[::-1])
    model, learn = (
        predictor(SPEC, CONFIG, kind),
        jax.jit(
            lambda curiosity, key: with_bonus(
                curiosity, rollout(key), SPEC, CONFIG, kind=kind, coefficient=1.0, learning_rate=3e-3
            )[0]
        ),
    )

    @jax.jit
    def errors(curiosity):
        standard = lambda x: curiosity.statistics.normalize(x, LIMIT)
        seen = lambda part: part._replace(
            observation=standard(part.observation), next_observation=standard(part.next_observation)
        )
        return [jnp.mean(model.surprise(curiosity.params, seen(part))[0]) for part in (known, strange)]

    for i in range(300):
        curiosity = learn(curiosity, jax.random.fold_in(key, i))
    ours, other = errors(curiosity)
    assert ours < 0.3 * other


@pytest.mark.long
def test_icm_learns_to_tell_the_action(key):
    curiosity = new_curiosity(key, SPEC, CONFIG, "icm", B)
    learn = jax.jit(
        lambda curiosity, key: with_bonus(
            curiosity, rollout(key), SPEC, CONFIG, kind="icm", coefficient=1.0, learning_rate=3e-3
        )[0]
    )
    surprise, other = jax.jit(predictor(SPEC, CONFIG, "icm").surprise), rollout(jax.random.fold_in(key, 99))
    loss = lambda curiosity: float(jnp.mean(surprise(curiosity.params, other)[1]))
    first = loss(curiosity)
    for i in range(200):
        curiosity = learn(curiosity, jax.random.fold_in(key, i))
    assert first > 0.4 and loss(curiosity) < 0.1  # initially -0.8 log(1/2) = 0.55


@pytest.mark.long
@pytest.mark.parametrize("kind", CURIOSITIES)
def test_steps_that_do_not_count_teach_nothing(key, kind):
    mask = jnp.arange(B) < 2
    given = rollout(key, mask=jnp.broadcast_to(mask, (T, B)))
    other = given._replace(next_observation=jnp.where(mask[:, None], given.next_observation, 9.0))
    before = new_curiosity(key, SPEC, CONFIG, kind, B)
    one, two = (with_bonus(before, part, SPEC, CONFIG, kind=kind, **FASTER)[0] for part in (given, other))
    for x, y in zip(
        jax.tree.leaves((one.params, one.statistics)), jax.tree.leaves((two.params, two.statistics)), strict=True
    ):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("kind", CURIOSITIES)
@pytest.mark.parametrize(
    ("observation", "action"),
    [
        (Box(low=0, high=255, shape=(10, 10, 3), dtype=jnp.uint8), Box(low=-1.0, high=1.0, shape=(2,))),
        (
            Dict(
                spaces={
                    "action_mask": Box(low=0, high=1, shape=(2,), dtype=jnp.bool_),
                    "observation": Box(low=-1.0, high=1.0, shape=(3,)),
                }
            ),
            Discrete(n=2),
        ),
        (
            Dict(spaces={"global_state": Box(low=-1.0, high=1.0, shape=(5,)), "observation": Discrete(n=7)}),
            Discrete(n=2),
        ),
    ],
)
def test_all_observations_and_actions_will_do(key, kind, observation, action):
    spec = EnvironmentSpec(observation, action)
    draw = lambda space, key: jax.jit(jax.vmap(jax.vmap(space.sample)))(jax.random.split(key, (T, B)))
    keys, never = jax.random.split(key, 3), jnp.zeros((T, B), bool)
    states, following = draw(observation, keys[0]), draw(observation, keys[1])
    given = Rollout(states, draw(action, keys[2]), jnp.zeros((T, B)), never, never, following, (), ())
    curiosity = new_curiosity(key, spec, CONFIG, kind, B)
    _, learned = with_bonus(curiosity, given, spec, CONFIG, kind=kind, coefficient=1.0, learning_rate=1e-3)
    assert learned.reward.shape == (T, B) and bool(jnp.all(jnp.isfinite(learned.reward)))
    assert float(jnp.std(learned.reward)) > 0


def test_without_curiosity_an_agent_has_none(key):
    assert jax.eval_shape(ppo(SPEC, PPOConfig()).init, key).curiosity is None
    assert jax.eval_shape(ppo(SPEC, PPOConfig(curiosity="icm")).init, key).curiosity is not None
    with pytest.raises(InputError, match="ppo: curiosity is 'rdn'; allowed: none, rnd, icm"):
        ppo(SPEC, PPOConfig(curiosity="rdn"))


@pytest.mark.slow
def test_ppo_finds_the_treasure_with_curiosity_alone(key):
    """Random play finds it once in 2^15 episodes, and each step toward it has a cost."""
    env = purerl.make("DeepSea", size=15)
    given = {"num_envs": 32, "rollout_length": 30, "total_timesteps": 400_000}

    def final(kind):
        config = PPOConfig(**given, curiosity=kind)
        trainer = purerl.make_trainer("ppo", env, config)
        state, _ = jax.jit(purerl.make_train("ppo", env, config))(key)
        return float(jnp.mean(purerl.evaluate(trainer, state.agent, key).episode_return))

    assert final("none") <= 0.0 and final("icm") > 0.9
