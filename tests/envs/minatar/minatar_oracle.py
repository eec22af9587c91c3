"""The package `minatar` as an oracle: its random draws replaced by given ones, its episodes recorded."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.minatar.common import MinAtarState

LANES = 40  # games compared side by side
CHUNK = 500  # steps per call of the compiled comparison


class Draws:
    """Stands in for the package's generators and answers from a queue of uniform numbers."""

    def __init__(self):
        self.queue = deque()

    def rand(self, *shape):
        values = [float(self.queue.popleft()) for _ in range(int(np.prod(shape)))]
        return np.asarray(values).reshape(shape) if shape else values[0]

    def randint(self, low, high=None, size=()):
        low, high = (0, low) if high is None else (low, high)
        count = int(np.prod(size))
        uniform = np.asarray([self.queue.popleft() for _ in range(count)], np.float32)
        values = low + np.floor(uniform * np.float32(high - low)).astype(int)
        return values.reshape(size) if size else values[0]


class Record(NamedTuple):
    """What the oracle did, [T, L] with T steps of L lanes; `starts` has one entry per episode."""

    starts: object  # game states [E, ...]
    restart: np.ndarray  # i32[T, L], the episode that starts before this step, or -1
    first: np.ndarray  # u8[E, bytes], the observations of the starts
    action: np.ndarray  # i32[T, L]
    draws: np.ndarray  # f32[T, L, k]
    observation: np.ndarray  # u8[T, L, bytes], packed
    reward: np.ndarray  # i32[T, L]
    terminated: np.ndarray  # bool[T, L]
    valid: np.ndarray  # bool[T, L], false behind the last episode of a lane


class Game(NamedTuple):
    """How to play one game of the oracle in parallel with ours."""

    name: str  # the oracle's name
    cls: type  # ours
    queue: Callable  # (oracle's game, draws of the step) -> draws in the order in which the oracle asks for them
    read: Callable  # oracle's game -> our state of the game
    scripted: Callable  # (generator, observation) -> action
    disturb: Callable  # (generator, oracle's game) -> None: make it a late start


def uniform(rng, shape):
    """Draw from the same grid of 2^23 numbers as `jax.random.uniform`."""
    return (rng.randint(0, 2**23, shape) / 2**23).astype(np.float32)


def random_policy(rng, observation):
    return rng.randint(6)


POLICIES = pytest.mark.parametrize(
    ("policy", "late"),
    [("random", False), ("scripted", False), ("scripted", True)],
    ids=["random", "scripted", "late"],
)


def settings(lane):
    """Return (sticky_action_probability, ramping) of a lane: most as in the paper."""
    return (0.1, True) if lane % 4 < 2 else (0.0, True) if lane % 4 == 2 else (0.3, False)


