"""Turn-based games are trained, played and written, on a small run."""

import json

import pytest

from purerl.errors import InputError
from purerl.extensions.self_play import match
from purerl.run.trained_run import load_run

pytestmark = pytest.mark.publish

pytest.importorskip("pgx", reason="pgx is not installed: pip install 'purerl[pgx]'")
SMALL = {"num_envs": 16, "rollout_length": 8, "hidden_sizes": (8,), "num_minibatches": 1, "total_timesteps": 256}


def test_a_game_becomes_a_file_a_table_and_an_agent(script, tmp_path):
    import results_page

    game, folder = script.BOARD_GAMES[0]._replace(seeds=2), tmp_path / "run"
    assert script.train(game, SMALL, folder) == 0
    file = script.publish(game, folder, 8, tmp_path)
    found = json.loads(file.read_text())
    assert file.name == "ppo-pgx-tic_tac_toe.json" and found["frames"] == 256 and found["commit"]
    run = load_run(folder)
    assert tuple(found["scores"]) == match.PLAYERS == ("lookahead", "random", "perfect")
    for opponent in found["scores"]:
        wanted = match.compare(run, run.plan, opponent, 8)
        assert list(found["scores"][opponent]) == ["0", "1"]
        for seed, rows in wanted.items():
            for row, told in zip(rows, found["scores"][opponent][str(seed)], strict=True):
                assert told.pop("seat") == row.seat
                assert list(told.values()) == pytest.approx(row[1:], abs=1e-4)
    table = [line for line in results_page.table(tmp_path).splitlines() if "games/ppo-pgx-tic_tac_toe.json" in line]
    assert len(table) == 6 and all("| 256 | 2 | " in line and "| 16 |" in line for line in table)
    agent = load_run(tmp_path / "zoo" / "ppo-pgx-tic_tac_toe.safetensors")
    seed = agent.settings.options.seed
    alone = match.compare(agent, agent.plan, "lookahead", 8, seed=0)
    assert alone[seed] == match.compare(run, run.plan, "lookahead", 8, seed=0)[seed], "by one earlier self of eight"
    assert script.train(game, SMALL, folder) == 0, "a run that is complete stays"


@pytest.mark.slow
def test_a_planner_also_plays_with_more_simulations(script, tmp_path):
    game = script.BoardGame("alphazero", "pgx/tic_tac_toe", seeds=1, opponents=("lookahead", "random"), simulations=4)
    assert script.train(game, SMALL | {"num_simulations": 1}, tmp_path / "run") == 0
    found = json.loads(script.publish(game, tmp_path / "run", 8, tmp_path).read_text())["scores"]
    assert tuple(found) == ("lookahead", "random", "lookahead, 4 simulations")
    run = load_run(tmp_path / "run").searching(4)
    (rows,) = match.compare(run, run.plan, "lookahead", 8).values()
    assert [row["won"] for row in found["lookahead, 4 simulations"]["0"]] == pytest.approx([row.won for row in rows])


def test_unknown_games_are_errors(script):
    with pytest.raises(InputError, match="unknown game 'ppo-chess'"):
        script.main(["ppo-chess"])
    with pytest.raises(InputError, match="name a game, or --all"):
        script.main([])
