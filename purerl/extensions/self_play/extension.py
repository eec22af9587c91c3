"""Self-play, as an extension."""

from typing import TYPE_CHECKING

from purerl.fields import pytree, static
from purerl.loop.extension import Extension
from purerl.loop.trainer import MakeTrainer, Trainer
from purerl.types import AlgorithmFactory, Config, Environment

if TYPE_CHECKING:
    from purerl.run.run import Run


@pytree
class SelfPlayOptions:
    """The number of past policies that a policy plays against."""

    self_play: int = static(
        default=0, doc="past policies to play against, in a symmetric game of two groups; writes elo.csv", at_least=0
    )


def wrap(make: MakeTrainer, options: SelfPlayOptions) -> MakeTrainer:
    """Wrap a maker of trainers: train one policy for both sides of a game, against its past policies."""

    def make_self_play(algorithm: AlgorithmFactory, env: Environment, config: Config) -> Trainer:
        if not options.self_play:
            return make(algorithm, env, config)
        from purerl.extensions.self_play.play import self_play_trainer
        from purerl.extensions.self_play.sides import both_sides

        return self_play_trainer(make, algorithm, both_sides(env), config, options.self_play)

    return make_self_play


def finish(run: "Run") -> list[str]:
    """Play all snapshots of each seed against one another, write elo.csv, and return it as lines."""
    from purerl.extensions.self_play.tournament import rate_selves

    return rate_selves(run)


EXTENSION = Extension(
    name="self_play",
    options=SelfPlayOptions,
    wrap=wrap,
    excludes=("levels", "host"),
    finish=finish,
)
