"""TagContinuous in vectorized NumPy, the baseline of the group `multi_agent`."""

import numpy as np

from purerl.envs.tag.continuous import TagContinuous


class NumpyTag:
    """TagContinuous for many environments at once: float32, one array per feature."""

    def __init__(self, env: TagContinuous, num_envs: int, seed: int = 0):
        """Start every environment."""
        self.env, self.rng = env, np.random.default_rng(seed)
        self.n = env.num_taggers + env.num_runners
        self.shape = (num_envs, self.n)
        self.tagger = np.arange(self.n) < env.num_taggers
        self.highest = np.where(self.tagger, env.tagger_skill, env.runner_skill).astype(np.float32) * env.max_speed
        level = lambda most, num: np.append(0, np.linspace(-most, most, num)).astype(np.float32)
        self.changes = level(env.max_acceleration, env.acceleration_levels)
        self.turns = level(env.max_turn, env.turn_levels)
        zeros = lambda: np.zeros(self.shape, np.float32)
        self.x, self.y, self.speed, self.acceleration, self.direction = (zeros() for _ in range(5))
        self.active, self.time = np.ones(self.shape, bool), np.zeros(num_envs, np.int32)
        self.restart(np.ones(num_envs, bool))

    def restart(self, done: np.ndarray) -> None:
        """Reset the environments whose episode ended."""
        if not (k := int(done.sum())):
            return
        self.x[done], self.y[done] = self.rng.random((2, k, self.n), np.float32) * self.env.side
        self.direction[done] = self.rng.integers(0, 4, (k, self.n)) * (np.pi / 2)
        self.speed[done], self.acceleration[done], self.time[done] = 0, 0, 0
        self.active[done] = True

    def step(self) -> tuple[np.ndarray, np.ndarray]:
        """Take random actions; return (observation, reward)."""
        env, going = self.env, self.active
        change = self.changes[self.rng.integers(0, len(self.changes), self.shape)]
        turn = self.turns[self.rng.integers(0, len(self.turns), self.shape)]
        self.direction = np.mod(self.direction + turn, np.float32(2 * np.pi)) * going
        self.acceleration += change
        self.speed = np.clip(self.speed + self.acceleration, 0, self.highest) * going
        self.acceleration[(self.speed <= 0) | (self.speed >= self.highest)] = 0
        x, y = self.x + self.speed * np.cos(self.direction), self.y + self.speed * np.sin(self.direction)
        self.x, self.y = np.clip(x, 0, env.side), np.clip(y, 0, env.side)
        hit = ((x != self.x) | (y != self.y)) & going
        self.time += 1
        observation, t = self.observe(), env.num_taggers
        square = (self.x[:, t:, None] - self.x[:, None, :t]) ** 2 + (self.y[:, t:, None] - self.y[:, None, :t]) ** 2
        near, by = square.min(-1) < (env.tagging_distance * env.side) ** 2, square.argmin(-1)
        tagged = near & going[:, t:]
        reward = np.where(hit, np.float32(env.edge_hit_penalty), np.float32(0))
        reward[:, t:] += np.where(tagged, env.tag_penalty, 0) + env.step_reward * going[:, t:]
        for runner in range(env.num_runners):
            rows = np.flatnonzero(tagged[:, runner])
            reward[rows, by[rows, runner]] += env.tag_reward
        self.active = going.copy()
        self.active[:, t:] &= ~tagged
        self.restart((self.time >= env.time_limit) | ~self.active[:, t:].any(-1))
        return observation, reward

    def observe(self) -> np.ndarray:
        """Return f32[B, N, 7 K + 1]."""
        env, k = self.env, self.env.num_neighbors
        square = (self.x[:, :, None] - self.x[:, None]) ** 2 + (self.y[:, :, None] - self.y[:, None]) ** 2
        square[:, np.arange(self.n), np.arange(self.n)] = np.inf
        square += np.where(self.active, 0, np.inf).astype(np.float32)[:, None]
        some = np.argpartition(square, k, axis=-1)[..., :k]
        order = np.take_along_axis(square, some, -1).argsort(-1, kind="stable")
        others = np.take_along_axis(some, order, -1)
        found = np.isfinite(np.take_along_axis(square, others, -1)) & self.active[..., None]
        rows, scale = np.arange(self.shape[0])[:, None, None], np.float32(np.sqrt(2) * env.side)
        parts = []
        for values, size in (
            (self.x, scale),
            (self.y, scale),
            (self.speed, env.max_speed),
            (self.acceleration, env.max_speed),
            (self.direction, 2 * np.pi),
        ):
            values = values / np.float32(size)
            parts.append((values[rows, others] - values[..., None]) * found)
        parts += [self.tagger[others] * found, found]
        now = (self.time / np.float32(env.time_limit))[:, None, None] * self.active[..., None]
        return np.concatenate([*parts, now], axis=-1, dtype=np.float32)
