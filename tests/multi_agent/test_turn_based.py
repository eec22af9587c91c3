"""Turns against a loop over every agent's own moves."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.multi_agent.turn_based import turns_only
from purerl.types import Rollout

T, B = 23, 40


def played():
    """Return (rollout, turn, following): random turns, rewards and endings; observations are the numbers of steps."""
    rng = np.random.default_rng(0)
    turn = rng.random((T + 1, B)) < np.linspace(0.1, 1, B)
    ending = rng.random((T, B))
    terminated, truncated = ending < 0.1, (ending > 0.9)
    step = np.broadcast_to(np.arange(T, dtype=np.float32)[:, None], (T, B))
    reward = rng.integers(-3, 4, (T, B)).astype(np.float32)
    observation, following = {"step": step}, {"step": step + 0.5}
    rollout = Rollout(
        observation=observation,
        action=step[..., None],
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        next_observation=following,
        extras={"raw_action": step},
        carry=(),
        mask=None,
    )
    return rollout, turn[:-1], turn[1:]


def by_hand(rollout, turn, following, b):
    """Return (step of the turn, step of its outcome, reward, terminated, truncated) of every turn that counts."""
    found = []
    for t in np.flatnonzero(turn[:, b]):
        total = 0.0
        for s in range(t, T):
            total += rollout.reward[s, b]
            if rollout.terminated[s, b] or rollout.truncated[s, b] or following[s, b]:
                found.append((t, s, total, rollout.terminated[s, b], rollout.truncated[s, b]))
                break
    return found


def test_turns_are_those_of_a_loop():
    rollout, turn, following = played()
    own = turns_only(rollout, jnp.asarray(turn), jnp.asarray(following))
    cut = 0
    for b in range(B):
        expected = by_hand(rollout, turn, following, b)
        n = len(expected)
        assert np.asarray(own.mask[:, b]).tolist() == [True] * n + [False] * (T - n)
        for k, (t, s, total, terminated, truncated) in enumerate(expected):
            assert (
                float(own.observation["step"][k, b])
                == t
                == float(own.action[k, b, 0])
                == own.extras["raw_action"][k, b]
            )
            assert float(own.next_observation["step"][k, b]) == s + 0.5 and float(own.reward[k, b]) == total
            assert bool(own.terminated[k, b]) == terminated
            last = k == n - 1 and n < T and not terminated and not truncated
            assert bool(own.truncated[k, b]) == (truncated or last), "the last is bootstrapped: nothing follows it"
            cut += last
        assert not np.asarray(own.done[n:, b]).any()
    assert cut > 5 and np.asarray(own.mask).sum() < turn.sum(), "outcomes beyond the rollout occur"


def test_always_ones_turn_changes_nothing():
    rollout, _, _ = played()
    always = jnp.ones((T, B), jnp.bool_)
    own = turns_only(rollout, always, always)
    assert np.asarray(own.mask).all()
    jax.tree.map(np.testing.assert_array_equal, own._replace(mask=None), rollout)
