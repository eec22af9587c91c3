"""Complete episodes of other suites' environments and of their adapters: the same keys and actions, the same numbers.

Few ids of each suite run in the tests of its adapter; here all that compile in minutes do.
"""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.agent_groups import draw
from purerl.envs.adapters.common import standard_promotion
from tests.helpers import suites

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

GYMNAX = [
    *("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"),
    *("Asterix-MinAtar", "Breakout-MinAtar", "Freeway-MinAtar", "Seaquest-MinAtar", "SpaceInvaders-MinAtar"),
    *("Catch-bsuite", "DeepSea-bsuite", "MemoryChain-bsuite", "UmbrellaChain-bsuite", "DiscountingChain-bsuite"),
    *("SimpleBandit-bsuite", "FourRooms-misc", "MetaMaze-misc", "PointRobot-misc", "BernoulliBandit-misc"),
    *("GaussianBandit-misc", "Reacher-misc", "Swimmer-misc", "Pong-misc", "FrozenLake-misc"),
]


@pytest.mark.parametrize("name", GYMNAX)
def test_gymnax(name, side_by_side):
    limit = {} if "DeepSea" in name else {"time_limit": 30}
    env = purerl.make(f"gymnax/{name}", **limit)
    oracle = suites.gymnax(name, limit.get("time_limit"))
    side_by_side(env, *oracle, steps=40, num_envs=4, our_key=suites.first_half)


BRAX = [
    ("fast", {}),
    *[("inverted_pendulum", {"backend": backend}) for backend in ("generalized", "positional", "spring")],
    *[("inverted_double_pendulum", {"backend": "spring"}), ("reacher", {"backend": "generalized"})],
    *[("hopper", {"backend": "positional"}), ("halfcheetah", {"backend": "spring"}), ("ant", {"backend": "spring"})],
]


@pytest.mark.parametrize(("name", "options"), BRAX)
def test_brax(name, options, side_by_side):
    env = purerl.make(f"brax/{name}", time_limit=12, **options)
    side_by_side(env, *suites.brax(name, 12, **options), steps=14, num_envs=2)


def on_a_board(*shape):
    """Return our one number as the coordinates of a cell, which jumanji expects."""
    return lambda action: jnp.stack(jnp.unravel_index(action, shape))


JUMANJI = {  # name: (time limit where there is one, conversion of actions)
    **dict.fromkeys(("Game2048-v1", "Knapsack-v1", "TSP-v1", "CVRP-v1", "GraphColoring-v1"), (None, lambda x: x)),
    **dict.fromkeys(("Snake-v1", "Maze-v0", "SlidingTilePuzzle-v0", "PacMan-v1", "Cleaner-v0"), (25, lambda x: x)),
    **dict.fromkeys(("Connector-v3", "LevelBasedForaging-v0", "RobotWarehouse-v0"), (25, lambda x: x)),
    "RubiksCube-partly-scrambled-v0": (25, lambda x: x),
    "JobShop-v0": (None, lambda x: x),
    "Minesweeper-v0": (None, on_a_board(10, 10)),
    "Sudoku-very-easy-v0": (None, on_a_board(9, 9, 9)),
    "Tetris-v0": (25, on_a_board(4, 10)),
}


@pytest.mark.parametrize("name", JUMANJI)
def test_jumanji(name, side_by_side):
    pytest.importorskip("jumanji", reason="pip install 'purerl[jumanji]'")
    limit, convert = JUMANJI[name]
    env = purerl.make(f"jumanji/{name}", **({} if limit is None else {"time_limit": limit}))
    side_by_side(env, *suites.jumanji(name, limit, convert), steps=30, num_envs=2, told=False)


@pytest.mark.parametrize(
    "name",
    [
        *("Empty-5x5", "Empty-Random-6x6", "DoorKey-5x5", "DoorKey-Random-6x6", "FourRooms", "KeyCorridorS3R1"),
        *("LavaGapS5", "SimpleCrossingS9N1", "DistShift1", "GoToDoor-5x5", "Dynamic-Obstacles-5x5"),
    ],
)
def test_navix(name, side_by_side):
    pytest.importorskip("navix", reason="pip install 'purerl[navix]'")
    side_by_side(
        purerl.make(f"navix/Navix-{name}-v0", time_limit=25),
        *suites.navix(f"Navix-{name}-v0", 25),
        num_envs=4,
        steps=27,
    )


