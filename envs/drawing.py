"""Drawing states: tiles from letters, lines and circles on a canvas, by NumPy and Pillow on the host."""

import colorsys
from collections.abc import Sequence
from typing import Any

import numpy as np

Color = tuple[int, int, int]
Point = tuple[float, float]

# the palette of Okabe and Ito (2008), which color-blind people can distinguish, and grays
WHITE, PAPER, SILVER, GRAY, INK = (255, 255, 255), (242, 242, 238), (205, 205, 200), (130, 130, 126), (38, 38, 42)
ORANGE, SKY, GREEN, YELLOW = (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66)
BLUE, RED, PINK = (0, 114, 178), (213, 94, 0), (204, 121, 167)
ICE = (222, 240, 250)
HUES = (BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW, GRAY)

LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"  # characters for symbols that are numbers

TILES: dict[str, Color] = {
    "#": INK,
    ".": PAPER,
    " ": WHITE,
    "-": SILVER,
    "@": BLUE,  # who acts
    "o": ORANGE,  # what is to be caught
    "G": GREEN,  # the goal
    "H": RED,  # what ends an episode badly
    "*": YELLOW,
    "?": INK,  # what is asked for
}


def hue(index: int) -> Color:
    """Return the color of a number 0, 1, 2, ...: the palette's colors, then further hues around the color wheel."""
    if index < len(HUES):
        return HUES[index]
    red, green, blue = colorsys.hsv_to_rgb((0.382 * index) % 1.0, 0.6, 0.85)
    return int(255 * red), int(255 * green), int(255 * blue)


def tiles(text: str, colors: dict[str, Color] | None = None, tile: tuple[int, int] | None = None) -> np.ndarray:
    """Draw lines of letters as colored tiles.

    Args:
      text: lines of one length. A letter that `TILES` and `colors` do not name, such as a digit, has the `hue` of its
        place in the alphabet 0-9 a-z.
      colors: the colors of further letters, or of the same ones.
      tile: height and width of a tile in pixels; by default square, such that the picture is about 320 pixels wide.

    Returns:
      u8[height, width, 3].
    """
    rows = text.split("\n")
    table = TILES | (colors or {})
    color = np.array([[table.get(c) or hue(LETTERS.index(c)) for c in row] for row in rows], np.uint8)
    side = max(6, 320 // max(color.shape[:2]))
    height, width = tile or (side, side)
    picture = color.repeat(height, 0).repeat(width, 1)
    picture[::height], picture[:, ::width] = WHITE, WHITE  # lines between the tiles
    return picture


class Canvas:
    """A picture in the units of the task, y upward, antialiased by drawing it three times as large."""

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], width: int = 400, height: int | None = None
    ) -> None:
        """Center x[0] .. x[1] and y[0] .. y[1], with equal units in both directions.

        Args:
          x: the range that is at least visible.
          y: the same for the upward axis.
          width: pixels.
          height: pixels; None: as many as y needs.
        """
        from PIL import Image, ImageDraw

        across, up = x[1] - x[0], y[1] - y[0]
        scale, self._left, self._top = width / across, x[0], y[1]
        if height is None:
            height = 2 * round(width * up / across / 2)
        else:
            scale = min(scale, height / up)
            self._left -= (width / scale - across) / 2
            self._top += (height / scale - up) / 2
        self._scale = 3 * scale
        self._image: Any = Image.new("RGB", (3 * width, 3 * height), WHITE)
        self._draw: Any = ImageDraw.Draw(self._image)
        self._size = (width, height)

    def _pixel(self, point: Point) -> tuple[float, float]:
        return (float(point[0]) - self._left) * self._scale, (self._top - float(point[1])) * self._scale

    def line(self, points: Sequence[Point], color: Color, width: float) -> None:
        """Draw a line through points, with round ends; `width` in the units of the task."""
        pixels = [self._pixel(p) for p in points]
        self._draw.line(pixels, fill=color, width=max(1, round(width * self._scale)), joint="curve")
        for point in (points[0], points[-1]):
            self.circle(point, width / 2, color)

    def polygon(self, points: Sequence[Point], color: Color) -> None:
        """Fill a polygon."""
        self._draw.polygon([self._pixel(p) for p in points], fill=color)

    def rectangle(self, low: Point, high: Point, color: Color) -> None:
        """Fill a rectangle between its lower left and its upper right corner."""
        self.polygon([low, (high[0], low[1]), high, (low[0], high[1])], color)

    def circle(self, center: Point, radius: float, color: Color) -> None:
        """Fill a circle."""
        (x, y), r = self._pixel(center), radius * self._scale
        self._draw.ellipse([x - r, y - r, x + r, y + r], fill=color)

    def pixels(self) -> np.ndarray:
        """Return the picture, u8[height, width, 3]."""
        from PIL import Image

        return np.asarray(self._image.resize(self._size, Image.Resampling.BOX))


def bars(values: np.ndarray, low: float, high: float, marked: int = -1) -> np.ndarray:
    """Draw f32[n] between `low` and `high` as bars that start at 0, with one highlighted: u8[height, width, 3]."""
    unit = 0.6 * len(values) / (high - low)  # the picture is 0.6 times as high as wide
    canvas = Canvas((-0.2, len(values) + 0.2), (unit * low - 0.2, unit * high + 0.2))
    for i, value in enumerate(values):
        y = unit * float(np.clip(value, low, high))
        canvas.rectangle((i + 0.15, min(0.0, y)), (i + 0.85, max(0.0, y)), ORANGE if i == marked else BLUE)
    canvas.line([(-0.1, 0), (len(values) + 0.1, 0)], INK, 0.04)
    return canvas.pixels()
