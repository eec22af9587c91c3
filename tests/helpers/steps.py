"""Rollouts whose observations are all different, and a plain list of the transitions that a replay should hold."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.spaces import Box, Dict, Discrete
from purerl.types import EnvironmentSpec, Rollout

PIXELS = Dict(
    spaces={"frame": Box(low=0, high=255, shape=(2,), dtype=jnp.uint8), "seen": Box(low=0, high=1, dtype=bool)}
)
SPEC = EnvironmentSpec(PIXELS, Discrete(n=3))
DISCOUNT = 0.9
LENGTH, NUM_ENVS, CAPACITY = 3, 2, 14


class Slow:
    """A list of transitions per environment; the oldest give way when their rows are needed."""

    def __init__(self, num_envs, rows):
        self.steps = [[] for _ in range(num_envs)]
        self.rows = rows
        self.head_used = [False] * num_envs  # whether the newest step's successor lies where the next step will go

    def add(self, rollout):
        for env, steps in enumerate(self.steps):
            for t in np.flatnonzero(np.ones(len(rollout.reward)) if rollout.mask is None else rollout.mask[:, env]):
                self.head_used[env] = bool(t == len(rollout.reward) - 1 and not rollout.truncated[t, env])
                at = lambda tree: jax.tree.map(lambda x: np.asarray(x)[t, env], tree)  # noqa: B023
                steps.append(
                    {
                        "observation": at(rollout.observation),
                        "action": at(rollout.action),
                        "reward": float(rollout.reward[t, env]),
                        "next": at(rollout.next_observation),
                        "terminated": bool(rollout.terminated[t, env]),
                        "truncated": bool(rollout.truncated[t, env]),
                    }
                )

    def kept(self, env):
        """The newest steps that fit: one row each; the last step and truncated steps need a second row."""
        room, kept = self.rows - self.head_used[env], []
        for index, step in enumerate(reversed(self.steps[env])):
            room -= 1 + step["truncated"]
            # A final observation's row may outlive its step, never the other way round.
            if room < 0:
                break
            kept.insert(0, len(self.steps[env]) - 1 - index)
        return kept

    def transitions(self, n_step):
        """All that can be drawn: {(frame, env): (action, reward, discount, next frame, frames between)}."""
        found = {}
        for env, steps in enumerate(self.steps):
            for start in self.kept(env):
                total, factor, at, between = 0.0, 1.0, start, []
                while True:
                    total += factor * steps[at]["reward"]
                    factor *= DISCOUNT
                    done = steps[at]["terminated"] or steps[at]["truncated"]
                    if done or at - start == n_step - 1:
                        break
                    at += 1
                    if at == len(steps):
                        break
                    between.append((round(factor, 4), *steps[at]["observation"]["frame"].tolist()))
                if at == len(steps):
                    continue
                discount = 0.0 if steps[at]["terminated"] else factor
                key = (*steps[start]["observation"]["frame"].tolist(), env)
                after = None if steps[at]["terminated"] else tuple(steps[at]["next"]["frame"].tolist())
                found[key] = (int(steps[start]["action"]), round(total, 4), round(discount, 4), after, tuple(between))
        return found


def make_rollout(ends, start):
    """A rollout whose observations are all different; `ends` i32[T, B]: 0 going, 1 terminated, 2 truncated."""
    length, num_envs = ends.shape
    frame = lambda number: np.stack([number % 256, number // 256], axis=-1).astype(np.uint8)
    number = start + np.arange(length * num_envs).reshape(length, num_envs)
    fresh = number + 30_000
    later = np.concatenate([number[1:], number[-1:] + num_envs])
    after = np.where(ends == 0, later, fresh)
    return Rollout(
        observation={"frame": jnp.asarray(frame(number)), "seen": jnp.asarray(number % 2 == 0)},
        action=jnp.asarray(number % 3, jnp.int32),
        reward=jnp.asarray(number % 7, jnp.float32),
        terminated=jnp.asarray(ends == 1),
        truncated=jnp.asarray(ends == 2),
        next_observation={"frame": jnp.asarray(frame(after)), "seen": jnp.asarray(after % 2 == 0)},
        carry=(),
        extras=(),
    )