@pytest.mark.parametrize(
    "name",
    [
        *(
            "MiniGrid-Empty-5x5",
            "MiniGrid-FourRooms",
            "MiniGrid-LockedRoom",
            "MiniGrid-MemoryS8",
            "MiniGrid-Playground",
        ),
        *("MiniGrid-Unlock", "XLand-MiniGrid-R2-9x9", "XLand-MiniGrid-R9-16x16"),
    ],
)
def test_xminigrid(name, side_by_side):
    pytest.importorskip("xminigrid", reason="pip install 'purerl[xminigrid]'")
    env = purerl.make(f"xminigrid/{name}", time_limit=25)
    side_by_side(env, *suites.xminigrid(name, 25), num_envs=4, steps=27)


@pytest.mark.parametrize("name", ["2048", *[f"minatar-{game}" for game in ("asterix", "breakout", "freeway")]])
def test_pgx_alone(name, side_by_side):
    pytest.importorskip("pgx", reason="pip install 'purerl[pgx]'")
    env = purerl.make(f"pgx/{name}", time_limit=30)
    side_by_side(env, *suites.pgx_alone(name, 30), num_envs=4, steps=32)


class InTurns:
    """A game of pgx in turns that shows what pgx shows: the observation of the player whose turn it is."""

    def __init__(self, name):
        self.env = purerl.make(f"pgx/{name}", opponent="self")
        self.action_space = self.env.action_space

    def shown(self, observation):
        seats = sorted(self.action_space.spaces)
        turn = jnp.concatenate([observation["turn"][seat] for seat in seats])
        mover = jnp.argmax(turn).astype(jnp.int32)
        parts = [observation[seat] for seat in seats]
        seen = jax.tree.map(lambda *xs: jnp.concatenate(xs)[mover], *parts)
        return seen | {"turn": mover}


@pytest.mark.parametrize(
    "name",
    [
        *("tic_tac_toe", "connect_four", "kuhn_poker", "leduc_holdem", "othello", "hex", "go_9x9", "backgammon"),
        *("animal_shogi", "gardner_chess"),
    ],
)
def test_pgx_in_turns(name):
    pytest.importorskip("pgx", reason="pip install 'purerl[pgx]'")
    game, (reset, step) = InTurns(name), suites.pgx_in_turns(name)

    def play(key):
        state, seen = game.env.reset(key)
        with standard_promotion():
            theirs, first = reset(key)

        def one(carry, key):
            state, seen, theirs = carry
            action = draw(game.action_space, jax.random.fold_in(key, 1), seen)
            state, ours = game.env.step(key, state, action)
            with standard_promotion():
                theirs, suite = step(key, theirs, action)
            rewards = jnp.concatenate([ours.reward[seat] for seat in sorted(ours.reward)])
            mine = (game.shown(ours.observation), rewards, ours.terminated, ours.truncated)
            return (state, ours.observation, theirs), (mine, suite)

        out = jax.lax.scan(one, (state, seen, theirs), jax.random.split(key, 40))[1]
        return (game.shown(seen), first), out

    firsts, (ours, suite) = jax.tree.map(np.asarray, jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), 4)))
    jax.tree.map(np.testing.assert_array_equal, *firsts)
    over = suite[2] | suite[3]
    running = np.cumsum(over, axis=1) - over == 0
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(suite), strict=True):
        np.testing.assert_allclose(x[running], y[running], rtol=1e-6)


def test_craftax(side_by_side):
    pytest.importorskip("craftax", reason="pip install 'purerl[craftax]'")
    name = "Craftax-Classic-Symbolic-v1"
    side_by_side(
        purerl.make(f"craftax/{name}", time_limit=9), *suites.craftax(name, 9), num_envs=2, steps=10, told=False
    )


@pytest.mark.parametrize("name", ["CartpoleBalance", "PendulumSwingup", "ReacherEasy"])
def test_playground(name, side_by_side):
    pytest.importorskip("mujoco_playground", reason="pip install 'purerl[playground]'")
    side_by_side(purerl.make(f"playground/{name}", time_limit=10), *suites.playground(name, 10), num_envs=2, steps=12)


