"""What is shown while a run runs."""

import sys

import numpy as np
import pytest
import rich.console

from purerl.errors import InputError
from purerl.reporting import display


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0.4 s"), (42.4, "42 s"), (187, "3:07"), (7391, "2:03:11"), (float("nan"), "-")]
)
def test_duration(seconds, text):
    assert display.duration(seconds) == text


def status(update, returns):
    shown = display.over_seeds(np.array(returns, np.float32))
    line = f"{512 * update:>11,} steps  return {shown}  100,000 steps/s"
    rows = [
        ("steps", f"{512 * update:,} of 51,200"),
        ("return, training", shown),
        display.CURVE,
        ("losses", "loss 0.25"),
    ]
    return display.Status(share=update / 100, seconds_left=2.0, height=np.mean(returns), line=line, rows=rows)


def test_sparkline_and_numbers():
    assert display.sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert display.sparkline([3.0, 3.0]) == "▁▁"
    assert display.sparkline([]) == ""
    assert len(display.sparkline(list(range(1000)), width=40)) == 40
    assert [display.number(x) for x in (0.0, 1e-7, 12.34567, 123456.7, 1e9, float("nan"))] == [
        "0", "1.00e-07", "12.35", "123,457", "1.00e+09", "-",
    ]  # fmt: skip
    assert display.over_seeds(np.array([np.nan, np.nan])) == "-"
    assert display.over_seeds(np.array([1.0, np.nan, 3.0])) == "2  (1 .. 3)"


def test_plain_lines_are_few(capsys):
    shown = display.open_display("title", "plain")
    for update in range(1, 101):
        shown.update(status(update, [float("nan")] if update < 50 else [7.0]))
    shown.close()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "title"
    assert 10 <= len(lines) <= 13
    assert lines[-1].startswith("100%       51,200 steps  return 7  100,000 steps/s")


def test_the_live_panel_shows_everything(monkeypatch):
    from rich.console import Console

    live = display.Live("ppo on CartPole-v1")
    live.close()
    live._console = Console(width=100)
    live.stage("compiling")
    with live._console.capture() as captured:
        live._console.print(live)
    assert "compiling (0.0 s)" in captured.get()
    live.update(status(50, [2.0, 4.0]))
    with live._console.capture() as captured:
        live._console.print(live)
    for text in (
        "ppo on CartPole-v1",
        "50%",
        "2.0 s left",
        "25,600 of 51,200",
        "return, training",
        "▁",
        "3  (2 .. 4)",
        "loss 0.25",
    ):
        assert text in captured.get()


@pytest.mark.parametrize("kind", [display.Plain, display.Live])
def test_escape_sequences_and_markup_are_shown_and_not_obeyed(kind, capsys):
    title, shown = "on \x1b]0;stolen\x07 [red]x[/red] :smile:", None
    shown = kind(title)
    shown.line("raised: \x1b[2J\x9b31m [bold]y[/bold]")
    shown.update(status(100, [1.0]))
    shown.close()
    out = capsys.readouterr().out
    assert "\x1b]0" not in out and "\x07" not in out and "\x9b31m" not in out and "\x1b[2J" not in out
    assert r"\x1b]0;stolen\x07 [red]x[/red] :smile:" in out and r"raised: \x1b[2J\x9b31m [bold]y[/bold]" in out


@pytest.mark.long
def test_a_notebook_shows_the_panel(monkeypatch, capsys):
    """In IPython's kernel the panel is one cell's output, redrawn."""
    IPython = pytest.importorskip("IPython.display") and sys.modules["IPython"]

    shown, cells = [], []

    class Cell:
        def update(self, data, raw):
            shown.append(data)

    def show(data, display_id=False, **_):
        cells.append(data)
        shown.append(data)
        return Cell()

    class ZMQInteractiveShell:
        pass

    monkeypatch.setattr(IPython, "get_ipython", ZMQInteractiveShell)
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    monkeypatch.setattr(IPython.display, "display", show)
    panel = display.open_display("a \x1b title")
    panel.stage("compiling")
    panel.update(status(50, [2.0]))
    panel.line("a line")
    panel.close()
    assert capsys.readouterr().out == "a line\n"
    assert len(cells) == 1, "rich, which knows notebooks, shows no panels of its own"
    assert "compiling" in shown[1]["text/html"] and "return, training" in shown[-1]["text/html"]
    assert "\\x1b title" in shown[-1]["text/plain"] and shown[-1]["text/html"].count("<pre") == 1
    with pytest.raises(InputError, match="unknown display 'loud'"):
        display.open_display("title", "loud")
