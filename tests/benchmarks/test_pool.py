"""The benchmark of pools goes on where it stopped, and writes its bars where the README wants them."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_parts_that_are_there_are_kept_and_modes_become_bars(script, tmp_path, monkeypatch):
    measured, file, page = [], tmp_path / "results" / "pool.json", tmp_path / "README.md"
    page.write_text((ROOT / "README.md").read_text())

    def part(name, figures):
        return lambda seconds: measured.append(name) or iter([figures])

    modes = {"serial": 100.0, "async": 250.0}
    monkeypatch.setattr(script, "PARTS", {"pool": part("pool", {"ours": 7.0}), "modes": part("modes", modes)})
    script.main(["pool", "--json", str(file)])
    script.main(["--json", str(file), "--readme", str(page)])
    script.main(["--json", str(file)])
    assert measured == ["pool", "modes"]
    script.main(["pool", "--json", str(file)])
    assert measured == ["pool", "modes", "pool"]
    held = json.loads(file.read_text())
    assert held["pool"]["figures"] == {"ours": 7.0} and held["modes"]["machine"]["cores"] >= 1
    lines = page.read_text().split("<!-- modes -->")[1].split("<!-- end of modes -->")[0].splitlines()
    serial, ahead = (next(line for line in lines if name in line) for name in modes)
    assert serial.count("#") == 20 and ahead.count("#") == 50 and "2.50x serial" in ahead


def test_ataris_share_becomes_a_table(script):
    rates = {"bare": 2000.0, "PPO batched": 500.0, "PPO batched, share left": 0.25}
    figures = {f"{name}, {of}": rate for name in script.PONGS for of, rate in rates.items()}
    figures |= {"envpool/Pong-v5, idle async where learning is quick": 0.04}
    told = script.shares({"figures": figures, "machine": {"cores": 2, "processor": "Z80", "load": 0.1}})
    assert "| | bare, steps/s | batched |" in told and told.count("| 2,000 | 25.0% |") == 2
    assert "2 cores of an Z80" in told and "4% of the time" in told