def compare_hosts(source, oracle, steps, num_envs=2):
    """Step both with the same actions, drawn for each of `num_envs`.

    oracle: (reset() -> observation, step(action) -> (observation, reward, terminated, truncated)) of all of them, which
    begins an episode with the step after an ending, as `step.mask` says ours does.
    """
    env, (reset, step) = source.open(num_envs, seed=5, parallel=False, evaluation=True), oracle
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(np.asarray(env.reset(None)), reset())
    endings, space = 0, source.action_space
    for t in range(steps):
        if hasattr(space, "n"):
            action = rng.integers(0, space.n, num_envs).astype(np.int32)
        else:
            action = rng.uniform(np.maximum(space.low, -2), np.minimum(space.high, 2), (num_envs, *space.shape))
            action = action.astype(np.float32)
        ours = env.step(action, None, t)
        observation, reward, terminated, truncated = step(action)
        np.testing.assert_array_equal(np.asarray(ours.observation), observation)
        np.testing.assert_array_equal(ours.score[ours.mask], np.asarray(reward, np.float32)[ours.mask])
        np.testing.assert_array_equal(ours.over, np.asarray(terminated) | truncated)
        np.testing.assert_array_equal(ours.terminated, terminated)
        endings += ours.over.sum()
    env.close()
    return endings


GYMNASIUM = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]
GYMNASIUM += ["FrozenLake-v1", "CliffWalking-v1"]


@pytest.mark.parametrize("name", GYMNASIUM)
def test_gymnasium(name):
    made = [gymnasium.make(name, max_episode_steps=25) for _ in range(2)]
    over = [False, False]

    def reset():
        return np.stack([env.reset(seed=5 + i)[0] for i, env in enumerate(made)])

    def one(i, action):
        if over[i]:
            over[i] = False
            return made[i].reset()[0], 0.0, False, False
        observation, reward, terminated, truncated, _ = made[i].step(action)
        over[i] = terminated or truncated
        return observation, reward, terminated, truncated

    def step(action):
        return [np.stack(part) for part in zip(*[one(i, a) for i, a in enumerate(action)], strict=True)]

    source = purerl.make(f"gymnasium/{name}", max_episode_steps=25)
    assert compare_hosts(source, (reset, step), steps=60) >= 4


ENVPOOL = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "FrozenLake-v1", "Catch-v0", "Taxi-v3"]


@pytest.mark.parametrize("name", ENVPOOL)
def test_envpool(name):
    envpool = pytest.importorskip("envpool", reason="pip install 'purerl[envpool]'")
    env = envpool.make_gymnasium(name, num_envs=2, seed=5, max_episode_steps=25)
    oracle = (lambda: env.reset()[0], lambda action: env.step(action)[:4])
    source = purerl.make(f"envpool/{name}", max_episode_steps=25)
    assert compare_hosts(source, oracle, steps=60) >= 4


@pytest.mark.parametrize("name", ["Pong", "Breakout", "Boxing"])
def test_envpools_atari(name):
    envpool = pytest.importorskip("envpool", reason="pip install 'purerl[envpool]'")
    settings = {"repeat_action_probability": 0.25, "full_action_space": True, "frame_skip": 5, "noop_max": 1}
    env = envpool.make_gymnasium(f"{name}-v5", num_envs=2, seed=5, use_fire_reset=False, reward_clip=False, **settings)
    compare_newest(purerl.make(f"envpool/{name}-v5"), lambda: env.reset()[0], lambda action: env.step(action)[:4])


@pytest.mark.parametrize("name", ["pong", "breakout", "boxing"])
def test_ale(name):
    vector_env = pytest.importorskip("ale_py.vector_env", reason="pip install 'purerl[atari]'")
    settings = {"repeat_action_probability": 0.25, "full_action_space": True, "frameskip": 5, "noop_max": 0}
    env = vector_env.AtariVectorEnv(name, 2, use_fire_reset=False, reward_clipping=False, num_threads=1, **settings)
    compare_newest(
        purerl.make(f"ale/{name.capitalize()}-v5"), lambda: env.reset(seed=5)[0], lambda action: env.step(action)[:4]
    )


def compare_newest(source, reset, step):
    """Compare only the last frame of an observation: an adapter fills those before the episode in its own way."""
    env, rng = source.open(2, seed=5, parallel=False, evaluation=True), np.random.default_rng(0)
    np.testing.assert_array_equal(np.asarray(env.reset(None))[:, -1], reset()[:, -1])
    score = 0.0
    for t in range(300):
        action = rng.integers(0, source.action_space.n, 2).astype(np.int32)
        ours = env.step(action, None, t)
        observation, reward, terminated, truncated = step(action)
        np.testing.assert_array_equal(np.asarray(ours.observation)[:, -1], observation[:, -1])
        np.testing.assert_array_equal(ours.score[ours.mask], np.asarray(reward, np.float32)[ours.mask])
        np.testing.assert_array_equal(ours.over, np.asarray(terminated) | truncated)
        score += np.abs(ours.score).sum()
    env.close()
    assert score > 0
