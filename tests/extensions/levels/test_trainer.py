"""Training on levels: what is played, scored and learned from, against the parts by hand."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl import registry
from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.ppo import PPOConfig, ppo
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.grid.maze import Maze
from purerl.errors import InputError
from purerl.extensions.levels import buffer as buffers
from purerl.extensions.levels import scores
from purerl.extensions.levels.options import LevelOptions
from purerl.extensions.levels.space import LevelSpace
from purerl.extensions.levels.trainer import MUTATED, NEW, REPLAYED, LevelAgent, LevelTrainer
from purerl.types import Algorithm, Config, Values, pytree
from purerl.wrappers import DomainRandomization

STEPS = {"num_envs": 4, "rollout_length": 16, "total_timesteps": 64 * 24}
SMALL = {**STEPS, "hidden_sizes": (8,), "num_minibatches": 2, "num_epochs": 1}
FEW = {"levels_capacity": 12, "levels_replay_probability": 0.6}


def make(factory, env, config, **options):
    """Return the trainer of an algorithm on levels."""
    return purerl.make_trainer(factory, env, config, {"levels": LevelOptions(**options)})


def trainer_of(levels, **fields):
    return make(ppo, Maze(time_limit=10), PPOConfig(**SMALL), levels=levels, **{**FEW, **fields})


def still(spec, config):
    """An algorithm that acts at random and counts its updates: its program compiles in a second."""
    values = lambda agent, rollout: Values(
        value=rollout.reward, next_value=rollout.reward, reward=rollout.reward, scale=lambda x: x
    )
    return Algorithm(
        init=lambda key: jnp.int32(0),
        initial_carry=lambda num_envs: (),
        act=lambda agent, carry, key, *_: (jax.vmap(spec.action_space.sample)(jax.random.split(key, 4)), carry, {}),
        update=lambda agent, key, rollout: (agent + 1, {}),
        values=values,
    )


def still_on(levels, env=None, **fields):
    """Return a trainer of `still`."""
    return make(still, env or Maze(time_limit=10), Config(**STEPS), levels=levels, **{**FEW, **fields})


def equal(one, other):
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(*map(_words, pair)) for pair in leaves)


def _words(x):
    return np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)


def run_of(trainer, key, count=24):
    """Return the states before and after each update, and the metrics."""
    step, states, metrics = jax.jit(trainer.step), [jax.jit(trainer.init)(key)], []
    for _ in range(count):
        state, update = step(states[-1])
        states.append(state)
        metrics.append(update.flat())
    return states, metrics


@pytest.fixture(scope="module")
def accel():
    trainer = still_on("accel")
    return trainer, *run_of(trainer, jax.random.key(3))


@pytest.mark.long
def test_levels_are_new_until_enough_are_kept_then_replayed_and_changed(accel):
    """The order of ACCEL: after each replay come changed copies of what was replayed."""
    trainer, states, _ = accel
    kinds = [int(state.agent.kind) for state in states[1:]]
    assert kinds[:2] == [NEW, NEW], "half of 12 places are filled by two updates of 4 levels"
    assert {NEW, REPLAYED, MUTATED} == set(kinds)
    for before, kind, (old, new) in zip(kinds, kinds[1:], itertools.pairwise(states[1:]), strict=False):
        assert (kind == MUTATED) == (before == REPLAYED)
        places = [buffers._equal(old.agent.buffer.level, one) for one in _each(new.agent.playing)]
        known = [bool(jnp.any(place & buffers.is_filled(old.agent.buffer))) for place in places]
        if kind == REPLAYED:
            assert all(known) and len({int(jnp.argmax(place)) for place in places}) == 4
            continue
        assert not any(known), "with so few levels none comes twice"
        if kind == MUTATED:
            flips = np.asarray(old.agent.playing["walls"] != new.agent.playing["walls"]).sum(axis=(1, 2))
            assert np.all(flips <= trainer.options.levels_mutations) and flips.sum() > 4
            np.testing.assert_array_equal(old.agent.playing["start"], new.agent.playing["start"])


def _each(levels):
    return [jax.tree.map(lambda x, i=i: x[i], levels) for i in range(len(jax.tree.leaves(levels)[0]))]


@pytest.mark.long
def test_only_replays_are_learned_from(accel):
    _, states, metrics = accel
    for old, new, update in zip(states, states[1:], metrics, strict=False):
        replayed = int(new.agent.kind) == REPLAYED
        assert int(new.agent.learner) == int(old.agent.learner) + replayed
        assert float(update["learning"]) == float(update["levels/replayed"]) == replayed


def test_the_end_of_a_rollout_is_the_end_of_its_episodes(key):
    """Two steps of poles that do not fall."""
    config = Config(num_envs=4, rollout_length=2)
    trainer = make(still, CartPole(), config, levels="plr", levels_over=("gravity=5:15",), **FEW)
    rollout = first_rollout(trainer, key)[2]
    assert not rollout.terminated.any() and not rollout.truncated[0].any() and rollout.truncated[1].all()


def test_changed_copies_follow_a_replay(key):
    trainer = still_on("accel", levels_replay_probability=1.0)
    space = LevelSpace(draw=lambda key: {"x": jnp.float32(0)}, mutate=lambda key, level: {"x": -level["x"]})
    trainer = dataclasses.replace(trainer, space=space)
    levels = {"x": jnp.arange(1.0, 13.0)}
    full = buffers.empty({"x": jnp.float32(0)}, 12)._replace(level=levels, filled=jnp.int32(12))

    @jax.jit
    def chosen(kind, filled):
        playing = jax.tree.map(lambda x: x[:4], levels)
        agent = LevelAgent(learner=(), buffer=full._replace(filled=filled), playing=playing, kind=kind)
        return trainer._choose(key, agent, jnp.int32(1)).kind

    kinds = [int(chosen(kind, filled)) for kind, filled in ((NEW, 0), (NEW, 12), (REPLAYED, 12), (MUTATED, 12))]
    assert kinds == [NEW, REPLAYED, MUTATED, REPLAYED]


@pytest.mark.long
def test_plr_learns_from_everything(key):
    states, metrics = run_of(still_on("plr"), key, 6)
    for old, new in itertools.pairwise(states):
        assert int(new.agent.learner) == int(old.agent.learner) + 1
        assert int(new.agent.kind) in (NEW, REPLAYED)
    assert "learning" not in metrics[0]


@pytest.mark.long
def test_robust_plr_changes_no_level(key):
    kinds = [int(state.agent.kind) for state in run_of(still_on("robust-plr"), key)[0]]
    assert set(kinds) == {NEW, REPLAYED}


@pytest.mark.long
@pytest.mark.parametrize(("score", "rnn"), [("max_monte_carlo", "none"), ("positive_value_loss", "gru")])
def test_scores_by_hand(rnn, score, key):
    """The first update's levels, played again step by step, with values and advantages in NumPy."""
    config = PPOConfig(**SMALL, rnn=rnn, rnn_size=4)
    trainer = make(ppo, Maze(time_limit=10), config, levels="plr", levels_score=score, **FEW)
    state, new, rollout = first_rollout(trainer, key)
    done = np.asarray(rollout.terminated | rollout.truncated)
    assert done[9].all() and done[-1].all() and not done[:9].all(), "a limit of 10 steps, and the end of the rollout"
    reward = np.asarray(rollout.reward)
    value, after = map(np.asarray, jax.jit(lambda *given: trainer.values(*given)[:2])(state.agent.learner, rollout))
    expected = np.zeros(4)
    for b in range(4):
        if score == "max_monte_carlo":
            returns, total = [], 0.0
            for t in range(16):
                total += reward[t, b]
                if done[t, b]:
                    returns.append(total)
                    total = 0.0
            expected[b] = max(returns) - value[:, b].mean()
            continue
        advantage, total = 0.0, 0.0
        for t in reversed(range(16)):
            alive = 1.0 - np.float32(rollout.terminated[t, b])
            delta = reward[t, b] + 0.99 * alive * after[t, b] - value[t, b]
            advantage = delta + 0.99 * 0.95 * (1.0 - done[t, b]) * advantage
            total += max(advantage, 0.0)
        expected[b] = total / 16
    np.testing.assert_allclose(new.agent.buffer.score[:4], expected, rtol=1e-4, atol=1e-6)
    assert int(new.agent.buffer.filled) == 4
    np.testing.assert_array_equal(new.agent.buffer.level["walls"][:4], new.agent.playing["walls"])