def record(game, policy, episodes, max_steps, seed, late=False):
    """Let the oracle play `episodes` episodes, each cut off after `max_steps`.

    Returns:
      `Record`, its T a multiple of CHUNK.
    """
    starts, first, lanes = [], [], []
    for lane in range(LANES):
        rng = np.random.RandomState(seed + lane)
        share = range(lane, episodes, LANES)
        lanes.append(
            [step for _ in share for step in _episode(game, policy, max_steps, rng, lane, late, starts, first)]
        )
    length = -(-max(map(len, lanes)) // CHUNK) * CHUNK
    blank = tuple(np.zeros_like(part) for part in lanes[0][0])
    columns = [[(*step, True) for step in lane] + [(*blank, False)] * (length - len(lane)) for lane in lanes]
    arrays = [np.stack([np.asarray([step[i] for step in lane]) for lane in columns], axis=1) for i in range(7)]
    starts = jax.tree.map(lambda *leaves: np.stack(leaves), *starts)
    restart, action, draws, observation, reward, terminated, valid = arrays
    return Record(
        starts=starts,
        restart=restart,
        first=np.stack(first),
        action=action,
        draws=draws,
        observation=observation,
        reward=reward,
        terminated=terminated,
        valid=valid,
    )


def _episode(game, policy, max_steps, rng, lane, late, starts, first):
    """Play one episode, add its start to `starts` and `first`, and yield its steps."""
    import minatar

    sticky, ramping = settings(lane)
    env = minatar.Environment(game.name, sticky_action_prob=sticky, difficulty_ramping=ramping)
    generator = env.random = env.env.random = Draws()
    draws = uniform(rng, game.cls.num_start_draws)
    generator.queue.extend(game.queue(env.env, draws))
    env.reset()
    assert not generator.queue
    if late:
        game.disturb(rng, env.env)
    episode = len(starts)
    starts.append(game.read(env.env))
    observation = env.state()
    first.append(np.packbits(observation))
    for t in range(max_steps):
        action = policy(rng, observation)
        draws = uniform(rng, 1 + game.cls.num_draws)
        generator.queue.extend([draws[0], *game.queue(env.env, draws[1:])])
        reward, done = env.act(action)
        generator.queue.clear()
        observation = env.state()
        yield episode if t == 0 else -1, action, draws, np.packbits(observation), reward, done
        if done:
            return


def check(game, policy, late=False, episodes=200, max_steps=500):
    """Let both play and compare: see `record` and `compare`; the actions of the minimal set are compared as well.

    Args:
      policy: "random" or "scripted".
      late: start from states of the game's `disturb`.
    """
    import minatar

    policy = game.scripted if policy == "scripted" else random_policy
    assert tuple(minatar.Environment(game.name).minimal_action_set()) == game.cls.minimal_actions
    counts = compare(game, record(game, policy, episodes, max_steps, seed=1, late=late))
    assert counts["episodes"] == episodes
    return counts


def compare(game, recorded):
    """Play a record with our environment and assert that everything is equal at every step.

    Returns:
      dict of how many episodes, steps, rewards and endings were compared.
    """
    lanes = [game.cls(sticky_action_probability=settings(lane)[0], **_ramping(game, lane)) for lane in range(LANES)]
    envs = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *lanes)
    starts = jax.tree.map(jnp.asarray, recorded.starts)
    shown = jax.jit(jax.vmap(lambda game: lanes[0].observe(MinAtarState(game=game, last_action=0, time=0))))(starts)
    np.testing.assert_array_equal(
        np.packbits(np.asarray(shown).reshape(len(recorded.first), -1), axis=1), recorded.first
    )

    state = jax.tree.map(lambda leaf: jnp.zeros((LANES, *leaf.shape[1:]), leaf.dtype), starts)
    carry = (state, jnp.zeros(LANES, jnp.int32))
    steps = (recorded.restart, recorded.action, recorded.draws, recorded.observation, recorded.reward)
    steps = (*steps, recorded.terminated, recorded.valid)
    for begin in range(0, len(recorded.action), CHUNK):
        chunk = tuple(part[begin : begin + CHUNK] for part in steps)
        carry, equal = _replay(envs, starts, carry, chunk)
        for what, values in equal.items():
            wrong = np.argwhere(~np.asarray(values))
            assert len(wrong) == 0, f"{what} differs first at step {begin + wrong[0][0]} of lane {wrong[0][1]}"
    return {
        "episodes": int((recorded.restart[recorded.valid] >= 0).sum()),
        "steps": int(recorded.valid.sum()),
        "reward": int(recorded.reward.sum()),
        "endings": int(recorded.terminated.sum()),
    }


def _ramping(game, lane):
    return {"ramping": settings(lane)[1]} if "ramping" in game.cls.__dataclass_fields__ else {}


@jax.jit
def _replay(envs, starts, carry, chunk):
    from purerl.envs.minatar.common import MinAtarState

    def lane(env, starts, carry, step):
        state, last_action = carry
        restart, action, draws, observation, reward, terminated, valid = step
        fresh = jax.tree.map(lambda leaf: leaf[jnp.maximum(restart, 0)], starts)
        state = jax.tree.map(lambda new, old: jnp.where(restart >= 0, new, old), fresh, state)
        last_action = jnp.where(restart >= 0, 0, last_action)
        new, result = env._advance(MinAtarState(game=state, last_action=last_action, time=jnp.int32(0)), action, draws)
        size = result.observation.size
        equal = {
            "observation": jnp.all(
                jnp.unpackbits(observation, count=size) == result.observation.reshape(-1).astype(jnp.uint8)
            ),
            "reward": result.reward == reward.astype(jnp.float32),
            "ending": result.terminated == terminated,
        }
        return (new.game, new.last_action), {name: value | ~valid for name, value in equal.items()}

    def step(carry, chunk_step):
        return jax.vmap(lane, in_axes=(0, None, 0, 0))(envs, starts, carry, chunk_step)

    return jax.lax.scan(step, carry, chunk)
