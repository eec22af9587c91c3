"""A loop of your own that logs to Weights & Biases. `pip install wandb; python scripts/wandb_run.py --project mine`.

`make_trainer` gives a run update by update; what you log and when you stop is yours. `--mode offline` needs no account.
"""

import argparse
import math
from typing import Any

import jax

import purerl
from purerl import InputError
from purerl.algos.ppo import PPOConfig, ppo
from purerl.loop.train import whole_updates


def main(words: list[str] | None = None) -> Any:
    """Train one agent, log a row every few updates, and return the final state.

    Raises:
      InputError: if wandb is not installed.
    """
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--project", required=True)
    parser.add_argument("--mode", default="online", choices=("online", "offline", "disabled"))
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--steps", type=float, default=200_000, help="environment steps")
    parser.add_argument("--every", type=int, default=10, help="updates between two rows")
    parser.add_argument("--stop-at", type=float, default=math.inf, help="the return at which to stop early")
    args = parser.parse_args(words)
    try:
        import wandb  # type: ignore[import-not-found]
    except ImportError:
        raise InputError("wandb is not installed: pip install wandb") from None

    settings: dict[str, Any] = {"learning_rate": 1e-3, "total_timesteps": int(args.steps)}
    config = PPOConfig(**settings)
    trainer = purerl.make_trainer(ppo, purerl.make(args.env), config)
    several = jax.jit(lambda state: jax.lax.scan(lambda state, _: trainer.step(state), state, length=args.every))
    state = jax.jit(trainer.init)(jax.random.key(0))
    with wandb.init(project=args.project, mode=args.mode, config={"env": args.env, **settings}) as run:
        for row in range(max(whole_updates(config) // args.every, 1)):
            state, metrics = several(state)
            columns = {name: float(value[-1]) for name, value in jax.device_get(metrics.flat()).items()}
            finite = {name: value for name, value in columns.items() if math.isfinite(value)}  # NaN: no episode ended
            run.log(finite, step=(row + 1) * args.every * config.steps_per_update)
            if finite.get("episode_return", -math.inf) >= args.stop_at:
                break
        evaluation = purerl.evaluate(trainer, state.agent, jax.random.key(1), num_episodes=32)
        run.summary["evaluation"] = float(evaluation.episode_return.mean())
    return state


if __name__ == "__main__":
    main()
