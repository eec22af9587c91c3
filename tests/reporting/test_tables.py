"""Tables as text."""

from purerl.reporting import tables


def test_columns_are_as_wide_as_their_cells():
    found = tables.lines([("a", 1.5, "x"), ("longer", 20, "[bold]y[/]")], ("name", "number", "text"))
    assert found == [
        "name    number        text",
        "a          1.5           x",
        "longer      20  [bold]y[/]",
    ]
    assert tables.lines([("a", "b"), ("cc", "d" * 300)], left=2) == ["a   b", f"cc  {'d' * 300}"]
    assert tables.lines([]) == []


def test_control_characters_are_shown_as_text():
    assert "\x1b" not in "".join(tables.lines([("\x1b[31m", 1)]))
