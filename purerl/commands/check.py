"""`purerl check`: check an environment or an algorithm against its contract."""

import click

from purerl.catalog.algorithms import ALGORITHMS
from purerl.commands.algorithm_command import EnvironmentCommand
from purerl.commands.options import say, take_modules, tell, typed
from purerl.errors import InputError

ACTIONS = ("discrete", "multi-discrete", "continuous", "dict")


@click.command(name="check", short_help="Check your environment or algorithm.", cls=EnvironmentCommand)
@click.argument("name", metavar="ENVIRONMENT|ALGORITHM")
@click.option("--steps", type=click.IntRange(8), default=128, metavar="N", help="Steps of random play; default 128.")
@click.option(
    "--actions",
    type=click.Choice(ACTIONS),
    multiple=True,
    help="Kind of actions that your algorithm supports; may be repeated; default discrete.",
)
def command(name: str, steps: int, actions: tuple[str, ...]) -> None:
    """Check an environment, such as your module:Class, against the contract, and measure its speed.

    A module:function, (spec, config: MyConfig) -> Algorithm, is checked against the contract of algorithms.

    \b
    purerl check my_module:MyEnvironment
    """
    parameters, _ = typed({})
    take_modules((), name)
    from purerl import registry

    if "/" in name:
        registry.check_id(name)  # before JAX and a suite are imported
    if name in ALGORITHMS or (registry.is_own(name) and not isinstance(registry.load(name), type)):
        if parameters:
            raise InputError(f"--env.{next(iter(parameters))} is for an environment, and {name} is an algorithm")
        from purerl.testing import check_algorithm

        try:
            factory, config_class = registry.algorithm(name)
        except InputError as error:
            raise InputError(f"{name} is not an environment class; as an algorithm: {error}") from None
        kinds = actions or (ALGORITHMS[name].actions if name in ALGORITHMS else ("discrete",))
        tell(f"checking {name}: each check compiles, which takes a minute or two ...")
        say(check_algorithm(factory, config_class(), actions=kinds, name=name, learn=False, say=tell))
        return
    from purerl.host_environment import HostSource
    from purerl.run.environments import make_environment
    from purerl.testing import check_environment

    env = make_environment(name, parameters)
    forms = "" if isinstance(env, HostSource) else " in several forms, each compiled; about a minute"
    tell(f"checking {name}: {steps} steps of random play{forms} ...")
    say(check_environment(env, num_steps=steps, name=name, measure=True, say=tell))
