"""A series of values as one line of text, a cell each."""

from __future__ import annotations

import math
from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.-~=+*#"


def sparkline(values: Sequence[float | None], width: int | None = None, *, ascii: bool = False) -> str:
    """``values`` as bars from 0 to their maximum; what is nothing gets the lowest bar, what is not known a dot.

    Of more values than ``width`` some are left out, at even distances, and never the first or the last. The dot is a
    blank in ASCII.
    """
    if width is not None and len(values) > width:
        last = len(values) - 1
        values = [values[round(place * last / (width - 1))] for place in range(width)] if width > 1 else values[-1:]
    known = [value for value in values if value is not None and math.isfinite(value)]
    most = max(known, default=0.0)
    levels = _ASCII_LEVELS if ascii else _LEVELS
    return "".join(_cell(value, most, levels, " " if ascii else "·") for value in values)


def _cell(value: float | None, most: float, levels: str, unknown: str) -> str:
    if value is None or not math.isfinite(value):
        return unknown
    if value <= 0:
        return levels[0]
    return levels[max(1, math.floor(value / most * len(levels) + 0.5)) - 1]
