"""`purerl play`: show an episode."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from purerl.commands.algorithm_command import EnvironmentCommand
from purerl.commands.options import PATH, SIMULATIONS, TRUST, check_file, say, take_modules, typed
from purerl.errors import InputError
from purerl.settings import agent_file, toml

if TYPE_CHECKING:
    from purerl.reporting.render import Episode


@click.command(name="play", short_help="Show an episode, or play against an agent.", cls=EnvironmentCommand)
@click.argument("environment", metavar="ENVIRONMENT|RUN")
@click.option(
    "--policy", default="random", metavar="POLICY", help="Policy: random, a run's folder, or module:function."
)
@click.option(
    "--against",
    metavar="PLAYER",
    help="Play a turn-based game yourself, against a run's folder, an agent's file, zoo/NAME, random, lookahead or "
    "perfect.",
)
@click.option(
    "--seat",
    type=click.Choice(("first", "second", "drawn")),
    default="first",
    help="With --against: your seat; default first, which moves first.",
)
@SIMULATIONS
@click.option("--gif", type=PATH, metavar="FILE", help="Save the episode as an animation.")
@click.option("--terminal", is_flag=True, help="Show the episode as text.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, metavar="S", help="Random seed; default 0.")
@click.option(
    "--max-steps",
    type=click.IntRange(1),
    default=500,
    metavar="N",
    help="Steps after which the episode is cut off; default 500.",
)
@click.option("--fps", type=click.FloatRange(1, 100), default=30.0, metavar="N", help="Frames per second; default 30.")
@TRUST
def command(
    environment: str,
    policy: str,
    against: str | None,
    seat: str,
    simulations: int | None,
    gif: Path | None,
    terminal: bool,
    seed: int,
    max_steps: int,
    fps: float,
    trust: tuple[str, ...],
) -> None:
    """Show one episode of ENVIRONMENT, or of a RUN's environment with its agent.

    \b
    purerl play CartPole-v1 --terminal
    purerl play runs/ppo-Breakout-MinAtar-1 --gif breakout.gif
    purerl play zoo/ppo-CartPole-v1 --gif cartpole.gif    # see purerl list agents
    purerl play CartPole-v1 --policy my_module:balance --gif cartpole.gif
    purerl play pgx/connect_four --against runs/alphazero-pgx-connect_four-1

    With --against you play against the agent, at the terminal.
    A scripted policy is a function (key, observation) -> action. With a run's folder, the environment that it was
    trained on has its parameters.
    """
    parameters, _ = typed({})
    _check_words(environment, policy, against, seat=seat, simulations=simulations, shown=terminal or gif is not None)
    if against is not None:
        take_modules(trust, environment, against)
        _match(environment, parameters, against, seat=seat, seed=seed, simulations=simulations)
        return
    check_file(gif, ".gif")
    named, policy = _player(environment, policy)
    take_modules(trust, named, policy)
    import jax

    from purerl.reporting import render
    from purerl.run import trained_run
    from purerl.run.environments import told_in_a_line

    env, acting = trained_run.find_policy(policy, named, parameters)
    with told_in_a_line(policy, "the policy"):
        episode = render.play(env, acting, jax.random.key(seed), max_steps)
    if terminal:
        render.show_text(render.frames_text(env, episode), fps if sys.stdout.isatty() else None)
    if gif is not None:
        render.save_gif(render.frames(env, episode), gif, fps)
        say(gif)
    say(_outcome(episode, max_steps))


def _check_words(
    environment: str, policy: str, against: str | None, *, seat: str, simulations: int | None, shown: bool
) -> None:
    """Reject options that cannot be combined; `shown`: whether --gif or --terminal is given."""
    if against is not None:
        if shown or policy != "random":
            raise InputError(
                "--against shows the game anyway: it cannot be combined with --policy, --gif or --terminal"
            )
        if Path(environment).is_dir() or agent_file.find(Path(environment)):
            raise InputError(f"--against takes the game first: purerl play pgx/connect_four --against {environment}")
        return
    if seat != "first":
        raise InputError("--seat only works with --against")
    if simulations is not None:
        raise InputError("--simulations only works with --against")
    if not shown:
        raise InputError("play needs --gif FILE, --terminal or --against PLAYER")


def _player(environment: str, policy: str) -> tuple[str | None, str]:
    """Return (the environment's id, or None for a run's own environment; the policy) that the arguments name."""
    folder = Path(environment)
    if (folder / toml.RUN.file).is_file() or agent_file.find(folder):
        if policy != "random":
            what = "a run" if folder.is_dir() else "an agent"
            raise InputError(f"{environment} is {what}; name its environment to play there with another policy")
        return None, environment
    if folder.is_dir() or environment.startswith("runs/"):
        raise toml.no_job(toml.RUN, environment)
    return environment, policy


def _outcome(episode: "Episode", max_steps: int) -> str:
    """Return one line about how an episode ended."""
    from purerl import agent_groups
    from purerl.reporting import render

    total = float(agent_groups.mean_reward(episode.reward).sum())
    parts = {name: float(reward.sum()) for name, reward in agent_groups.group_rewards(episode.reward).items()}
    each = f" ({', '.join(f'{name} {value:.5g}' for name, value in parts.items())}, per agent)" if parts else ""
    over = "" if episode.done else f"; cut off after {max_steps} steps"
    return f"return {total:.5g}{each} in {render.length_of(episode)} steps{over}"


def _match(
    environment: str, parameters: Mapping[str, object], against: str, seat: str, seed: int, simulations: int | None
) -> None:
    """Let a person play against a player, and print the outcome."""
    import jax

    from purerl.extensions.self_play import match

    game = match.game_of(environment, parameters)
    opponent = match.contender_of(against, game, simulations)
    found = match.play_match(game, opponent, jax.random.key(seed), seat, ask=_ask, tell=say)
    if not found.over:
        say(f"left after {found.moves} moves")
        return
    outcome = "you win" if found.reward > 0 else "you lose" if found.reward < 0 else "a draw"
    say(f"{outcome} in {found.moves} moves")


def _ask(prompt: str) -> str | None:
    try:
        return input(prompt)
    except EOFError:
        return None
