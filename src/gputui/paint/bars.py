"""Bars and sparklines as plain text, each exactly as many cells wide as asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gputui import units

_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.-:=+*#"
_PERCENT_CELLS = 5


def bar(value: float | None, maximum: float, width: int, *, ascii: bool = False) -> str:
    """A bar of ``value`` against ``maximum``, to the nearest eighth of a cell; what is not nothing shows one eighth.

    In ASCII a cell that is full is ``#`` and one that is not quite is ``.``. A value that is unknown, or a maximum that
    is no positive number, gives blanks.
    """
    width = max(0, width)
    eighths = _eighths(value, maximum, width)
    full, part = divmod(eighths, 8)
    filled = "#" * full + ("." if part else "") if ascii else "█" * full + _EIGHTHS[part]
    return filled.ljust(width)


def _eighths(value: float | None, maximum: float, width: int) -> int:
    if value is None or math.isnan(value) or value <= 0 or not maximum > 0:
        return 0
    if value >= maximum:
        return 8 * width
    return min(8 * width, max(1, math.floor(value / maximum * 8 * width + 0.5)))


def share_bar(share_pct: float | None, width: int, *, largest_pct: float = 100.0, ascii: bool = False) -> str:
    """A share as its percentage and a bar that is full for the largest share: ``13 % █▍``."""
    if share_pct is None or not math.isfinite(share_pct):
        number = "-" if ascii else units.DASH
    else:
        number = units.share(share_pct)
    text = f"{number:>{_PERCENT_CELLS}} {bar(share_pct, largest_pct, width - _PERCENT_CELLS - 1, ascii=ascii)}"
    return text[: max(0, width)]


def sparkline(values: Sequence[float | None], width: int, *, ascii: bool = False) -> str:
    """One cell a value from nothing up to the largest; where there are more values than cells, each cell's largest.

    Unknown values are blanks, and what is not above nothing stands on the lowest level.
    """
    width = max(0, width)
    count = min(width, len(values))
    cells = [values[index * len(values) // count : (index + 1) * len(values) // count] for index in range(count)]
    peaks = [
        max((value for value in cell if value is not None and math.isfinite(value)), default=None) for cell in cells
    ]
    top = max((peak for peak in peaks if peak is not None), default=0.0)
    levels = _ASCII_LEVELS if ascii else _LEVELS

    def glyph(peak: float | None) -> str:
        if peak is None:
            return " "
        if peak <= 0:
            return levels[0]
        return levels[max(1, math.floor(peak / top * 8 + 0.5)) - 1]

    return "".join(map(glyph, peaks)).ljust(width)
