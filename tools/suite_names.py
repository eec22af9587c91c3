"""Write `envs/adapters/known.py` again: the names of each suite that takes seconds to import.

python tools/suite_names.py     # names of installed suites; the rows of the others stay
"""

import importlib
from importlib import metadata
from pathlib import Path

from purerl.catalog.environments import SUITES
from purerl.envs.adapters import known
from purerl.registry import installed

WIDTH = 112
FILE = Path(known.__file__)


def lines(names: list[str]) -> list[str]:
    """Return the names as the source of one text over several lines, each with a space at its end but the last."""
    rows = [""]
    for name in names:
        if len(rows[-1]) + len(name) > WIDTH - 12:
            rows.append("")
        rows[-1] += f"{name} "
    return [f'        "{row}"' for row in rows[:-1]] + [f'        "{rows[-1].rstrip()}"']


def table() -> str:
    """Return the source of `NAMES`, of the versions that are installed."""
    source = ["NAMES = {"]
    for suite, (version, names) in sorted(known.NAMES.items()):
        found = names.split()
        if installed(suite):
            version, found = metadata.version(suite), importlib.import_module(SUITES[suite].module).names()
        source += [f'    "{suite}": Names(', f'        "{version}",', *lines(sorted(found)), "    ),"]
    return "\n".join([*source, "}"]) + "\n"


if __name__ == "__main__":
    text = FILE.read_text(encoding="utf-8")
    before, _, rest = text.partition("NAMES = {\n")
    FILE.write_text(before + table() + rest.partition("\n}\n")[2], encoding="utf-8")
