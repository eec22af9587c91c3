"""The script that plugs in pieces of one's own runs, and every variant learns."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_variant_learns():
    spec = importlib.util.spec_from_file_location("own_pieces", ROOT / "scripts" / "own_pieces.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    returns = script.main(30_000)
    assert len(returns) == 4
    assert all(value > 30 for value in returns.values()), returns  # a random policy's is 22
