"""What the pages take from the code: docstrings as they are written here, public names, help pages, the gallery."""

import dataclasses
import functools
import html
import importlib
import inspect
import io
import pkgutil
import re
import tokenize
from typing import Any

import md
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import purerl
from purerl import registry
from purerl.catalog.algorithms import ALGORITHMS
from purerl.catalog.environments import ENVIRONMENTS
from purerl.fields import is_static


def write_plainly(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape what reStructuredText would read as markup, outside of code, and list the fields of a record."""
    blocks = re.split(
        r"(?<=\n\n)((?:    .*\n|\n(?=    ))+)", "\n".join([*lines, ""])
    )  # equations and tables are indented
    blocks[::2] = [_prose(block) for block in blocks[::2]]
    blocks[1::2] = [f"::\n\n{block}\n" for block in blocks[1::2]]
    lines[:] = "".join(blocks).split("\n")
    lines[:] = [_linked(line) for line in lines]
    if what == "class" and thing in with_own_tables():
        lines += ["", "The table of its fields is above.", ""]
    elif what == "class" and (fields := fields_of(thing)):
        lines += ["", "**Fields**", ""]
        for field, default, doc in fields:
            lines += [f"- ``{field}{default}``" + (f": {_plain(doc)}" if doc else "")]
        lines += [""]


@functools.cache
def with_own_tables() -> frozenset[type]:
    """Return the classes whose fields a page shows in a table: algorithms' settings and environments."""
    configs = {entry.config for entry in ALGORITHMS.values()}
    return frozenset(registry.load(path) for path in (*configs, *ENVIRONMENTS.values()))


def _linked(line: str) -> str:
    """Return a line of a docstring whose arXiv numbers and DOIs are links."""
    for pattern, address in md.LINKS:
        line = pattern.sub(lambda found, to=address: f"`{found[0]} <{found.expand(to)}>`__", line)
    return line


def _prose(text: str) -> str:
    """Return a text whose sentences are escaped; examples, from >>> to an empty line, stay as they are."""
    parts = re.split(r"^( *>>> .*\n(?:.*\S.*\n)*)", text, flags=re.MULTILINE)
    parts[::2] = [_plain(part) for part in parts[::2]]
    return "".join(parts)


def _plain(text: str) -> str:
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"([*|`]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [
        f"`{part}`" + "\\ " * after[:1].isalnum() for part, after in zip(parts[1::2], parts[2::2], strict=True)
    ]
    return "".join(parts)


def fields_of(cls: type) -> list[tuple[str, str, str]]:
    """Return (name, " = default", meaning) of each field of a pytree or a named tuple that says what its fields are."""
    if dataclasses.is_dataclass(cls):
        return [
            (field.name, _default(field), field.metadata["doc"] + (" (static)" if is_static(field) else ""))
            for field in dataclasses.fields(cls)
            if field.metadata.get("doc")
        ]
    if not hasattr(cls, "_fields"):
        return []
    said = _comments(cls)
    return [(name, "", said.get(name, "")) for name in cls._fields]


def _default(field: dataclasses.Field) -> str:
    missing = field.default is dataclasses.MISSING
    return "" if missing or not isinstance(field.default, int | float | str | tuple | None) else f" = {field.default!r}"


def _comments(cls: type) -> dict[str, str]:
    """Return the comments behind, or in the lines after, the fields of a class."""
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):
        return {}
    found: dict[str, str] = {}
    name = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.start[1] == 4 and token.string in ("def", "@"):
            break
        if token.type == tokenize.NAME and token.start[1] == 4 and token.line.lstrip().startswith(f"{token.string}: "):
            name = token.string
        elif token.type == tokenize.COMMENT and name:
            found[name] = f"{found.get(name, '')} {token.string.lstrip('# ')}".strip()
    return found


