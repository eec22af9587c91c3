"""A callback that logs to Weights & Biases. `pip install wandb; python scripts/wandb_run.py --project mine`.

`purerl train ppo CartPole-v1 --wandb mine` logs every row of metrics.csv. Here you choose what to log and when to
stop. `--mode offline` needs no account.
"""

import argparse
import math
from typing import Any

import numpy as np

import purerl
from purerl import InputError, TrainedRun


def main(words: list[str] | None = None) -> TrainedRun:
    """Train agents, log metrics every few updates, and return the run.

    Raises:
      InputError: if wandb is not installed.
    """
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--project", required=True)
    parser.add_argument("--mode", default="online", choices=("online", "offline", "disabled"))
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--steps", type=float, default=200_000, help="environment steps")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--every", type=int, default=10, help="updates between two rows")
    parser.add_argument("--stop-at", type=float, default=math.inf, help="the return at which to stop early")
    args = parser.parse_args(words)
    try:
        import wandb  # type: ignore[import-not-found]
    except ImportError:
        raise InputError("wandb is not installed: pip install wandb") from None

    settings: dict[str, Any] = {"learning_rate": 1e-3, "total_timesteps": int(args.steps), "seeds": args.seeds}
    with wandb.init(project=args.project, mode=args.mode, config={"env": args.env, **settings}) as log:

        def watch(update: int, metrics: dict[str, np.ndarray], view: Any) -> None:
            known = {name: values[np.isfinite(values)] for name, values in metrics.items()}  # NaN: no episode ended
            means = {name: float(values.mean()) for name, values in known.items() if values.size}
            log.log(means, step=int(means["env_steps"]))
            if means.get("episode_return", -math.inf) >= args.stop_at:
                view.stop(f"the return reached {args.stop_at:g}")

        run = purerl.train("ppo", args.env, callbacks=[watch], log_interval=args.every, **settings)
        log.summary["evaluation"] = float(run.evaluate(episodes=32).episode_return.mean())
    return run


if __name__ == "__main__":
    main()
