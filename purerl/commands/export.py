"""`purerl export`: writes a trained policy to a file that does not need purerl."""

from pathlib import Path

import click

from purerl.commands.options import CHECKPOINT, PATH, TRUST, say, take_modules


@click.command(
    name="export",
    short_help="Export the policy of a run to a file.",
)
@click.argument("run_dir", type=PATH)
@click.argument("file", type=PATH)
@CHECKPOINT
@click.option("--seed", type=int, metavar="S", help="Seed of the agent; default the first seed that did not fail.")
@TRUST
def command(run_dir: Path, file: Path, checkpoint: str, seed: int | None, trust: tuple[str, ...]) -> None:
    """Write the policy of a run to FILE, which acts greedily without purerl.

    \b
    purerl export runs/ppo-CartPole-v1-1 policy.stablehlo    # for JAX
    purerl export runs/ppo-CartPole-v1-1 policy.onnx         # for onnxruntime
    purerl export runs/ppo-CartPole-v1-1 policy.safetensors  # parameters
    """
    take_modules(trust)
    from purerl.run import export
    from purerl.run.trained_run import load_run

    export.check(file)
    export.save(load_run(run_dir, checkpoint=checkpoint), file, seed)
    say(file)
