"""Completes the pages of algorithms and environments, of which a part is written by hand, when the site is built."""

import re
from pathlib import Path
from typing import Any

import algorithm_pages
import environment_pages
import md
import published
from sphinx.application import Sphinx

from purerl.catalog.algorithms import ALGORITHMS

TABLES = {  # page -> what stands at its line [table]
    "algorithms/index": algorithm_pages.index,
    "environments/index": environment_pages.index,
    "api/algorithms": algorithm_pages.old_addresses,
    "api/environments": environment_pages.old_addresses,
}


LINKED = ("envs", "notebooks", "results")  # links to folders that, in the repository, are not inside docs/


def draw_curves(app: Any) -> None:
    """Draw the curves of every algorithm, where they are not there yet."""
    for name in ALGORITHMS:
        published.draw(name, Path(app.srcdir) / "algorithms" / "curves" / f"{name}.png")


def expand(app: Any, page: str, source: list[str]) -> None:
    """Complete a page of an algorithm or an environment; make links of arXiv numbers on every page."""
    folder, _, name = page.partition("/")
    if page in TABLES:
        source[0] = source[0].replace("\n[table]\n", f"\n{TABLES[page]()}\n")
    elif folder == "algorithms":
        source[0] = algorithm_pages.expand(name, source[0])
    elif folder == "environments":
        source[0] = environment_pages.expand(name, source[0])
    if folder in LINKED:
        source[0] = source[0].replace("](../docs/", "](/")
    source[0] = re.sub(rf"\]\((?:\.\./)+({'|'.join(LINKED)})/([^)#]*)\.(?:md|ipynb)", r"](/\1/\2", source[0])
    if not page.startswith("notebooks"):
        source[0] = md.linked(source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what is above."""
    app.connect("builder-inited", draw_curves)
    app.connect("source-read", expand, priority=400)  # before the reference
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
