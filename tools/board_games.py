"""Turn-based games, learned by self-play, as published in `results/games/`.

    python tools/board_games.py ppo-pgx-tic_tac_toe        train or resume, play, and write the result
    python tools/board_games.py --all

The settings are those of `configs/`, with --self-play 8. After training, each seed plays 500 games from either seat
against players without a run (a perfect player only in small games), and its scores are written. The best seed is kept
in `zoo/`. To play against it: `purerl play pgx/connect_four --against zoo/alphazero-pgx-connect_four`.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from exit_code import exit_code
from learning_curves import ship_agent
from result_file import FOLDER, provenance
from results_page import make_pages

from purerl.errors import InputError, unknown
from purerl.extensions.self_play import match
from purerl.extensions.self_play.tournament import REFERENCES
from purerl.run import cache, opening
from purerl.run.trained_run import TrainedRun, load_run
from purerl.settings import runs

RUNS = Path("runs") / "games"
GAMES = 500  # from each seat, against each player
SELVES = 8


class BoardGame(NamedTuple):
    """A game and who learns it."""

    algorithm: str
    environment: str
    seeds: int
    opponents: tuple[str, ...] = tuple(REFERENCES)
    simulations: int | None = None  # with which it plays the one that looks ahead once more; None: it does not

    @property
    def label(self) -> str:
        """Its name in files."""
        return f"{self.algorithm}-{self.environment.replace('/', '-')}"


BOARD_GAMES = (
    BoardGame(algorithm="ppo", environment="pgx/tic_tac_toe", seeds=3, opponents=match.PLAYERS),
    BoardGame(algorithm="alphazero", environment="pgx/tic_tac_toe", seeds=3, opponents=match.PLAYERS),
    BoardGame(algorithm="ppo", environment="pgx/connect_four", seeds=1),
    BoardGame(algorithm="alphazero", environment="pgx/connect_four", seeds=1, simulations=128),
    BoardGame(algorithm="alphazero", environment="pgx/othello", seeds=1),
    BoardGame(algorithm="alphazero", environment="pgx/hex", seeds=1, opponents=("random",)),  # 121 moves and replies
)


def train(game: BoardGame, changes: dict[str, Any], folder: Path) -> int:
    """Train the agents of a game, or resume; return the exit code."""
    if folder.exists():
        return opening.resume(folder, plain=True)
    flags = {"seeds": game.seeds, "self_play": SELVES, "evaluations": 0, "checkpoint_interval": 300, **changes}
    return opening.start(runs.settings(game.algorithm, game.environment, flags), folder, plain=True)


def scores(trained: TrainedRun, opponents: Sequence[str], games: int) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return opponent -> seed -> the scores from the first seat and from the second."""
    found = {}
    for name in opponents:
        by_seed = match.compare(trained, trained.plan, name, games)
        rounded = lambda score: score._asdict() | {k: round(getattr(score, k), 4) for k in ("won", "drawn", "lost")}
        found[name] = {str(seed): [rounded(score) for score in rows] for seed, rows in by_seed.items()}
    return found


def publish(game: BoardGame, folder: Path, games: int = GAMES, results: Path = FOLDER) -> Path:
    """Let the agents of a run play, write the scores, and ship the agent that lost the fewest games."""
    trained = load_run(folder)
    found = scores(trained, game.opponents, games)
    longer = {}
    if game.simulations is not None:
        played = scores(trained.searching(game.simulations), ("lookahead",), games)
        longer = {f"lookahead, {game.simulations} simulations": played["lookahead"]}
    content = {
        "algorithm": game.algorithm,
        "environment": game.environment,
        "self_play": SELVES,
        "frames": int(trained.state.num_updates) * trained.settings.config.steps_per_update,
        "seconds": round(json.loads((folder / "summary.json").read_text(encoding="utf-8"))["wall_seconds"]),
        **provenance(),
        "scores": found | longer,
    }
    path = results / "games" / f"{game.label}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    lost = {seed: {name: _lost(rows[seed]) for name, rows in found.items()} for seed in found["random"]}
    best = min(lost, key=lambda seed: sum(lost[seed].values()))
    texts = {f"lost_{name}": f"{share:.4f}" for name, share in lost[best].items()}
    ship_agent(trained, int(best), game.label, results, **texts)
    return path


def _lost(rows: list[dict[str, Any]]) -> float:
    return sum(row["lost"] for row in rows) / len(rows)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(game.label for game in BOARD_GAMES))
    parser.add_argument("--all", action="store_true", help="every game")
    given = parser.parse_args(args)
    known = {game.label: game for game in BOARD_GAMES}
    if not given.names and not given.all:
        raise InputError(f"name a game, or --all: {', '.join(known)}")
    if wrong := next((name for name in given.names if name not in known), None):
        raise unknown("game", wrong, known)
    cache.enable()
    for name in given.names or known:
        if code := train(known[name], {}, RUNS / name):
            return code
        print(f"wrote {publish(known[name], RUNS / name)}")
    make_pages([])
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main, "board_games"))
