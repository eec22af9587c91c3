"""The command line: train, evaluate, play, list, check and plot. What is slow is imported where it is needed."""

import dataclasses
import errno
import os
import sys
from pathlib import Path
from typing import Any

import click

from purerl import __version__
from purerl.errors import InputError, unknown
from purerl.registry import ALGORITHMS, SUITES

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
PATH = click.Path(path_type=Path)
DISK_TROUBLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPIPE)


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit with its code: 2 and one line on stderr where the input is bad."""
    sys.path.append(str(Path.cwd()))  # where the module of module:Class is looked for last
    try:
        code = cli.main(args=args, prog_name="purerl", standalone_mode=False)
    except InputError as error:
        code = _complain(str(error))
    except click.ClickException as error:
        code = _complain(error.format_message())
    except (KeyboardInterrupt, click.Abort):
        sys.stdout.flush()
        click.echo("interrupted", err=True)
        os._exit(130)  # now, although a compiler's thread may still be busy
    except OSError as error:
        if error.errno not in DISK_TROUBLE:
            raise
        code = _complain(f"cannot write {error.filename or 'the output'}: {error.strerror}")
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str) -> int:
    click.echo("purerl: error: " + " ".join(message.split()), err=True)
    return 2


@click.group(context_settings=CONTEXT)
@click.version_option(__version__, prog_name="purerl")
def cli() -> None:
    """Reinforcement learning end to end in JAX.

    \b
    purerl train ppo CartPole-v1            train; results in runs/ppo-CartPole-v1-1/
    purerl evaluate runs/ppo-CartPole-v1-1  play episodes with the trained agent
    """


class TrainCommand(click.Command):
    """`train`, whose options are those of every run and the fields of the algorithm's config."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take --env.NAME VALUE and find the algorithm, then parse as usual."""
        ctx.meta["parameters"], args = _split_parameters(args)
        ctx.meta["algorithm"] = _find_algorithm(args)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of a run, and those of the algorithm where it is known."""
        params = super().get_params(ctx)
        help_option, own = params[-1], params[:-1]
        return [*own, *_config_options(ctx.meta.get("algorithm")), help_option]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in two sections."""
        algorithm = ctx.meta.get("algorithm")
        config_names = {option.name for option in _config_options(algorithm)}
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = [(option.name in config_names, option.get_help_record(ctx)) for option in options]
        with formatter.section("Options"):
            formatter.write_dl([record for of_config, record in records if record and not of_config])
        if algorithm:
            with formatter.section(f"Settings of {algorithm}"):
                formatter.write_dl([record for of_config, record in records if record and of_config])
        else:
            formatter.write_paragraph()
            formatter.write_text(f"purerl train ALGORITHM --help lists its settings: {', '.join(sorted(ALGORITHMS))}.")


def _split_parameters(args: list[str]) -> tuple[dict[str, str], list[str]]:
    """Take `--env.NAME VALUE` and `--env.NAME=VALUE` out of the arguments."""
    parameters, rest = {}, []
    remaining = iter(args)
    for arg in remaining:
        if not arg.startswith("--env."):
            rest.append(arg)
            continue
        name, equals, value = arg.removeprefix("--env.").partition("=")
        if not equals:
            value = next(remaining, "")
        if not name or not value or value.startswith("--"):
            raise InputError(f"{arg} needs a name and a value, such as --env.gravity 12")
        parameters[name] = value
    return parameters, rest


def _find_algorithm(args: list[str]) -> str | None:
    """Return the algorithm that the arguments name, before they are parsed: its fields are options."""
    if args and not args[0].startswith("-"):
        if args[0] not in ALGORITHMS:
            raise unknown("algorithm", args[0], ALGORITHMS)
        return args[0]
    named = [arg for arg in args if arg in ALGORITHMS]
    if named:
        return named[0]
    for i, arg in enumerate(args):  # the file of --config names one
        flag, _, value = arg.partition("=")
        if flag == "--config" and (value or args[i + 1 : i + 2]):
            from purerl.config import read_toml

            written = read_toml(Path(value or args[i + 1])).get("algorithm")
            return written if written in ALGORITHMS else None
    return None


def _config_options(algorithm: str | None) -> list[click.Option]:
    if algorithm is None:
        return []
    from purerl import config, registry

    _, config_class = registry.algorithm(algorithm)
    return _options_of(config_class, config.hints(config_class))