def first_rollout(trainer, key, known=lambda learner: learner):
    """Return (the first state, the state after an update that only keeps its rollout, the rollout)."""
    keeping = trainer.plain._replace(update=lambda agent, key, rollout: (rollout, {}))
    state = jax.jit(trainer.init)(key)
    state = state._replace(agent=state.agent._replace(learner=known(state.agent.learner)))
    new, _ = jax.jit(dataclasses.replace(trainer, plain=keeping).step)(state)
    return state, new, new.agent.learner


@pytest.mark.long
def test_values_are_the_critics(key):
    """For a feedforward network: V(s) of each observation, and of the final observation if an episode ended."""
    trainer = trainer_of("plr")
    state, _, rollout = first_rollout(trainer, key)
    value, after = jax.jit(lambda *given: trainer.values(*given)[:2])(state.agent.learner, rollout)
    same = np.asarray(~rollout.done[:-1])
    np.testing.assert_allclose(after[:-1][same], value[1:][same], rtol=1e-5)
    assert not np.allclose(after[:-1][~same], value[1:][~same])


@pytest.mark.long
def test_each_environment_plays_its_own_level_from_its_start(key):
    trainer = still_on("plr")
    state = jax.jit(trainer.init)(key)
    starts = np.asarray(state.agent.playing["start"])
    np.testing.assert_array_equal(state.vector.env_state.row, starts[:, 0])
    assert len({tuple(x) for x in starts}) > 1
    levels = _each(state.agent.playing)
    for b, level in enumerate(levels):
        first = Maze(**level).reset(key)[1]["view"]
        np.testing.assert_array_equal(state.observation["view"][b], first)


