"""The style guide of CONTRIBUTING.md, as far as a test can enforce it."""

import ast
import re
import tokenize
from pathlib import Path

import pytest

from tests.helpers.sources import parsed

ROOT = Path(__file__).parent.parent
PAGES = [
    *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))),
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/README.md"),
]


def python_files(*folders):
    """Return the Python files of some folders, without those that are linked into them."""
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in files if not any(parent.is_symlink() for parent in path.parents)]


MODULES = python_files("purerl", "algos", "envs")
SOURCES = [*MODULES, *python_files("scripts", "tools", "benchmarks", "tests")]
LONGEST_SENTENCE = 35  # words
RULES = {
    r"(?<!here )\b(is|are|was|were) no (?!longer|more\b|less\b|fewer)[a-z]": "write 'is not a'",
    r"\btrainings\b|\b[Aa] training(?=[.,;:]| (is|of|was|that|ends|can)\b)": "write 'a training run'",
    r"\b(go|goes|going) (on|without|alone)\b": "write 'continues' or 'cannot be combined'",
    r"\b(anew|likewise|beside|towards)\b": "write 'again', 'the same', 'next to' or 'toward'",
    r"\bbut for\b|\bat first\b|\bin the end\b": "write 'except', 'initially' or 'at the end'",
    r"\b(is|are|be) told\b|\btold in\b": "write 'is reported'",
    r"\b(is|are) of\b|(?m:^ +\w+: of )": "supply the noun",
    r"\b(centi|kilo|milli)?metres?\b|\bgrey\b|\b(colo|behavio)ur|\bcentre|\bfor ever\b": "write American English",
    r"\b(optim|normal)is(e|ing|ation)": "write American English",
    r"(?<![\w.`/*\-\[(])\.\d": "write 0.95, not .95",
    r"\btrue successor|\bearlier selves\b": "write 'final observation' or 'past policies'",
}


def problems(text: str) -> list[str]:
    """Return what is wrong with a text, one line each."""
    found = [
        f"{advice}: {' '.join(text[max(0, match.start() - 30) : match.end() + 30].split())}"
        for rule, advice in RULES.items()
        for match in re.finditer(rule, text)
    ]
    for sentence in sentences(text):
        words = sentence.lstrip("-* ").split()
        if words[:1] in (["Of"], ["of"]) and words[1:2] != ["course."]:
            found.append(f"supply the noun: {sentence}")
        if len(words) > LONGEST_SENTENCE:
            found.append(f"{len(words)} words: {' '.join(words[:12])} ...")
    return found


def sentences(text: str) -> list[str]:
    """Return the sentences of a text. An item of a list and a cell of a table end one; so does a colon."""
    blocks = re.split(r"\n\s*\n|\n\s*(?=[-*] |\d+\. )|\|", text)
    return [sentence for block in blocks for sentence in re.split(r"(?<=[.!?:;])[*)]*\s+", " ".join(block.split()))]


def prose(markdown: str) -> str:
    """Return a page without code, figures that a program wrote, addresses and quotations."""
    text = re.sub(r"<!-- benchmark:.*?<!-- end of benchmark -->", "", markdown, flags=re.DOTALL)
    text = re.sub(r"^(```|:::).*?^(```|:::) *$", "\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "`code`", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r'<[^>]+>|"[^"\n]{1,80}"', "", text)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_follows_the_style_guide(page):
    assert problems(prose((ROOT / page).read_text(encoding="utf-8"))) == []


def test_the_rules_find_what_they_are_for():
    slips = [
        "It is no environment.",
        "Two trainings go on anew.",
        "An end is told in a line, but for the last.",
        "A value is of the state.",
        "Of a recurrent policy give the carry.",
        "A rate of .95 is grey.",
        "The true successor is kept.",
        " ".join(["word"] * 36) + ".",
    ]
    assert [slip for slip in slips if not problems(slip)] == []
    good = "There are no cycles. It is no longer slow. A training run resumes; see `.5`.\n- Of course.\n| a | b |"
    assert problems(prose(good)) == []
    assert problems(prose('```text\nis no code\n```\n    is no command\n\nThe words "is no" are quoted.')) == []


def messages(tree):
    """Yield (line, text) of the settings' and options' texts and of the errors of a module; {} is what is filled in."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        told = [keyword.value for keyword in node.keywords if keyword.arg in ("doc", "help", "short_help", "summary")]
        told += node.args[1:2] if name == "option" else node.args[:1] if name.endswith("Error") else []
        for value in told:
            parts = value.values if isinstance(value, ast.JoinedStr) else [value]
            if all(isinstance(part, ast.Constant | ast.FormattedValue) for part in parts):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
                yield value.lineno, text


def test_settings_and_errors_follow_the_style_guide():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {problem}"
        for path in MODULES
        for line, text in messages(parsed(path))
        for problem in problems(re.sub(r"`[^`]*`|'[^']*'", "code", text))
    ]
    assert found == []


def docstrings(tree):
    """Yield (line, text) of a module's docstrings, without examples and names of arguments; an argument is one line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            text = re.sub(r"(^ *>>>|\x08).*?(\n\s*\n|\Z)", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
            text = re.sub(r"(?<=\S)\n {4}(?=\S)", " ", text)
            yield getattr(node, "lineno", 1), re.sub(r"^  [\w*, ]+:", "  name:", text, flags=re.MULTILINE)


def comments(path):
    """Yield (line, text) of a file's comments; lines below one another are one comment."""
    row = column = 0
    parts = []
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type != tokenize.COMMENT:
                continue
            if token.start != (row + 1, column) or token.line.strip() != token.string:
                yield row, " ".join(parts)
                parts = []
            row, column = token.start
            parts.append(token.string.lstrip("# "))
    yield row, " ".join(parts)


def test_docstrings_follow_the_style_guide():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {problem}"
        for path in SOURCES
        for line, text in docstrings(parsed(path))
        for problem in problems(prose(text))
    ]
    assert found == []


def test_comments_follow_the_style_guide():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {problem}"
        for path in SOURCES
        for line, text in comments(path)
        for problem in problems(prose(text))
    ]
    assert found == []
