"""Both games of tag again, agent by agent, in NumPy and float64, from their description alone."""

import itertools
import math

import numpy as np


class SlowGrid:
    """Tag on a grid."""

    def __init__(self, env):
        """Take the parameters of an environment."""
        self.env, self.n = env, env.num_taggers

    def step(self, x, y, time, actions):
        """Return (x, y, rewards, terminated, truncated) for lists of cells and actions; the runner is the last."""
        env, x, y, rewards = self.env, list(x), list(y), []
        for i in range(self.n + 1):
            dx, dy = {0: (0, 0), 1: (1, 0), 2: (-1, 0), 3: (0, 1), 4: (0, -1)}[int(actions[i])]
            hit = not (0 <= x[i] + dx <= env.size and 0 <= y[i] + dy <= env.size)
            x[i], y[i] = min(max(x[i] + dx, 0), env.size), min(max(y[i] + dy, 0), env.size)
            rewards.append(-env.wall_hit_penalty if hit else 0.0)
        tagged = any(x[i] == x[self.n] and y[i] == y[self.n] for i in range(self.n))
        for i in range(self.n):
            rewards[i] += env.tag_reward if tagged else -env.step_cost
        rewards[self.n] += -env.tag_penalty if tagged else env.step_cost
        return x, y, rewards, tagged, not tagged and time + 1 == env.time_limit

    def observe(self, x, y, time):
        """Return a list of observations."""
        env, n, seen = self.env, self.n, []
        for i in range(n + 1):
            if env.full_observation:
                row = [v / env.size for v in x] + [v / env.size for v in y]
                row += [float(j == n) for j in range(n + 1)] + [float(j == i) for j in range(n + 1)]
            else:
                target = n
                if i == n:
                    target = min(range(n), key=lambda j: ((x[j] - x[n]) ** 2 + (y[j] - y[n]) ** 2, j))
                row = [x[i] / env.size, y[i] / env.size, x[target] / env.size, y[target] / env.size, float(i == n)]
            seen.append([*row, time / env.time_limit])
        return seen


class SlowTag:
    """Tag on a plane. It also reports where rounding decides: agents for which a float32 program may differ."""

    NEAR = 1e-5

    def __init__(self, env):
        """Take the parameters of an environment."""
        self.env = env
        self.taggers = list(range(env.num_taggers))
        self.runners = list(range(env.num_taggers, env.num_taggers + env.num_runners))
        self.n = len(self.taggers) + len(self.runners)

    def step(self, state, actions):
        """Return (the state after, rewards, terminated, truncated, what rounding decides) for a dict of lists."""
        env, s, unsure = self.env, {name: list(values) for name, values in state.items()}, set()
        s["time"] = state["time"][0] + 1
        rewards = [0.0] * self.n
        accelerations = [0.0, *np.linspace(-env.max_acceleration, env.max_acceleration, env.acceleration_levels)]
        turns = [0.0, *np.linspace(-env.max_turn, env.max_turn, env.turn_levels)]
        was = list(s["active"])
        for i in range(self.n):
            g = was[i]
            s["direction"][i] = ((s["direction"][i] + turns[actions[i][1]]) % (2 * math.pi)) if g else 0.0
            s["acceleration"][i] += accelerations[actions[i][0]]
            highest = env.max_speed * (env.tagger_skill if i in self.taggers else env.runner_skill)
            wished = s["speed"][i] + s["acceleration"][i]
            if g and (abs(wished) < self.NEAR or abs(wished - highest) < self.NEAR):
                unsure.add(("acceleration", i))
            s["speed"][i] = min(max(wished, 0.0), highest) if g else 0.0
            if s["speed"][i] <= 0.0 or s["speed"][i] >= highest:
                s["acceleration"][i] = 0.0
            out = False
            for axis, slope in (("x", math.cos), ("y", math.sin)):
                place = s[axis][i] + s["speed"][i] * slope(s["direction"][i])
                s[axis][i] = min(max(place, 0.0), env.side)
                out = out or place != s[axis][i]
                if g and (0 < abs(place) < self.NEAR or 0 < abs(place - env.side) < self.NEAR):
                    unsure.add(("reward", i))
            if g:
                rewards[i] += env.edge_hit_penalty if out else 0.0
                rewards[i] += env.step_penalty if i in self.taggers else env.step_reward
        s["present"] = list(was)
        for runner in self.runners:
            if not was[runner]:
                continue
            apart = [self.distance(s, runner, tagger) for tagger in self.taggers]
            nearest = min(range(len(apart)), key=lambda j: (apart[j], j))
            if abs(apart[nearest] - env.tagging_distance * env.side) < self.NEAR:
                unsure |= {("reward", runner), ("active", runner), *(("reward", tagger) for tagger in self.taggers)}
            if apart[nearest] < env.tagging_distance * env.side:
                rewards[runner] += env.tag_penalty
                rewards[nearest] += env.tag_reward
                if env.runner_exits:
                    s["active"][runner] = False
        left = [runner for runner in self.runners if s["active"][runner]]
        if s["time"] == env.time_limit:
            for runner in left:
                rewards[runner] += env.end_of_game_reward
        return s, rewards, not left, bool(left) and s["time"] == env.time_limit, unsure

    @staticmethod
    def distance(s, i, j):
        """Return how far apart two agents are."""
        return math.sqrt((s["x"][i] - s["x"][j]) ** 2 + (s["y"][i] - s["y"][j]) ** 2)

    def observe(self, s):
        """Return (a list of observations, the agents whose neighbors rounding decides)."""
        env, seen, unsure = self.env, [], set()
        scales = {
            "x": math.sqrt(2) * env.side,
            "y": math.sqrt(2) * env.side,
            "speed": env.max_speed + 1e-10,
            "acceleration": env.max_speed + 1e-10,
            "direction": 2 * math.pi,
        }
        for i in range(self.n):
            others = [j for j in range(self.n) if j != i]
            room = len(others)
            if not env.full_observation:
                room = env.num_neighbors
                others = sorted((j for j in others if s["present"][j]), key=lambda j: (self.distance(s, i, j), j))
                apart = [self.distance(s, i, j) for j in others[: room + 1]]
                if any(0 < b - a < self.NEAR * (b + 1) for a, b in itertools.pairwise(apart)):
                    unsure.add(i)
                others = others[:room]
            row = []
            for name, scale in scales.items():
                part = [(s[name][j] - s[name][i]) / scale if s["present"][i] else 0.0 for j in others]
                row += part + [0.0] * (room - len(others))
            for flag in ([float(j in self.taggers) for j in others], [float(s["present"][j]) for j in others]):
                shown = flag if s["present"][i] or env.full_observation else [0.0] * len(others)
                row += shown + [0.0] * (room - len(others))
            row.append(s["time"] / env.time_limit if s["present"][i] else 0.0)
            seen.append(row)
        return seen, unsure
