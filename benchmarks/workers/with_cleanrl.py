"""CleanRL's PPO on EnvPool's Atari and SAC on MuJoCo, from a checkout of its repository.

Its scripts read a command line and write for TensorBoard: their arguments are set here, and what they write is kept.
Each training run executes the complete script, so its time follows from the speed that the script reports at its end.
"""

import dataclasses
import runpy
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

from protocol import name_in_suite, renamed, serve

NAMES = {  # purerl's = theirs
    "ppo": "num_envs=num_envs discount=gamma rollout_length=num_steps num_epochs=update_epochs "
    "num_minibatches=num_minibatches learning_rate=learning_rate gae_lambda=gae_lambda clip_epsilon=clip_coef "
    "entropy_coefficient=ent_coef value_coefficient=vf_coef max_grad_norm=max_grad_norm normalize_advantage=norm_adv",
    "sac": "discount=gamma batch_size=batch_size replay_capacity=buffer_size learning_starts=learning_starts tau=tau "
    "learning_rate=policy_lr",  # it steps one environment
}
SCRIPTS = {"ppo": "ppo_atari_envpool", "sac": "sac_continuous_action"}
LAST = 10  # episodes, whose mean return is what was reached
WRITTEN: dict[str, list[tuple[int, float]]] = {}  # what it writes, by name: (environment steps, a number)


class Done(NamedTuple):
    """A finished training run."""

    steps: int  # environment steps
    speed: float  # steps/s
    episodes: list[tuple[int, float]]  # (environment steps, return) as each one ended


class SummaryWriter:
    """Takes the place of TensorBoard's."""

    def __init__(self, *_: Any):
        """Forget what an earlier training run wrote."""
        WRITTEN.clear()

    def add_scalar(self, name: str, value: Any, step: int) -> None:
        """Keep a number."""
        WRITTEN.setdefault(name, []).append((int(step), float(value)))

    def add_text(self, *_: Any) -> None:
        """Keep no text."""

    def close(self) -> None:
        """There is no file."""


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Replace its command line and its writer; it compiles nothing."""
    given, algorithm = task["settings"], task["algorithm"]
    settings = renamed(given, NAMES[algorithm])
    settings |= {"env_id": name_in_suite(task), "total_timesteps": task["steps"]}
    if algorithm == "ppo":
        settings["anneal_lr"] = given["learning_rate_schedule"] == "linear"
    else:
        settings["q_lr"] = settings["policy_lr"]
    for name in ("tyro", "torch.utils.tensorboard"):
        sys.modules[name] = types.ModuleType(name)
    setattr(sys.modules["torch.utils.tensorboard"], "SummaryWriter", SummaryWriter)  # noqa: B010
    sys.path.insert(0, task["checkout"])
    script = Path(task["checkout"]) / "cleanrl" / f"{SCRIPTS[algorithm]}.py"

    def train(seed: int) -> Done:
        parse = lambda cls: dataclasses.replace(cls(), seed=seed, **settings)
        setattr(sys.modules["tyro"], "cli", parse)  # noqa: B010
        runpy.run_path(str(script), run_name="__main__")
        episodes = WRITTEN.get("charts/episodic_return", [])
        return Done(steps=task["steps"], speed=WRITTEN["charts/SPS"][-1][1], episodes=episodes)

    return 0.0, train


def read(done: Done) -> float:
    """Return the mean return of the last episodes."""
    returns = [reached for _, reached in done.episodes[-LAST:]]
    return sum(returns) / len(returns) if returns else float("nan")


def curve(done: Done) -> list[tuple[int, float]]:
    """Return the mean return of every `LAST` episodes, and of the last ones at the end."""
    whole = range(LAST, len(done.episodes) - LAST, LAST)
    means = [(done.episodes[i - 1][0], read(done._replace(episodes=done.episodes[:i]))) for i in whole]
    return [*means, (done.steps, read(done))]


def time_of(done: Done) -> float:
    """Return the seconds of a training run, from the speed that it reports."""
    return done.steps / done.speed


if __name__ == "__main__":
    serve(build, read, time_of, curve)
