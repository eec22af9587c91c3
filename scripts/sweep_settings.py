"""A sweep in one file: learning rate, `num_envs`, gravity. `python scripts/sweep_settings.py --trials 32 --out sweep`.

Numbers share one compiled program; `num_envs` changes array shapes, so each of its values compiles another. If you pass
--out, running the script again resumes a stopped sweep.
"""

import argparse
from typing import Any

import purerl


def main(words: list[str] | None = None) -> Any:
    """Sweep, print the five best trials and the best settings, and return the result."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--algorithm", default="ppo")
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=4, help="agents of each trial")
    parser.add_argument("--steps", type=float, default=50_000, help="environment steps of each agent")
    parser.add_argument("--out", default=None, help="a folder for trials.csv, curves, pictures and best.toml")
    args = parser.parse_args(words)
    result = purerl.sweep(
        args.algorithm,
        args.env,
        over={
            "learning_rate": purerl.LogUniform(1e-4, 1e-2),
            "num_envs": [4, 16],
            "env.gravity": purerl.Uniform(8.0, 12.0),
        },
        method="qmc",  # or random, grid, halving, pbt
        trials=args.trials,
        seeds=args.seeds,
        total_timesteps=int(args.steps),
        out=args.out,
        resume=args.out is not None,
    )
    means: dict[int, list[float]] = {}
    for row in result.rows():
        means.setdefault(row["trial"], []).append(row["final_return"])
    ranked = sorted(means, key=lambda trial: -sum(means[trial]) / len(means[trial]))
    for trial in ranked[:5]:
        print(f"trial {trial}: return {sum(means[trial]) / len(means[trial]):.1f}")
    print(f"best: {result.best}, return {result.best_return:.1f}")
    return result


if __name__ == "__main__":
    main()
