"""`purerl check`: hold an environment to the contract."""

import click


@click.command(name="check")
@click.argument("environment", metavar="ENVIRONMENT")
@click.option("--steps", type=click.IntRange(8), default=128, metavar="N", help="Steps of random play; default 128.")
def command(environment: str, steps: int) -> None:
    """Hold an environment, such as your own module:Class, to the contract, and measure it."""
    from purerl.run.plan import make_environment
    from purerl.testing import check_environment

    click.echo(check_environment(make_environment(environment, {}), num_steps=steps, name=environment, measure=True))
