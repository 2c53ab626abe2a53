"""How near a kernel without arithmetic comes to the memory's roof: a bar, where a point on the roofline would lie."""

from __future__ import annotations

import math

from gputui import units
from gputui.paint.bars import bar
from gputui.paint.grid import Canvas, Picture, printable, shorten, width_of


def bandwidth_bar(
    rate: float | None,
    peak: float | None,
    width: int,
    *,
    label: str = "DRAM",
    caption: str = "",
    ascii: bool = False,
) -> Picture:
    """``DRAM ██████▌      ▏ 4.8 TB/s``: ``rate`` of ``peak`` in bytes/s, with the roof at the end of the bar.

    ``caption`` is what stands below the bar, such as the rate in words; without one the picture is a single row that
    begins with the percentage. A number that is unknown or makes no sense is a dash.
    """
    rate = rate if rate is not None and math.isfinite(rate) and rate >= 0 else None
    peak = peak if peak is not None and math.isfinite(peak) and peak > 0 else None
    canvas = Canvas(width, 2 if caption else 1, ascii=ascii)
    name = printable(label, ascii=ascii)
    percent = units.percent(100 * rate / peak if rate is not None and peak is not None else None)
    lead = f"{name} {printable(percent, ascii=ascii):>5} "
    roof = f" {printable(units.rate(peak), ascii=ascii)}"
    start = width_of(lead)
    room = canvas.width - start - width_of(roof) - 1
    if room < 4:
        canvas.write(0, 0, shorten(lead.rstrip(), canvas.width, ascii=ascii), "label")
    else:
        filled = bar(rate, peak or 0.0, room, ascii=ascii).rstrip()
        canvas.write(0, 0, lead, "label")
        canvas.write(start, 0, filled, "bar-full")
        canvas.write(start + len(filled), 0, ("." if ascii else "─") * (room - len(filled)), "bar-empty")
        canvas.write(start + room, 0, "|" if ascii else "▏", "roof-memory")
        canvas.write(start + room + 1, 0, roof, "roof-memory-label")
    if caption:
        indent = start if start + 8 <= canvas.width else 0
        text = shorten(printable(caption, ascii=ascii), canvas.width - indent, ascii=ascii)
        canvas.write(indent, 1, text, "dim")
    return canvas.picture()
