"""No package of the core or the lab names an extension: its names occur only in its own folder and in the commands."""

import re
from pathlib import Path

import pytest

from purerl.catalog.extensions import EXTENSIONS

PACKAGE = Path(__file__).parent.parent / "purerl"
WORDS = {
    "levels": r"\blevels?_\w+|\bLevel(Options|Trainer|Agent|Space|Buffer)\b|\bheld_out\b|\bplr\b|\baccel\b",
    "self_play": r"\bself_?play\b|\bSelfPlay\w*|\belo\b|\bselves\b",
    "groups": r"\bmulti_agent\b|\bMultiAgentConfig\b|\bpolicies_for\b|\bGroup(Policy|sConfig|Options)\b|\bAssigned\b",
    "planning": r"\buses_model\b|\bplays_sides\b|\bwith_model\b|\bplanning_trainer\b|\bSituations?\b",
    "objectives": r"\bObjectiveOptions\b",
    "self_tuning": r"\bself_tun\w+|\bSelfTuneOptions\b|\bTunedAgent\b",
    "host": r"\bHost(Trainer|Settings|Options)\b|\bmake_host_trainer\b|\bJaxSource\b|\bsampler\b|\bactors\b",
}
ROOMS = ("types.py", "settings", "run", "sweeps", "profiling", "loop", "testing", "functional", "networks", "replay")


def lines(room):
    """Return (file:line, text) of a room's code."""
    paths = [PACKAGE / room] if room.endswith(".py") else sorted((PACKAGE / room).rglob("*.py"))
    for path in paths:
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{path.relative_to(PACKAGE)}:{number}", text


def test_every_extension_has_its_words():
    assert set(WORDS) == set(EXTENSIONS)
    for name, words in WORDS.items():
        own = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "extensions" / name).rglob("*.py"))
        assert re.search(words, own), name


@pytest.mark.parametrize("name", WORDS)
def test_no_other_room_names_an_extension(name):
    found = [f"{where} {text.strip()}" for room in ROOMS for where, text in lines(room) if re.search(WORDS[name], text)]
    imports = re.compile(rf"purerl\.extensions\.{name}\b")
    found += [f"{where} {text.strip()}" for room in ROOMS for where, text in lines(room) if imports.search(text)]
    assert not found, "\n".join(found)