def _options_of(cls: Any, hints: dict[str, Any]) -> list[click.Option]:
    """Return an option per field of a dataclass, with its type, default and doc; values are parsed later."""
    from purerl.config import describe

    options = []
    for field in dataclasses.fields(cls):
        choices = field.metadata.get("choices")
        kind = " | ".join(str(choice) for choice in choices) if choices else describe(hints[field.name])
        default = "" if field.default is dataclasses.MISSING else f"; default {_shown(field.default)}"
        doc = f"{field.metadata.get('doc', '')} [{kind}{default}]"
        flag = "--" + field.name.replace("_", "-")
        options.append(click.Option([flag, field.name], metavar="VALUE", help=doc.strip()))
    return options


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(str(entry) for entry in value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


@cli.command(
    cls=TrainCommand,
    epilog="Settings: the algorithm's defaults, then configs/ (see purerl list configs), then --config, then flags.",
)
@click.argument("algorithm", required=False)
@click.argument("environment", required=False)
@click.option("--seeds", metavar="N", help="Agents trained side by side in one program; default 1.")
@click.option("--seed", metavar="S", help="The first seed; default 0.")
@click.option("--config", "config_file", type=PATH, metavar="FILE.toml", help="Settings, such as a run's config.toml.")
@click.option("--env.NAME", "env_parameter", metavar="VALUE", help="A parameter of the environment: --env.gravity 12.")
@click.option("--out", type=PATH, metavar="DIR", help="The run's folder; default runs/ALGORITHM-ENVIRONMENT-N.")
@click.option("--resume", "resume_folder", type=PATH, metavar="DIR", help="Go on with a run that was stopped.")
@click.option("--log-interval", metavar="N", help="Updates between two rows of metrics.csv; default: about 150 rows.")
@click.option("--evaluations", metavar="N", help="Evaluations during the run; default 10.")
@click.option("--eval-episodes", metavar="N", help="Episodes per seed of the final evaluation; default 128.")
@click.option("--checkpoint-interval", metavar="SECONDS", help="Time between two checkpoints; default 60.")
@click.option("--keep-checkpoints", metavar="K", help="How many are kept; default 3.")
@click.option("--tensorboard", is_flag=True, default=None, help="Also write TensorBoard events.")
@click.option("--plain", is_flag=True, help="Lines of text instead of the live display.")
@click.option("--no-cache", is_flag=True, help="Do not use the cache of compiled programs.")
def train(
    algorithm: str | None,
    environment: str | None,
    config_file: Path | None,
    env_parameter: str | None,
    out: Path | None,
    resume_folder: Path | None,
    plain: bool,
    no_cache: bool,
    **flags: Any,
) -> int:
    """Train ALGORITHM on ENVIRONMENT.

    \b
    purerl train ppo CartPole-v1
    purerl train ppo CartPole-v1 --seeds 8 --total-timesteps 1e6 --learning-rate 1e-3 --env.gravity 12
    purerl train --config runs/ppo-CartPole-v1-1/config.toml
    purerl train --resume runs/ppo-CartPole-v1-1
    """
    from purerl import config

    context = click.get_current_context()
    parameters = {name: config.from_text(text) for name, text in context.meta["parameters"].items()}
    given = {name: value for name, value in flags.items() if value is not None}
    given = {name: config.from_text(value) if isinstance(value, str) else value for name, value in given.items()}
    if resume_folder is not None:
        also = [algorithm, environment, config_file, out, *parameters, *given]
        if any(value is not None for value in also):
            raise InputError(
                "--resume goes on with a run as it is: it takes no settings, environment or --out beside it"
            )
        return _run("resume", not no_cache, resume_folder, plain)
    run = config.settings(algorithm, environment, given, parameters, config_file)
    return _run("start", not no_cache, run, out, plain)


def _run(what: str, cached: bool, *args: Any) -> int:
    from purerl import cache

    if cached:
        cache.enable()
    from purerl import run

    return getattr(run, what)(*args)


@cli.group(name="list")
def list_() -> None:
    """List environments, algorithms or configs."""


@list_.command()
@click.option("--suite", metavar="SUITE", help="List this suite's environments instead.")
def envs(suite: str | None) -> None:
    """List the environments and the suites that adapters reach."""
    from purerl.registry import installed, names

    if suite is not None:
        click.echo("\n".join(names(suite)))
        return
    click.echo("\n".join(sorted(names())))
    for suite, entry in sorted(SUITES.items()):
        missing = "" if installed(suite) else f"; not installed: pip install 'purerl[{entry.extra or suite}]'"
        click.echo(f"{suite}/NAME  (such as {entry.example}{missing})")


@list_.command()
def algos() -> None:
    """List the algorithms, the actions they take and their papers."""
    for name, entry in sorted(ALGORITHMS.items()):
        click.echo(f"{name:10} {entry.summary}; {', '.join(entry.actions)} actions; {entry.source}")


@list_.command()
def configs() -> None:
    """List the tuned settings, by algorithm and environment."""
    from purerl.config import names

    for algorithm, environment in names():
        click.echo(f"{algorithm:10} {environment}")


@cli.command()
@click.argument("run_dir", type=PATH)
@click.option("--episodes", type=click.IntRange(1), default=128, metavar="N", help="Per seed; default 128.")
@click.option("--gif", type=PATH, metavar="FILE", help="Also record an episode of the best seed's agent.")
@click.option("--no-cache", is_flag=True, help="Do not use the cache of compiled programs.")
def evaluate(run_dir: Path, episodes: int, gif: Path | None, no_cache: bool) -> None:
    """Play episodes with the agents of a run's newest checkpoint, without exploration."""
    from purerl import cache

    if not no_cache:
        cache.enable()
    from purerl import summary, trained

    run = trained.load_run(run_dir)
    played = trained.play(run, episodes)
    click.echo(f"{run.settings.algorithm} on {run.settings.environment}, update {int(run.state.num_updates):,}")
    click.echo(f"{'seed':>6} {'return':>10} {'std':>9} {'min':>9} {'max':>9} {'length':>8}")
    for i, returns in enumerate(played.episode_return):
        seed, length = run.settings.options.seed + i, played.episode_length[i].mean()
        numbers = f"{returns.mean():10.5g} {returns.std():9.4g} {returns.min():9.5g} {returns.max():9.5g} {length:8.5g}"
        click.echo(f"{seed:6} {numbers}{'  failed in training' if run.failed[i] else ''}")
    if len(played.episode_return) > 1:
        means = played.episode_return.mean(axis=1)[~run.failed]
        over = summary.over_seeds(means.tolist())
        low, high = over["iqm_interval_95"] or (float("nan"), float("nan"))
        click.echo(f"over seeds: mean {over['mean']:.5g}, IQM {over['iqm']:.5g} (95% interval {low:.5g} .. {high:.5g})")
    if not played.finished.all():
        click.echo(f"{(~played.finished).sum()} of {played.finished.size} episodes did not end and were cut off")
    if gif is not None:
        trained.save_gif(run, played, gif)
        click.echo(gif)


@cli.command()
@click.argument("environment", metavar="ENVIRONMENT")
@click.option("--steps", type=click.IntRange(8), default=128, metavar="N", help="Steps of random play; default 128.")
def check(environment: str, steps: int) -> None:
    """Hold an environment, such as your own module:Class, to the contract, and measure it."""
    from purerl.plan import make_environment
    from purerl.testing import check_environment

    click.echo(check_environment(make_environment(environment, {}), num_steps=steps, name=environment, measure=True))


@cli.command()
@click.argument("environment", metavar="ENVIRONMENT")
@click.option("--policy", default="random", metavar="POLICY", help="random, a run's folder, or module:function.")
@click.option("--gif", type=PATH, metavar="FILE", help="Save the episode as an animation.")
@click.option("--terminal", is_flag=True, help="Show the episode as text.")
@click.option("--seed", type=int, default=0, metavar="S", help="Draws the start and all that is random; default 0.")
@click.option("--max-steps", type=click.IntRange(1), default=500, metavar="N", help="Where it is cut off; default 500.")
@click.option(
    "--fps", type=click.FloatRange(1, 100), default=30.0, metavar="N", help="Pictures per second; default 30."
)
def play(
    environment: str, policy: str, gif: Path | None, terminal: bool, seed: int, max_steps: int, fps: float
) -> None:
    """Play one episode of ENVIRONMENT and show it.

    \b
    purerl play CartPole-v1 --terminal
    purerl play Breakout-MinAtar --policy runs/ppo-Breakout-MinAtar-1 --gif breakout.gif
    A scripted policy is a function (key, observation) -> action.
    """
    if gif is None and not terminal:
        raise InputError("play needs --gif FILE or --terminal")
    import jax

    from purerl import render, trained
    from purerl.plan import make_environment

    env = make_environment(environment, {})
    episode = render.play(env, trained.find_policy(policy, env), jax.random.key(seed), max_steps)
    if terminal:
        render.show_text(render.frames_text(env, episode), fps if sys.stdout.isatty() else None)
    if gif is not None:
        render.save_gif(render.frames(env, episode), gif, fps)
        click.echo(gif)
    over = "" if episode.ended else f"; cut off after {max_steps} steps"
    click.echo(f"return {float(episode.reward.sum()):.5g} in {len(episode.reward)} steps{over}")


@cli.command()
@click.argument("run_dirs", type=PATH, nargs=-1, required=True, metavar="RUN_DIR...")
@click.option(
    "--out", type=PATH, metavar="FILE", help="The picture; default RUN_DIR/curve.png, or curves.png for several."
)
def plot(run_dirs: tuple[Path, ...], out: Path | None) -> None:
    """Draw the learning curves of one or several runs."""
    from purerl import plot as plots

    for folder in run_dirs:
        if not folder.is_dir():
            raise InputError(f"there is no run in {folder}: no such folder")
    single = len(run_dirs) == 1
    path = plots.plot_run(run_dirs[0], out) if single else plots.plot_runs(run_dirs, out or Path("curves.png"))
    click.echo(path)


if __name__ == "__main__":
    main()
