"""Environments on the host under random actions: Gymnasium's vector environments, or EnvPool's in its own threads.

A "training run" steps for the seconds of the task's settings and answers with the number of steps instead of a return.
Actions are sampled beforehand.
"""

import time
from typing import Any

from protocol import serve

SHARE = 0.05  # fraction of the time between two looks at the clock


def make(task: dict[str, Any]) -> Any:
    """Return the environments, with Gymnasium's interface."""
    name, num_envs = task["environment"], task["settings"]["num_envs"]
    if task["algorithm"] == "envpool":
        import envpool  # pyright: ignore[reportMissingImports]

        return envpool.make_gymnasium(name, num_envs=num_envs)
    import gymnasium

    return gymnasium.make_vec(name, num_envs, vectorization_mode=_mode(gymnasium.spec(name)))


def _mode(spec: Any) -> str:
    return "vector_entry_point" if spec.vector_entry_point is not None else "sync"


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Return a call that steps for task["settings"]["seconds"] and returns the environment steps made."""
    import numpy as np

    env, num_envs, limit = make(task), task["settings"]["num_envs"], task["settings"]["seconds"]
    one = getattr(env, "single_action_space", env.action_space)  # EnvPool's space is that of one
    actions = [np.stack([one.sample() for _ in range(num_envs)]) for _ in range(64)]
    env.reset()
    began = time.perf_counter()
    for action in actions:
        env.step(action)
    turn = max(int(SHARE * limit / (time.perf_counter() - began) * len(actions)), 1)

    def step(seed: int) -> int:
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < limit:
            for index in range(turn):
                env.step(actions[index % len(actions)])
            steps += turn * num_envs
        return steps

    return 0.0, step


if __name__ == "__main__":
    serve(build, float)