@pytest.mark.long
def test_seeds_side_by_side_are_the_seeds_alone():
    options = {"levels": LevelOptions(levels="accel", **FEW)}
    train = purerl.make_train(still, Maze(time_limit=10), Config(**STEPS), extensions=options)
    keys = jax.vmap(jax.random.key)(jnp.arange(2))
    together, alone = jax.jit(jax.vmap(train)), jax.jit(train)
    states, _ = together(keys)
    for i in range(2):
        state, _ = alone(keys[i])
        mine = jax.tree.map(lambda x, i=i: x[i], states)
        assert int(state.agent.kind) == int(mine.agent.kind)
        np.testing.assert_array_equal(state.agent.buffer.level["walls"], mine.agent.buffer.level["walls"])
        np.testing.assert_allclose(state.agent.buffer.score, mine.agent.buffer.score, rtol=2e-3, atol=1e-4)
    assert equal(states, together(keys)[0]), "the same keys give the same bits"


@pytest.mark.long
def test_numbers_are_data(key):
    """One program for many temperatures and replay probabilities."""

    def replays(probability, temperature):
        options = LevelOptions(levels="robust-plr", **FEW)
        options = dataclasses.replace(options, levels_replay_probability=probability, levels_temperature=temperature)
        train = purerl.make_train(still, Maze(time_limit=10), Config(**STEPS), extensions={"levels": options})
        return train(key)[1].algorithm["levels/replayed"].mean()

    found = jax.jit(jax.vmap(replays))(jnp.array([0.0, 0.5, 1.0]), jnp.array([0.1, 0.3, 1.0]))
    assert found[0] == 0 and 0.2 < found[1] < 0.8 and found[2] > 0.85


@pytest.mark.long
def test_domain_randomization_is_the_wrapper(key):
    """A new level in each episode, and the loop's own trainer."""
    trainer = still_on("dr", Maze(time_limit=3))
    assert not isinstance(trainer, LevelTrainer) and isinstance(trainer.vector.env, DomainRandomization)
    states, _ = run_of(trainer, key, 2)
    first, last = (states[i].vector.env_state.outer["walls"] for i in (0, 2))
    assert np.any(np.asarray(first) != np.asarray(last), axis=(1, 2)).all()


@pytest.mark.long
@pytest.mark.parametrize("levels", ["dr", "accel"])
def test_levels_of_number_fields(levels, key):
    """CartPole's gravity and pole: every level is within the ranges."""
    over = ("gravity=5:15", "pole_half_length=0.1:1:log")
    states, _ = run_of(still_on(levels, CartPole(), levels_over=over), key, 12)
    drawn = [s.vector.env_state.outer if levels == "dr" else s.agent.playing for s in states]
    gravity = np.concatenate([np.asarray(level["gravity"]) for level in drawn])
    assert gravity.min() >= 5 and gravity.max() <= 15 and len(np.unique(gravity)) > 12


