"""The report on a suite: what holds, what fails and why, and that it resumes."""

import json

import pytest
from click.testing import CliRunner

from purerl import InputError, registry

pytestmark = pytest.mark.publish

DONE = {"failed": "", "done": ["made"], "compile_seconds": 1.5, "peak_mb": 7, "seconds": 2.0}


def test_an_id_that_fails_says_where_and_why(script):
    found = script.check_id("CartPole-v9")
    assert found["done"] == [] and found["failed"].startswith("make: unknown environment 'CartPole-v9'")
    assert found["compile_seconds"] is None and found["peak_mb"] > 50
    assert script.line("CartPole-v9", found).startswith("CartPole-v9: nothing; FAILED: make: unknown")


def test_an_id_has_a_limit_of_time(script):
    assert script.check_id("CartPole-v1", limit=0.2)["failed"] == "it takes more than 0.2 s"


def test_a_process_that_ends_is_told(script, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "no_such_backend")
    assert "no_such_backend" in script.check_id("CartPole-v1")["failed"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "second"), [("MemoryChain", "dqn"), ("PointMass", "sac"), ("CoinGame", "a2c")])
def test_an_id_that_holds(script, name, second):
    found = script.check_id(name)
    assert not found["failed"] and found["done"] == ["made", "stepped", "checked", "ppo", second]
    assert 0 < found["compile_seconds"] < found["seconds"]


def test_a_report_goes_on_where_it_ends(script, tmp_path, monkeypatch):
    file, told = tmp_path / "report.json", []
    monkeypatch.setattr(registry, "names", lambda suite: ["A-v9", "B-v9"])
    file.write_text(json.dumps({"suite": "native", "fields": {}, "ids": {"A-v9": DONE}}))
    report = script.check_suite("native", file, tell=told.append)
    assert told[0] == "1/2 A-v9: made (compiled in 1.5 s, 2.0 s, 7 MB)" and "2/2 B-v9: nothing; FAILED" in told[1]
    assert json.loads(file.read_text()) == report and report["ids"]["A-v9"] == DONE
    assert report["package"] == "purerl" and {"purerl", "jax"} <= set(report["versions"])
    assert report["ids"]["B-v9"]["failed"]
    for wrong in ("{", "[]", '{"suite": "gymnax", "ids": {}}'):
        file.write_text(wrong)
        with pytest.raises(InputError, match="exists, and is no report on native"):
            script.check_suite("native", file)


def test_some_ids_with_fields(script, tmp_path, monkeypatch):
    file = tmp_path / "report.json"
    monkeypatch.setattr(registry, "names", lambda suite: ["Acrobot-v1", "CartPole-v1", "CartPole-v9"])
    asked = []
    monkeypatch.setattr(script, "check_id", lambda name, limit, fields: asked.append((name, fields)) or DONE)
    report = script.check_suite("native", file, tell=asked.append, only=["Cart*"], fields={"gravity": 12.0})
    assert asked[0] == ("CartPole-v1", {"gravity": 12.0}) and list(report["ids"]) == ["CartPole-v1", "CartPole-v9"]
    assert report["fields"] == {"gravity": 12.0} and asked[1].startswith("1/2 CartPole-v1: made")
    with pytest.raises(InputError, match=r"is no report on native; name another"):
        script.check_suite("native", file)
    with pytest.raises(InputError, match=r"unknown environment of native 'Cartpole-v1': did you mean 'CartPole-v1'"):
        script.check_suite("native", file, only=["Cartpole-v1"])


def test_the_command_ends_with_1_where_an_id_fails(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "check_id", lambda *_: DONE | {"failed": "make: no"})
    words = ["native", "--only", "Catch", "--out", str(tmp_path / "report.json")]
    assert CliRunner().invoke(script.command, words).exit_code == 1


def test_an_id_is_made_with_the_fields(script):
    assert "gravity" in script.check_id("CartPole-v1", fields={"gravitation": 12.0})["failed"]


def test_an_unknown_suite(script, tmp_path):
    with pytest.raises(InputError, match="unknown suite 'gymnacks': did you mean 'gymnax'"):
        script.check_suite("gymnacks", tmp_path / "report.json")
