"""Print the section of CHANGELOG.md of a tag, after a check that it is the package's version.

python .ci/release_notes.py v0.1.0
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def notes(tag: str) -> str:
    """Return the changelog's section of a tag.

    Raises:
      SystemExit: if the tag is not the version of the package, or the changelog has no dated section of it.
    """
    version = re.search(r'^VERSION = "(.+)"$', (ROOT / "purerl" / "catalog" / "version.py").read_text(), re.MULTILINE)
    assert version is not None
    if tag != f"v{version[1]}":
        raise SystemExit(f"the tag is '{tag}', the version v{version[1]}: change purerl/catalog/version.py first")
    changelog = (ROOT / "CHANGELOG.md").read_text()
    section = re.search(
        rf"^## {re.escape(version[1])} \((\d{{4}}-\d\d-\d\d)\)\n(.*?)(?=^## |\Z)", changelog, re.M | re.S
    )
    if section is None:
        raise SystemExit(f"CHANGELOG.md has no section '## {version[1]} (YYYY-MM-DD)': a release has a date")
    return section[2].strip()


if __name__ == "__main__":
    print(notes(sys.argv[1] if len(sys.argv) > 1 else ""))