@pytest.mark.long
def test_evaluation_is_on_held_out_levels(key):
    trainer = still_on("accel")
    states = jax.jit(jax.vmap(trainer.environment.reset))(jax.random.split(key, 300))[0]
    held = {level["walls"].tobytes() for level in Maze().held_out_levels().values()}
    assert {np.asarray(x).tobytes() for x in states.outer["walls"]} == held
    played = jax.jit(lambda key: trainer.evaluate(trainer.init(key).agent, key, 4))(key)
    assert played.episode_length.max() <= 10


@pytest.mark.long
@pytest.mark.parametrize("name", ["a2c", "impala", "ppo", "ppo-penalty", "reinforce", "vmpo", "mappo"])
@pytest.mark.parametrize("score", ["max_monte_carlo", "positive_value_loss"])
def test_every_actor_critic_is_scored(name, score, key):
    """Both scores are traced, the state keeps its shapes; with statistics of rewards and observations, too."""
    factory, cls = registry.algorithm(name)
    sizes = {"num_envs": 4, "rollout_length": 16, "normalize_observation": True, "normalize_reward": True}
    trainer = make(factory, Maze(), cls(**sizes), levels="robust-plr", levels_score=score, levels_capacity=8)
    state = jax.eval_shape(trainer.init, key)
    after, metrics = jax.eval_shape(trainer.step, state)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), after) == jax.tree.map(lambda x: (x.shape, x.dtype), state)
    assert {"levels/score", "levels/filled", "levels/replayed", "learning"} <= set(metrics.algorithm)


@pytest.mark.long
def test_bad_combinations(key):
    for call, message in (
        (lambda: _make(dqn, DQNConfig, "plr"), "needs the values of an actor-critic, which dqn does not have"),
        (lambda: make(ppo, Maze(), PPOConfig(reset_policy="pool"), levels="plr"), "a reset policy other than pool"),
        (
            lambda: _make(ppo, PPOConfig, "accel", levels_capacity=3),
            "levels_capacity is 3; it must be at least num_envs",
        ),
        (lambda: _make(ppo, PPOConfig, "pl"), "levels is 'pl'; allowed: none, dr, plr, robust-plr, accel"),
        (lambda: _make(a2c, A2CConfig, "plr", env=CartPole()), "give levels_over, such as gravity=LOW:HIGH"),
    ):
        with pytest.raises(InputError) as error:
            call()
        assert message in str(error.value) and "\n" not in str(error.value)
    _make(dqn, DQNConfig, "dr")
    _make(a2c, A2CConfig, "plr")


def _make(factory, config, levels, env=None, **fields):
    return make(factory, env or Maze(), config(), levels=levels, **fields)


@pytree
class Costly(Maze):
    """Each step costs one."""

    def step(self, key, state, action):
        state, taken = Maze.step(self, key, state, action)
        return state, taken._replace(reward=taken.reward - 1.0)


@pytest.mark.long
@pytest.mark.parametrize("normalize_reward", [False, True])
def test_an_episode_that_is_cut_off_is_no_best_one(normalize_reward, key):
    """Nor is a return clipped as a single reward is."""
    config = PPOConfig(**(SMALL | {"rollout_length": 8, "normalize_reward": normalize_reward}))
    trainer = make(ppo, Costly(time_limit=5), config, levels="plr", levels_score="max_monte_carlo", **FEW)

    def known(learner):
        """Return a learner that has seen rewards."""
        seen = jnp.arange(32.0).reshape(8, 4)
        scale = learner.return_scale.update(seen, seen < 0, 0.99, None) if normalize_reward else None
        return learner._replace(return_scale=scale)

    state, new, rollout = first_rollout(trainer, key, known)
    over = np.array(rollout.done)
    over[-1] = rollout.terminated[-1]
    best = scores.best_returns(rollout.reward, jnp.asarray(over))
    assert over[4].any() and float(best.min()) <= -4
    np.testing.assert_array_equal(new.agent.buffer.best_return[:4], best)

    def of_critic(agent):
        values = trainer.values(agent, rollout)
        return values.value, values.scale(best), values.scale(jnp.array([1.0, 2000.0]))

    value, scaled, far = jax.jit(of_critic)(state.agent.learner)
    np.testing.assert_allclose(new.agent.buffer.score[:4], scaled - value.mean(axis=0), rtol=1e-4, atol=1e-6)
    assert np.array_equal(scaled, best) is not normalize_reward
    assert float(far[1] / far[0]) == pytest.approx(2000.0)
