"""Bars as plain text, each exactly as many cells wide as asked for."""

from __future__ import annotations

import math

_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


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
