"""`purerl check`: check an environment against the contract."""

import click

from purerl.commands.options import say, take_modules


@click.command(name="check")
@click.argument("environment", metavar="ENVIRONMENT")
@click.option("--steps", type=click.IntRange(8), default=128, metavar="N", help="Steps of random play; default 128.")
def command(environment: str, steps: int) -> None:
    """Check an environment, such as your module:Class, against the contract, and measure its speed."""
    take_modules((), environment)
    from purerl.run.plan import make_environment
    from purerl.testing import check_environment

    say(check_environment(make_environment(environment, {}), num_steps=steps, name=environment, measure=True))