def skip(app: Any, what: str, name: str, thing: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out a named tuple's positions ("Alias for field number 0"), and what other projects document."""
    elsewhere = callable(thing) and not str(getattr(thing, "__module__", "purerl")).startswith("purerl")
    return True if elsewhere or type(thing).__name__ == "_tuplegetter" else None


def shorten(app: Any, what: str, name: str, thing: Any, options: Any, signature: str, returns: str) -> Any:
    """Leave out the arguments of a record whose many fields are listed below."""
    return ("(...)", None) if what == "class" and len(fields_of(thing)) > 8 else None


def home(name: str) -> str:
    """Return where a public name is documented: `purerl.make` at `purerl.registry.make`."""
    thing = getattr(purerl, name)
    return thing.__name__ if inspect.ismodule(thing) else f"{purerl._HOME_OF[name]}.{name}"


def write_rooms(app: Any, page: str, source: list[str]) -> None:
    """Put help pages at `[commands]`, and the reference at `[modules: purerl.functional.* purerl.types]`."""
    if "\n[commands]\n" in source[0]:
        from purerl.commands.cli import COMMANDS

        pages = "".join(f"## {name}\n\n```{{command-help}} {name}\n```\n\n" for name in COMMANDS)
        source[0] = source[0].replace("\n[commands]\n", f"\n{pages}")
    source[0] = re.sub(
        r"^\[modules: (.*)\]$", lambda found: _reference(found[1].split()), source[0], flags=re.MULTILINE
    )


def _reference(names: list[str]) -> str:
    modules = []
    for name in names:
        package = importlib.import_module(name.removesuffix(".*"))
        inside = sorted(part.name for part in pkgutil.iter_modules(package.__path__)) if name.endswith(".*") else []
        modules += [f"{package.__name__}.{part}" for part in inside] if inside else [name]
    return "\n\n".join(f"## {module}\n\n{_folded(module)}" for module in modules)


def _folded(module: str) -> str:
    """Return the reference of a module, which opens with a click on the first line of its docstring."""
    first = (inspect.getdoc(importlib.import_module(module)) or module).split("\n\n")[0]
    summary = html.escape(" ".join(first.split()).replace("`", ""))
    part = f"```{{eval-rst}}\n.. automodule:: {module}\n   :members:\n```"
    return f"<details>\n<summary>{summary}</summary>\n\n{part}\n\n</details>"


class PublicNames(SphinxDirective):
    """A table of every name that `import purerl` offers, with its first line and a link."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = ["| name | |", "|---|---|"]
        for name in sorted(set(purerl.__all__) - {"__version__"}):
            thing = getattr(purerl, name)
            role = "mod" if inspect.ismodule(thing) else "class" if isinstance(thing, type) else "func"
            first = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
            rows.append(f"| {{py:{role}}}`purerl.{name} <{home(name)}>` | {first} |")
        return self.parse_text_to_nodes("\n".join(rows))


class CommandHelp(SphinxDirective):
    """The help page of a command: `{command-help} train`."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return it as a block of text."""
        from click.testing import CliRunner

        from purerl.commands.cli import cli

        shown = CliRunner().invoke(cli, [*self.arguments[0].split(), "--help"], prog_name="purerl", terminal_width=100)
        assert shown.exit_code == 0, shown.output
        return [nodes.literal_block(shown.output, shown.output, language="text")]


class Gallery(SphinxDirective):
    """Every native environment with its picture, three in a row."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        cells = []
        for env_id, path in ENVIRONMENTS.items():
            first = (registry.load(path).__doc__ or "").split("\n")[0]
            first = first.replace("|", "\\|")
            cells.append(f"![{env_id}](gallery/{env_id}.gif)<br>[{env_id}](environments/{env_id}.md)<br>{first}")
        cells += [""] * (-len(cells) % 3)
        rows = ["| | | |", "|---|---|---|", *(f"| {' | '.join(cells[i : i + 3])} |" for i in range(0, len(cells), 3))]
        table = self.parse_text_to_nodes("\n".join(rows))
        for node in table:
            node["classes"].append("gallery")  # type: ignore[index]
        return table


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what is above."""
    app.connect("autodoc-process-docstring", write_plainly, priority=100)  # before napoleon
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-signature", shorten)
    app.connect("source-read", write_rooms)
    app.add_directive("public-names", PublicNames)
    app.add_directive("command-help", CommandHelp)
    app.add_directive("environment-gallery", Gallery)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
