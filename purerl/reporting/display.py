"""The display of a long job: a live panel in a terminal or a notebook, plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from purerl.errors import printable, unknown

if TYPE_CHECKING:
    from rich.panel import Panel

BARS = "▁▂▃▄▅▆▇█"


CURVE = ("", "")  # the row of a panel in which the curve is drawn


class Status(NamedTuple):
    """The state of a long job."""

    share: float  # how much is done, 0 .. 1
    seconds_left: float
    height: float  # the number whose curve is drawn; NaN where it is not known yet
    line: str  # all of it, without share and time left
    rows: Sequence[tuple[str, str]]  # rows of the panel, including `CURVE`


def duration(seconds: float) -> str:
    """Return a duration as text: 0.4 s, 12 s, 3:07, 2:03:11."""
    if not math.isfinite(seconds):
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def number(value: float) -> str:
    """Return a number in at most seven characters or so; "-" for NaN."""
    if not math.isfinite(value):
        return "-"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def over_seeds(values: np.ndarray) -> str:
    """Return one seed's value, or the mean and range of several."""
    known = values[~np.isnan(values)]
    if not len(known):
        return "-"
    if len(values) == 1:
        return number(float(known[0]))
    return f"{number(float(known.mean()))}  ({number(float(known.min()))} .. {number(float(known.max()))})"


def sparkline(values: list[float], width: int = 40) -> str:
    """Return a curve in one line of text."""
    known = [value for value in values if math.isfinite(value)]
    if len(known) > width:
        known = [float(np.mean(part)) for part in np.array_split(known, width)]
    if not known:
        return ""
    low, high = min(known), max(known)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in known)


class Silent:
    """No display, for all processes except the first."""

    def line(self, text: str) -> None:
        """Do nothing."""

    def stage(self, text: str) -> None:
        """Do nothing."""

    def update(self, now: Status) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Close the display."""


class Plain:
    """Lines of text at intervals."""

    def __init__(self, title: str):
        """Show the title."""
        self._last_shown, self._last_time = -1.0, 0.0
        self.line(title)

    def line(self, text: str) -> None:
        """Print a line."""
        print(printable(text), flush=True)

    def stage(self, text: str) -> None:
        """Print the current stage."""
        self.line(f"{text} ...")

    def update(self, now: Status) -> None:
        """Print the state, about every tenth of it and at least every 30 seconds."""
        if now.share < 1 and now.share - self._last_shown < 0.1 and time.monotonic() - self._last_time < 30:
            return
        self._last_shown, self._last_time = now.share, time.monotonic()
        self.line(f"{now.share:4.0%}  {now.line}  {duration(now.seconds_left)} left")

    def close(self) -> None:
        """Close the display."""


class Live:
    """A panel that is redrawn in place, in a terminal."""

    def __init__(self, title: str):
        """Open the panel."""
        from rich.console import Console
        from rich.live import Live as RichLive

        self._open(title, Console(highlight=False, markup=False, emoji=False))
        self._live = RichLive(self, console=self._console, refresh_per_second=8, transient=False)
        self._live.start()

    def _open(self, title: str, console: Any) -> None:
        self._title, self._stage = printable(title), ""
        self._now: Status | None = None
        self._history: list[float] = []
        self._began = time.monotonic()
        self._console = console

    def line(self, text: str) -> None:
        """Print a line, above the panel while it is open."""
        self._live.console.print(printable(text), soft_wrap=True)

    def stage(self, text: str) -> None:
        """Show the current stage."""
        self._stage, self._began = text, time.monotonic()

    def update(self, now: Status) -> None:
        """Show the state."""
        self._now, self._stage = now, ""
        if math.isfinite(now.height):
            self._history.append(now.height)

    def close(self) -> None:
        """Close the panel, and leave its last state on the screen."""
        self._stage = ""
        self._live.stop()

    def __rich__(self) -> "Panel":
        """Return the panel's content; rich calls this."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        now = self._now
        parts: list[Any] = []
        if now is not None:
            bar = Table.grid(padding=(0, 1), expand=True)
            bar.add_column(ratio=1)
            bar.add_column(justify="right", no_wrap=True)
            left = f"{duration(now.seconds_left)} left" if now.share < 1 else "done"
            bar.add_row(ProgressBar(total=1.0, completed=now.share), f"{now.share:4.0%}  {left}")
            table = Table.grid(padding=(0, 2))
            table.add_column(style="dim", no_wrap=True)
            table.add_column()
            for row in now.rows:
                table.add_row(*map(printable, row if row != CURVE else ("", sparkline(self._history))))
            parts += [bar, table]
        if self._stage:
            text = f"{self._stage} ({duration(time.monotonic() - self._began)})"
            parts.append(Spinner("dots", text=text))
        width = min(self._console.width - 3, 110)  # leaves room for the ^C that the terminal writes
        return Panel(Group(*parts), title=Text(self._title), title_align="left", border_style="cyan", width=width)


class _Nowhere(StringIO):
    """A file that discards everything."""

    def write(self, text: str, /) -> int:
        return len(text)


class Notebook(Live):
    """A panel that is redrawn in place, in a notebook's cell."""

    def __init__(self, title: str):
        """Open the panel."""
        from IPython.display import display
        from rich.console import Console

        console = Console(
            highlight=False,
            markup=False,
            emoji=False,
            record=True,
            width=100,
            file=_Nowhere(),
            force_jupyter=False,  # it would show more panels
            color_system="truecolor",
        )
        self._open(title, console)
        self._shown = 0.0
        self._cell: Any = display(self._html(), display_id=True, raw=True)

    def line(self, text: str) -> None:
        """Print a line below the panel."""
        print(printable(text), flush=True)

    def stage(self, text: str) -> None:
        """Show the current stage."""
        super().stage(text)
        self._draw()

    def update(self, now: Status) -> None:
        """Show the state, a few times a second."""
        super().update(now)
        if time.monotonic() - self._shown > 0.3:
            self._draw()

    def close(self) -> None:
        """Close the panel, and leave its last state on the screen."""
        self._stage = ""
        self._draw()

    def _draw(self) -> None:
        self._shown = time.monotonic()
        self._cell.update(self._html(), raw=True)

    def _html(self) -> dict[str, str]:
        """Return the panel in the notebook's form: HTML, or text if it cannot show HTML."""
        self._console.print(self)
        page = '<pre style="line-height:1.2;font-family:monospace">{code}</pre>'
        text = self._console.export_text(clear=False)
        return {"text/html": self._console.export_html(code_format=page, inline_styles=True), "text/plain": text}


DISPLAYS = ("auto", "plain", "none")


def known(how: str) -> str:
    """Check that a word is one of `DISPLAYS`, and return it."""
    if how not in DISPLAYS:
        raise unknown("display", how, DISPLAYS)
    return how


def open_display(title: str, how: str = "auto") -> Any:
    """Return the display of a job; "auto" is a live panel in a terminal or a notebook, and lines elsewhere."""
    if known(how) == "none":
        return Silent()
    if how == "plain":
        return Plain(title)
    if _in_notebook():
        return Notebook(title)
    return Live(title) if sys.stdout.isatty() else Plain(title)


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and running.__class__.__name__ == "ZMQInteractiveShell"
