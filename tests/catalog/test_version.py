from pathlib import Path

import purerl
from purerl.catalog.version import VERSION

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def test_the_version_is_one_and_the_changelog_has_it():
    assert purerl.__version__ == VERSION
    assert f"## {VERSION} (" in CHANGELOG.read_text(encoding="utf-8")
