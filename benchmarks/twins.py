"""Check that the same task is learned equally well in two suites: native MinAtar compared with pgx's."""

import tempfile
from pathlib import Path
from typing import Any

import purerl
from benchmarks import tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import progress
from purerl.errors import InputError
from purerl.reporting import compare

TWINS = {  # native -> the other, both with sticky actions of 0.1 and six actions
    "Asterix-MinAtar": "pgx/minatar-asterix",
    "Breakout-MinAtar": "pgx/minatar-breakout",
    "Freeway-MinAtar": "pgx/minatar-freeway",
    "Seaquest-MinAtar": "pgx/minatar-seaquest",
    "SpaceInvaders-MinAtar": "pgx/minatar-space_invaders",
}
PARAMETERS = {"use_minimal_action_set": False, "time_limit": 1_000_000}  # for pgx's games; native games have no limit
STEPS = 1_000_000
SEEDS = 5
SETTINGS = {
    "num_envs": 64,
    "rollout_length": 128,
    "num_minibatches": 8,
    "learning_rate": 2.5e-3,
    "network": "mlp",
    "hidden_sizes": (128, 128),
    "activation": "relu",
    "evaluations": 0,
    "eval_episodes": 256,
}
COLUMNS = tables.columns("game: text; native: text; pgx: text; native less pgx: text; intervals overlap: text")


def measure(request: Request) -> list[Table]:
    """Return the final returns of PPO on both of each pair, over the same seeds."""
    if not purerl.registry.installed("pgx"):
        raise InputError("twins compares with pgx, which is not installed: pip install 'purerl[pgx]'")
    steps, games = max(STEPS * request.size, 8_192), list(TWINS)[: max(1, round(len(TWINS) * request.size))]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for game in games:
            native = _trained(game, {}, steps, Path(folder) / game)
            other = _trained(TWINS[game], PARAMETERS, steps, Path(folder) / f"pgx-{game}")
            rows.append(row(game, native, other))
            progress(": ".join([game, ", ".join(rows[-1][1:])]))
    title = f"Final return of PPO after {steps:,.0f} steps, IQM of {SEEDS} seeds with 95% intervals, equal settings"
    return [Table(title=title, columns=COLUMNS, rows=rows)]


def row(game: str, native: compare.ComparedRun, other: compare.ComparedRun) -> list[str]:
    """Return the line of a pair."""
    duel, ours, theirs = compare.duel(native, other), native.interval, other.interval
    assert duel is not None and ours is not None and theirs is not None
    sign, bounds = 1 if duel.better is native else -1, duel.difference_interval
    low, high = sorted(sign * bound for bound in bounds)
    overlap = max(ours[0], theirs[0]) <= min(ours[1], theirs[1])
    cells = [f"{run.center:.3g} ({a:.3g} to {b:.3g})" for run, (a, b) in ((native, ours), (other, theirs))]
    return [game, *cells, f"{sign * duel.difference:.3g} ({low:.3g} to {high:.3g})", "yes" if overlap else "no"]


def _trained(env_id: str, parameters: dict[str, Any], steps: float, out: Path) -> compare.ComparedRun:
    values: dict[str, Any] = SETTINGS | {"env": parameters}
    purerl.train("ppo", env_id, seeds=SEEDS, total_timesteps=steps, out=out, display="none", **values)
    return compare.load(out)
