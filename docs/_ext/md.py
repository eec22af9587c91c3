"""Markdown that several generated pages use: tables, links of sources, the code of a function."""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from purerl.fields import is_static

LINKS = (  # what names a source in a text, and its address
    (re.compile(r"(?<![\w/\[(])arXiv:(\d{4}\.\d{4,5})"), r"https://arxiv.org/abs/\1"),
    (re.compile(r"(?<![\w/\[(])doi:(10\.\d{4,}/[^\s,;)]*[^\s,;.)])"), r"https://doi.org/\1"),
    (re.compile(r"(?<![\w/\[(])(openreview\.net/forum\?id=\w+)"), r"https://\1"),
)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a cell's line breaks and bars are escaped."""
    line = (
        lambda cells: "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", cell).replace("\n", " ") for cell in cells) + " |"
    )
    return "\n".join([line(header), "|" + "---|" * len(header), *map(line, rows)])


def facts_table(facts: Mapping[str, str]) -> str:
    """Return a table of two columns: what, and what holds of it; what holds nothing is left out."""
    first, *others = [(f"**{what}**", said) for what, said in facts.items() if said]
    return table(first, others)


def linked(text: str) -> str:
    """Return a text whose arXiv numbers and DOIs are links; code blocks and code spans stay as they are."""
    parts = re.split(r"(^```.*?^```$|^    .*$|`[^`\n]*`|\]\([^)]*\)|<[^>\n]*>)", text, flags=re.MULTILINE | re.DOTALL)
    for pattern, address in LINKS:
        parts[::2] = [pattern.sub(rf"[\g<0>]({address})", part) for part in parts[::2]]
    return "".join(parts)


def fields_table(cls: type, names: Sequence[str]) -> str:
    """Return the table of some fields of a config or an environment: default, meaning, what is allowed."""
    fields = [field for field in dataclasses.fields(cls) if field.name in names]
    fields.sort(key=lambda field: names.index(field.name))
    rows = [
        (
            f"`{field.name}`" + " \\*" * is_static(field),
            default_of(field),
            field.metadata.get("doc", ""),
            allowed(field),
        )
        for field in fields
    ]
    bounded = any(row[-1] for row in rows)
    return table(("name", "default", "meaning", "allowed")[: 3 + bounded], [row[: 3 + bounded] for row in rows])


def default_of(field: dataclasses.Field) -> str:
    """Return a field's default as text; an array is shown by its shape."""
    if field.default is dataclasses.MISSING:
        if field.default_factory is dataclasses.MISSING:
            return ""
        made: Any = field.default_factory()
        return f"{made.dtype}{list(made.shape)}" if hasattr(made, "shape") else f"`{made}`"
    value: Any = field.default
    if hasattr(value, "shape") or isinstance(value, float):
        return f"`{float(value):.6g}`"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10_000:
        return f"`{value:_}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "`none`" if value is None else "`()`" if value == () else f"`{value}`"


def allowed(field: dataclasses.Field) -> str:
    """Return the values that a field accepts, as far as it declares them."""
    if choices := field.metadata.get("choices"):
        return ", ".join(f"`{choice}`" for choice in choices)
    bounds = field.metadata.get("bounds") or {}
    words = {"at_least": "≥", "above": ">", "at_most": "≤", "below": "<"}
    return ", ".join(f"{words[name]} {bounds[name]:g}" for name in words if bounds.get(name) is not None)


def source_of(module_name: str, qualname: str) -> str:
    """Return a function's code, also of one inside another, as a block with its line numbers.

    Args:
      module_name: of the file.
      qualname: such as "ppo.update", for `update` inside `ppo`.

    Raises:
      LookupError: if the file has no such function.
    """
    file = Path(inspect.getsourcefile(importlib.import_module(module_name)) or "")
    text = file.read_text(encoding="utf-8")
    node: Any = ast.parse(text)
    for name in qualname.split("."):
        inside = [child for child in ast.walk(node) if getattr(child, "name", None) == name and child is not node]
        if not inside:
            raise LookupError(f"{module_name} has no {qualname}")
        node = inside[0]
    lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
    code = textwrap.dedent("\n".join(lines))
    options = f":lineno-start: {node.lineno}\n:caption: {shown(module_name)}"
    return f"```{{code-block}} python\n{options}\n\n{code}\n```"


def line_of(module_name: str, snippet: str) -> str:
    """Return "file, line N" for the one line of a module that holds a text.

    Raises:
      LookupError: if no line holds it, or more than one.
    """
    file = Path(inspect.getsourcefile(importlib.import_module(module_name)) or "")
    found = [i for i, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1) if snippet in line]
    if len(found) != 1:
        raise LookupError(f"{len(found)} lines of {module_name} hold {snippet!r}; it must be one")
    return f"`{shown(module_name)}`, line {found[0]}"


def shown(module_name: str) -> str:
    """Return the path of a module as a reader finds it in the repository."""
    path = module_name.replace(".", "/") + ".py"
    return path.removeprefix("purerl/") if path.startswith(("purerl/algos/", "purerl/envs/")) else path
