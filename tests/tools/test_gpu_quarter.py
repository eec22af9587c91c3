"""A quarter of an hour on a GPU: order of stages, their limits, stages that a second run skips, and the wheels."""

import json
import os
import sys
import time
import zipfile

import pytest

from benchmarks.groups import BENCHMARKS
from purerl.errors import InputError

pytestmark = pytest.mark.publish

REPORT = """
from pathlib import Path
machine, file_name = dict, lambda about: "benchmark-x.json"
code = lambda: Path("code").read_text()
read, page = lambda path: {}, lambda groups, names: "figures of " + " ".join(names)
"""
MAIN = """
import json, subprocess, sys
from pathlib import Path
from benchmarks import report
name, out = sys.argv[1], Path(sys.argv[sys.argv.index("--out") + 1])
if name == "gpu.hangs":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (out / "child").write_text(str(child.pid))
    child.wait()
if name == "gpu.fails":
    sys.exit("ValueError: seven values, not six")
path = out / "benchmark-x.json"
groups = json.loads(path.read_text())["groups"] if path.exists() else {}
groups[name] = {"code": report.code(), "settings": {"tiny": "--tiny" in sys.argv}, "words": sys.argv[1:]}
path.write_text(json.dumps({"groups": groups}))
"""


@pytest.fixture
def clone(script, tmp_path, monkeypatch):
    """A clone whose benchmarks take no time."""
    (tmp_path / "benchmarks").mkdir()
    for name, text in (("__init__", ""), ("report", REPORT), ("__main__", MAIN)):
        (tmp_path / "benchmarks" / f"{name}.py").write_text(text)
    (tmp_path / "code").write_text("one")
    for name, place in (("ROOT", tmp_path), ("WHEELS", tmp_path / ".wheels"), ("SITE", tmp_path / "site")):
        monkeypatch.setattr(script, name, place)
    return tmp_path


def groups_of(clone):
    return json.loads((clone / "out" / "benchmark-x.json").read_text())["groups"]


def test_a_second_run_measures_what_the_first_did_not(script, clone, capsys):
    folder = clone / ".wheels" / "checkouts" / "purejaxrl"
    folder.mkdir(parents=True)
    quick = script.Stage("quick", 10, ("purejaxrl", "craftax"))
    hangs, fails = script.Stage("hangs", 1), script.Stage("fails", 10)
    began = time.monotonic()
    assert script.run([quick, hangs, fails], minutes=21 / 60, out=clone / "out", dry=True) == 2
    assert time.monotonic() - began < 21
    first, second, third, *page = capsys.readouterr().out.splitlines()
    assert "gpu.quick: measured" in first and "gpu.hangs: stopped at its limit of" in second
    assert "gpu.fails: ended with 1: ValueError: seven values, not six" in third
    assert page[0] == "figures of gpu.quick"
    assert not running(int((clone / "out" / "child").read_text())), "what a stage started ends with it"
    words = groups_of(clone)["gpu.quick"]["words"]
    assert words[-2:] == ["--against", f"purejaxrl={folder}"] and "--tiny" in words
    assert script.run([quick], minutes=1, out=clone / "out", dry=True) == 0
    assert capsys.readouterr().out == ""
    (clone / "code").write_text("two")
    assert script.run([quick], minutes=1, out=clone / "out", dry=True) == 0
    assert "gpu.quick: measured" in capsys.readouterr().out and groups_of(clone)["gpu.quick"]["code"] == "two"


def running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{process}/stat") as file:
        return file.read().split()[2] != "Z"


def test_without_a_gpu_there_is_one_line(script, clone, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    with pytest.raises(InputError, match="no GPU here"):
        script.run(script.STAGES, minutes=1, out=clone / "out", dry=False)


def test_stages_are_parts_of_the_group_and_fit(script):
    names = {f"gpu.{stage.name}" for stage in script.STAGES}
    assert names == {name for name in BENCHMARKS if name.startswith("gpu.")} - {"gpu.kernels", "gpu.launches"}
    assert sum(stage.seconds for stage in script.STAGES) == 60 * script.MINUTES == 720


def test_limits_divide_the_time_that_is_left(script):
    a, b, c = (script.Stage(name, seconds) for name, seconds in (("a", 60), ("b", 30), ("c", 10)))
    assert script.limit_of([a, b, c], 100.0) == 60.0
    assert script.limit_of([b, c], 80.0) == 60.0, "what the first left is theirs"
    assert script.limit_of([a, b, c], 50.0) == 50.0
    assert script.limit_of([a, b, c], 29.0) is None and script.limit_of([b, c], 29.0) == 29.0


def test_the_command_line_is_short(script):
    assert len(script.command_line()) <= 2000
    assert "gpu_quarter.py run" in script.command_line()


def test_wheels_lose_data_for_tests_alone(script, tmp_path):
    wheel = tmp_path / "some-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("some/__init__.py", "x = 1")
        file.writestr("some/test_data/large.obj", "y" * 1000)
    script.slim(wheel)
    with zipfile.ZipFile(wheel) as file:
        assert file.namelist() == ["some/__init__.py"] and file.read("some/__init__.py") == b"x = 1"
    assert list(tmp_path.iterdir()) == [wheel]


def test_sources_of_a_checkout(script, tmp_path):
    for name in ("LICENSE", "docs/large.gif", "pkg/ppo.py"):
        path = tmp_path / "from" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    script.copy_sources(tmp_path / "from", tmp_path / "to")
    found = {str(path.relative_to(tmp_path / "to")) for path in (tmp_path / "to").rglob("*") if path.is_file()}
    assert found == {"LICENSE", "pkg/ppo.py"}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [(["run", "--only", "ppo-wid"], "ppo-wide"), (["pack", "--checkouts", "purejaxrl=/no/where"], "/no/where")],
)
def test_bad_input_is_one_line(script, words, complaint, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpu_quarter.py", *words])
    with pytest.raises(InputError, match=complaint):
        script.main()


@pytest.mark.parametrize("names", ["compile,grid-5"])
def test_a_dry_run(script, names, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpu_quarter.py", "run", "--dry", "--only", names, "--out", str(tmp_path)])
    assert script.main() == 0
    (path,) = tmp_path.glob("benchmark-*.json")
    groups = json.loads(path.read_text())["groups"]
    assert set(groups) == {"gpu.compile", "gpu.grid-5"}
    (table,) = groups["gpu.grid-5"]["tables"]
    assert table["title"].endswith("tiny") and table["rows"][0][1] == "purerl" and table["rows"][0][2]["median"] > 0
    programs = [row[0] for row in groups["gpu.compile"]["tables"][0]["rows"]]
    assert programs == 2 * ["the first product of the process", "start", "advance", "evaluate"]
