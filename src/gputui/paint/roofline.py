"""The roofline chart: memory roofs as slopes, compute roofs as flat lines, kernels as marks, on two logarithmic axes.

With two sets of kernels, an arrow leads from the hollow mark where a kernel stood to the filled one where it stands.

Words that depend on the language come in with the `Chart`; this module only places them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from gputui import units
from gputui.analysis.roofline import Point, Roof
from gputui.paint.grid import Canvas, Picture, Segment, printable, shorten, width_of

LARGE_SHARE = 0.10
"""From this share of the time on a kernel gets the large mark."""
MEDIUM_SHARE = 0.02
"""From this share of the time on a kernel gets the medium mark."""

_X_LIMITS = (-6, 6)
_MAX_Y_DECADES = 9
_CELLS_PER_NAME = 130
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


@dataclass(frozen=True, slots=True)
class Arrow:
    """From where a kernel stood to where it stands: points of the base and of the new report.

    One end may be ``None``: a kernel that is gone, or new. Where one replaced several, ``before`` is their combined
    point. ``is_selected`` lights the arrow.
    """

    before: Point | None
    after: Point | None
    is_selected: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """What a roofline chart shows.

    ``points`` holds the kernels' DRAM points and any other level of the selected kernel, which is named by its index.
    Sizes of marks are shares of ``total_ns``, or of the points' own sum. ``roof_names`` maps a roof's id to the name
    to print; ``gap_label`` is what stands beside the selected kernel's gap, by itself the percentage. ``arrows`` stand
    beside the points: a kernel that has an arrow needs no point of its own.
    """

    roofs: tuple[Roof, ...]
    points: tuple[Point, ...]
    selected: int | None = None
    total_ns: float | None = None
    roof_names: Mapping[str, str] = field(default_factory=dict)
    gap_label: str | None = None
    x_label: str = "FLOP/byte"
    y_label: str = "FLOP/s"
    arrows: tuple[Arrow, ...] = ()


@dataclass(frozen=True, slots=True)
class _Glyphs:
    large: str
    medium: str
    small: str
    selected: str
    level: str
    gap: str
    corner: str
    x_line: str
    x_tick: str
    y_line: str
    y_tick: str
    before: str
    after: str
    selected_before: str
    heads: str
    """From the one that points right on, counterclockwise."""


_UNICODE = _Glyphs("●", "•", "·", "◆", "◇", "┊", "└", "─", "┬", "│", "┤", "○", "●", "◇", "→↗↑↖←↙↓↘")
# A slanted head would be "/" both up and down.
_ASCII = _Glyphs("O", "o", ".", "#", "x", ":", "+", "-", "+", "|", "+", "o", "@", "x", ">>^<<<v>")


@dataclass(frozen=True, slots=True)
class _Scale:
    """Powers of ten from ``low`` to ``high`` laid on the dots from ``start`` to ``end``."""

    low: float
    high: float
    start: int
    end: int

    def at(self, power: float) -> float:
        inside = min(max(power, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class _Mark:
    point: Point
    col: int
    row: int
    share: float | None


@dataclass(frozen=True, slots=True)
class _Shift:
    """An arrow as drawn. ``named`` is the mark that the kernel's name stands at: where it stands, or last stood."""

    before: _Mark | None
    after: _Mark | None
    named: _Mark
    is_selected: bool


@dataclass(frozen=True, slots=True)
class _Line:
    """A roof as drawn, in dots; ``y0`` is at the left end."""

    roof: Roof
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class _Plot:
    """Where on the canvas the chart's own ground lies, in cells, and its scales, in dots."""

    left: int
    top: int
    bottom: int
    x: _Scale
    y: _Scale

    def cell(self, intensity: float, flop_per_s: float) -> tuple[int, int]:
        return round(self.x.at(math.log10(intensity))) // 2, round(self.y.at(math.log10(flop_per_s))) // 4


def draw(chart: Chart, width: int, height: int, *, ascii: bool = False) -> Picture:
    """The chart in ``width`` × ``height`` cells.

    Roofs and points that are no positive finite numbers are left out; points beyond the axes stand at their ends. A
    name that finds no free place is dropped: the list beside the chart has it.
    """
    canvas = Canvas(width, height, ascii=ascii)
    if canvas.width == 0 or canvas.height == 0:
        return canvas.picture()
    glyphs = _ASCII if ascii else _UNICODE
    roofs = [roof for roof in chart.roofs if _is_drawable(roof.peak)]
    points = [
        point
        for point in chart.points
        if _has_place(point) and (point.level == "dram" or point.kernel == chart.selected)
    ]
    ends = [end for arrow in chart.arrows for end in (arrow.before, arrow.after) if _has_place(end)]
    plot = _lay_out(canvas, roofs, [*points, *ends])
    _draw_axes(canvas, chart, plot, glyphs)
    lines = _roof_lines(roofs, plot, ascii=ascii)
    for line in lines:
        dash = 2 if _role_of(line.roof) == "roof-cache" else 0
        canvas.line(line.x0, line.y0, line.x1, line.y1, _role_of(line.roof), dash=dash)
    marks = _marks(chart, points, plot)
    for mark in marks:
        canvas.put(mark.col, mark.row, *_glyph_and_role(mark, chart.selected, glyphs))
    shifts = _shifts(chart.arrows, plot)
    _draw_shifts(canvas, shifts, glyphs)
    for mark in reversed(marks):
        if mark.point.level != "dram":
            places = [(mark.col + 1, mark.row), *_beside(mark, 2, plot)]
            canvas.label(mark.point.level.upper(), "mark-level", places)
        elif mark.point.kernel == chart.selected:
            _draw_selected(canvas, chart, roofs, mark, plot, glyphs)
    crowd = _Crowd([*marks, *_ends(shifts)], canvas.width, canvas.height)
    for shift in shifts:
        if shift.is_selected:
            _draw_selected_name(canvas, shift.named, plot, crowd)
    named = [shift.named for shift in reversed(shifts) if not shift.is_selected]
    named += [mark for mark in reversed(marks) if mark.point.kernel != chart.selected]
    _draw_names(canvas, named, crowd, plot)
    _draw_roof_names(canvas, chart, lines, plot)
    return canvas.picture()


def legend(before: str, after: str, *, ascii: bool = False) -> tuple[Segment, ...]:
    """What the arrows' marks mean, in the two words given."""
    glyphs = _ASCII if ascii else _UNICODE
    return (
        (glyphs.before, "mark-before"),
        (f" {printable(before, ascii=ascii)} ", "label"),
        (glyphs.heads[0], "arrow"),
        (f" {glyphs.after}", "mark-after"),
        (f" {printable(after, ascii=ascii)}", "label"),
    )


def _is_drawable(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value) and value > 0


def _has_place(point: Point | None) -> TypeGuard[Point]:
    return point is not None and _is_drawable(point.intensity) and _is_drawable(point.flop_per_s)


def _role_of(roof: Roof) -> str:
    if roof.kind == "compute":
        return "roof"
    return "roof-memory" if roof.id == "dram" else "roof-cache"


def _peaks(roofs: Iterable[Roof], kind: str) -> list[float]:
    """The peaks of one kind of roof as powers of ten."""
    return [math.log10(roof.peak) for roof in roofs if roof.kind == kind]


def _x_range(roofs: Sequence[Roof], points: Sequence[Point]) -> tuple[int, int]:
    powers = [math.log10(point.intensity) for point in points]
    low, high = min(powers, default=0.0) - 0.1, max(powers, default=2.0) + 0.1
    compute, memory = _peaks(roofs, "compute"), _peaks(roofs, "memory")
    if compute and memory:
        # So much beyond the ridges shows a slope as a slope and leaves a flat roof room for its name.
        low = min(low, min(compute) - max(memory) - 1)
        high = max(high, max(compute) - min(memory) + 0.5)
    first = min(max(math.floor(low), _X_LIMITS[0]), _X_LIMITS[1] - 2)
    last = max(min(math.ceil(high), _X_LIMITS[1]), first + 2)
    return first, last


def _y_range(roofs: Sequence[Roof], points: Sequence[Point]) -> tuple[int, int]:
    powers = [math.log10(point.flop_per_s) for point in points]
    compute = _peaks(roofs, "compute")
    last = math.ceil(max([*compute, *powers], default=15.0))
    first = math.floor(min([*powers, *(peak - 1 for peak in compute)], default=last - 6.0) - 0.1)
    return max(min(first, last - 3), last - _MAX_Y_DECADES), last


def _y_text(power: int) -> str:
    group, zeros = divmod(power, 3)
    return f"{10**zeros} {_PREFIXES[group]}".rstrip() if 0 <= group < len(_PREFIXES) else f"1e{power}"


def _x_text(power: int) -> str:
    return f"{10.0**power:.{max(0, -power)}f}" if -3 <= power <= 4 else f"1e{power}"


def _lay_out(canvas: Canvas, roofs: Sequence[Roof], points: Sequence[Point]) -> _Plot:
    """Give the axes what they need, and nothing to those that the size leaves no room for."""
    x_low, x_high = _x_range(roofs, points)
    y_low, y_high = _y_range(roofs, points)
    numbers = max(len(_y_text(power)) for power in range(y_low, y_high + 1))
    left = numbers + 2 if canvas.width >= 24 else 1 if canvas.width >= 4 else 0
    top = 1 if canvas.height >= 7 else 0
    bottom = canvas.height - (2 if canvas.height >= 5 else 1 if canvas.height >= 3 else 0)
    return _Plot(
        left,
        top,
        bottom,
        _Scale(x_low, x_high, 2 * left, 2 * canvas.width - 1),
        _Scale(y_low, y_high, 4 * bottom - 1, 4 * top),
    )


def _step(scale: _Scale, dots: float) -> int:
    """Every how many decades a tick has ``dots`` dots to itself."""
    decade = abs(scale.end - scale.start) / (scale.high - scale.low)
    return next((step for step in (1, 2, 3, 6) if step * decade >= dots), 12)


def _draw_axes(canvas: Canvas, chart: Chart, plot: _Plot, glyphs: _Glyphs) -> None:
    axis = plot.left - 1
    for row in range(plot.top, plot.bottom if plot.left else 0):
        canvas.put(axis, row, glyphs.y_line, "axis")
        canvas.reserve(0, row, axis)
    y_step = _step(plot.y, 6)
    for power in range(int(plot.y.low), int(plot.y.high) + 1):
        row = round(plot.y.at(power)) // 4
        if power % y_step == 0 and plot.left > 1:
            text = _y_text(power)
            canvas.put(axis, row, glyphs.y_tick, "axis")
            canvas.write(axis - 1 - len(text), row, text, "axis-label")
    if plot.top:
        title = printable(chart.y_label, ascii=canvas.ascii)
        canvas.write(max(0, axis - 1 - width_of(title)), 0, title, "axis-title")
    if plot.bottom < canvas.height:
        _draw_x_axis(canvas, chart, plot, glyphs)


def _draw_x_axis(canvas: Canvas, chart: Chart, plot: _Plot, glyphs: _Glyphs) -> None:
    for col in range(plot.left, canvas.width):
        canvas.put(col, plot.bottom, glyphs.x_line, "axis")
    if plot.left:
        canvas.put(plot.left - 1, plot.bottom, glyphs.corner, "axis")
    powers = range(int(plot.x.low), int(plot.x.high) + 1)
    step = _step(plot.x, 2 * max(len(_x_text(power)) + 2 for power in powers))
    ticks = {round(plot.x.at(power)) // 2: _x_text(power) for power in powers if power % step == 0}
    for col, text in ticks.items():
        canvas.put(col, plot.bottom, glyphs.x_tick, "axis")
        start = min(max(0, col - (len(text) - 1) // 2), canvas.width - len(text))
        canvas.label(text, "axis-label", [(start, plot.bottom + 1)])
    for row in range(plot.bottom, canvas.height):
        canvas.reserve(0, row, canvas.width)
    # The title sits in the axis line, where it costs no row: in the last stretch between two ticks that is long enough,
    # or over one tick.
    title = f" {printable(chart.x_label, ascii=canvas.ascii)} "
    stops = [plot.left - 1, *ticks, canvas.width]
    for start, end in [*zip(stops[-2::-1], stops[:0:-1], strict=True), *zip(stops[-3::-1], stops[:1:-1], strict=True)]:
        room = end - start - 1 - width_of(title)
        if room >= 2:
            canvas.write(start + 1 + room // 2, plot.bottom, title, "axis-title")
            break


def _roof_lines(roofs: Sequence[Roof], plot: _Plot, *, ascii: bool) -> list[_Line]:
    """The part of each roof that is a bound: slopes up to the highest flat roof, flats from the steepest slope on."""
    compute, memory = _peaks(roofs, "compute"), _peaks(roofs, "memory")
    ceiling = min(max(compute, default=plot.y.high), plot.y.high)
    lines = []
    for roof in roofs:
        peak = math.log10(roof.peak)
        if roof.kind == "memory":
            start, end = max(plot.x.low, plot.y.low - peak), min(plot.x.high, ceiling - peak)
            y_start, y_end = start + peak, end + peak
        else:
            start, end = max(plot.x.low, peak - max(memory, default=math.inf)), plot.x.high
            y_start = y_end = peak
        if start < end and plot.y.low <= y_start and y_end <= plot.y.high:
            y0, y1 = plot.y.at(y_start), plot.y.at(y_end)
            if ascii and roof.kind == "compute":
                y0 = y1 = round(y0) // 4 * 4 + 1  # where a cell's dots become "-"
            lines.append(_Line(roof, plot.x.at(start), y0, plot.x.at(end), y1))
    return sorted(lines, key=lambda line: ("roof-cache", "roof", "roof-memory").index(_role_of(line.roof)))


def _marks(chart: Chart, points: Iterable[Point], plot: _Plot) -> list[_Mark]:
    """The marks in the order to paint them: by time, then the selected kernel's other levels, then its own."""
    total = chart.total_ns or sum(point.duration_ns for point in points if _is_drawable(point.duration_ns))

    def mark(point: Point) -> _Mark:
        share = point.duration_ns / total if _is_drawable(point.duration_ns) and _is_drawable(total) else None
        return _Mark(point, *plot.cell(point.intensity, point.flop_per_s), share)

    def order(mark: _Mark) -> tuple[bool, bool, float]:
        return mark.point.kernel == chart.selected, mark.point.level == "dram", mark.share or 0.0

    return sorted(map(mark, points), key=order)


def _glyph_and_role(mark: _Mark, selected: int | None, glyphs: _Glyphs) -> tuple[str, str]:
    if mark.point.level != "dram":
        return glyphs.level, "mark-level"
    if mark.point.kernel == selected:
        return glyphs.selected, "mark-selected"
    if mark.share is not None and mark.share >= LARGE_SHARE:
        return glyphs.large, "mark"
    if mark.share is None or mark.share >= MEDIUM_SHARE:
        return glyphs.medium, "mark"
    return glyphs.small, "mark-small"


def _shifts(arrows: Iterable[Arrow], plot: _Plot) -> list[_Shift]:
    """The arrows that have an end to draw, in the order to paint them: by time, the selected ones last."""

    def mark(point: Point | None) -> _Mark | None:
        return _Mark(point, *plot.cell(point.intensity, point.flop_per_s), None) if _has_place(point) else None

    def order(shift: _Shift) -> tuple[bool, float]:
        duration = shift.named.point.duration_ns
        return shift.is_selected, duration if _is_drawable(duration) else 0.0

    shifts = []
    for arrow in arrows:
        before, after = mark(arrow.before), mark(arrow.after)
        named = after or before
        if named:
            shifts.append(_Shift(before, after, named, arrow.is_selected))
    return sorted(shifts, key=order)


def _ends(shifts: Iterable[_Shift]) -> list[_Mark]:
    return [end for shift in shifts for end in (shift.before, shift.after) if end]


def _draw_shifts(canvas: Canvas, shifts: Sequence[_Shift], glyphs: _Glyphs) -> None:
    """The lines, then the marks over them, then the heads where no mark stands."""
    heads = []
    for shift in shifts:
        before, after = shift.before, shift.after
        if before and after and (before.col, before.row) != (after.col, after.row):
            # From cell to cell, at the height where a level line's dots become "-" in ASCII.
            path = 2 * before.col, 4 * before.row + 1, 2 * after.col, 4 * after.row + 1
            role = "arrow-selected" if shift.is_selected else "arrow"
            canvas.line(*path, role, dash=0 if shift.is_selected else 1)
            heads.append((*_head(*path), role))
    for is_selected in (False, True):
        these = [shift for shift in shifts if shift.is_selected == is_selected]
        hollow, filled = (glyphs.selected_before, glyphs.selected) if is_selected else (glyphs.before, glyphs.after)
        suffix = "-selected" if is_selected else ""
        # Where the two coincide, what counts is where the kernel stands.
        for end in filter(None, (shift.before for shift in these)):
            canvas.put(end.col, end.row, hollow, f"mark-before{suffix}")
        for end in filter(None, (shift.after for shift in these)):
            canvas.put(end.col, end.row, filled, f"mark-after{suffix}")
    for col, row, turn, role in reversed(heads):
        if not canvas.is_taken(col, row):
            canvas.put(col, row, glyphs.heads[turn], role)


def _head(x0: int, y0: int, x1: int, y1: int) -> tuple[int, int, int]:
    """The last cell of a line, in dots, before the one that it ends in; and its direction in eighths of a turn."""
    steps = max(abs(x1 - x0), abs(y1 - y0))
    parts = (step / steps for step in range(steps - 1, -1, -1))
    cells = ((round(x0 + (x1 - x0) * part) // 2, round(y0 + (y1 - y0) * part) // 4) for part in parts)
    col, row = next(cell for cell in cells if cell != (x1 // 2, y1 // 4))
    return col, row, round(math.atan2(y0 - y1, x1 - x0) / (math.pi / 4)) % 8


def _fraction(point: Point) -> float | None:
    """The share of its roof that a point reaches, where it is known and makes sense."""
    return point.roof_fraction if _is_drawable(point.roof_fraction) else None


def _roof_above(point: Point, roofs: Sequence[Roof]) -> float | None:
    """The height that the point is measured against."""
    fraction = _fraction(point)
    if fraction is not None:
        return point.flop_per_s / fraction
    compute = [roof.peak for roof in roofs if roof.kind == "compute"]
    memory = [roof.peak * point.intensity for roof in roofs if roof.id == point.level]
    return min([*memory, *([max(compute)] if compute else [])], default=None)


def _beside(mark: _Mark, cells: int, plot: _Plot) -> Iterator[tuple[int, int]]:
    """Places for a text of this width that touches the mark, best first."""
    yield mark.col + 2, mark.row
    yield mark.col - 1 - cells, mark.row
    for row in (mark.row - 1, mark.row + 1):
        if row >= plot.top:  # the row above the plot is kept for the highest roof's name
            for col in (mark.col - cells // 2, mark.col, mark.col + 1 - cells):
                yield col, row


class _Crowd:
    """Where all marks stand: tells whether a reader would take a name at a place for another mark's."""

    def __init__(self, marks: Iterable[_Mark], width: int, height: int) -> None:
        self._rows = [bytearray(width) for _ in range(height)]
        for mark in marks:
            self._rows[mark.row][mark.col] = 1

    def _has(self, row: int, start: int, end: int) -> bool:
        return 0 <= row < len(self._rows) and self._rows[row].find(1, max(0, start), max(0, end)) >= 0

    def is_plain(self, mark: _Mark, col: int, row: int, cells: int) -> bool:
        """Whether no other mark is as near to a name at this place as its own mark is."""
        end = col + cells
        if row == mark.row:
            return not (self._has(row, end, end + 3) if col > mark.col else self._has(row, col - 3, col))
        beyond = row + (row - mark.row)
        return not (
            self._has(row, col - 3, end + 3)
            or self._has(beyond, col, end)
            or self._has(mark.row, col - 1, mark.col)
            or self._has(mark.row, mark.col + 1, end + 1)
        )


def _names(mark: _Mark, canvas: Canvas) -> list[str]:
    """What may stand by the mark: the kernel's name with its time, and the name alone where that is too long."""
    name = shorten(printable(mark.point.name, ascii=canvas.ascii), max(10, canvas.width // 4), ascii=canvas.ascii)
    if not _is_drawable(mark.point.duration_ns):
        return [name]
    return [f"{name} {printable(units.duration(mark.point.duration_ns), ascii=canvas.ascii)}", name]


def _draw_selected(
    canvas: Canvas, chart: Chart, roofs: Sequence[Roof], mark: _Mark, plot: _Plot, glyphs: _Glyphs
) -> None:
    """The selected kernel's gap up to its roof, its name, and how far it is."""
    roof = _roof_above(mark.point, roofs)
    gap: list[int] = []
    if _is_drawable(roof):
        roof_row = plot.cell(mark.point.intensity, roof)[1]
        gap = [row for row in range(roof_row + 1, mark.row) if not canvas.is_taken(mark.col, row)]
    for row in gap:
        canvas.put(mark.col, row, glyphs.gap, "gap")
    after_name = _draw_selected_name(canvas, mark, plot)
    fraction = _fraction(mark.point)
    if fraction is None and _is_drawable(roof):
        fraction = mark.point.flop_per_s / roof
    if fraction is None:
        return
    percent = units.percent(100 * fraction)
    middle = sum(gap) / len(gap) if gap else 0.0
    rows = sorted(gap, key=lambda row: abs(row - middle))
    for text, over_lines in ((chart.gap_label or percent, False), (percent, False), (percent, True)):
        shown = printable(text, ascii=canvas.ascii)
        cells = width_of(shown)
        places = [(col, row) for row in rows for col in (mark.col + 2, mark.col - 1 - cells)]
        if canvas.label(shown, "gap-label", [*places, *after_name, *_beside(mark, cells, plot)], over_lines=over_lines):
            return


def _draw_selected_name(canvas: Canvas, mark: _Mark, plot: _Plot, crowd: _Crowd | None = None) -> list[tuple[int, int]]:
    """Write the name at almost any price, with a ``crowd`` rather over a line than where it reads as another mark's.

    The answer is the place after it, or nothing where it was dropped.
    """
    for wary, over_lines in ((crowd, False), (crowd, True), (None, False), (None, True)):
        for text in _names(mark, canvas):
            cells = width_of(text)
            places = [*_beside(mark, cells, plot), (min(mark.col, canvas.width - cells), mark.row - 1)]
            if wary:
                places = [place for place in places if wary.is_plain(mark, *place, cells)]
            place = canvas.label(text, "label-selected", places, over_lines=over_lines)
            if place is not None:
                return [(place[0] + cells + 2, place[1])]
    return []


def _draw_names(canvas: Canvas, marks: Sequence[_Mark], crowd: _Crowd, plot: _Plot) -> None:
    """Names of the first marks, no more of them than the eye can sort out."""
    for mark in marks[: 1 + canvas.width * canvas.height // _CELLS_PER_NAME]:
        for text in _names(mark, canvas):
            cells = width_of(text)
            places = [place for place in _beside(mark, cells, plot) if crowd.is_plain(mark, *place, cells)]
            if canvas.label(text, "label", places):
                break


def _draw_roof_names(canvas: Canvas, chart: Chart, lines: Sequence[_Line], plot: _Plot) -> None:
    steepest = max((line.roof.peak for line in lines if line.roof.kind == "memory"), default=None)
    for line in reversed(lines):
        roof = line.roof
        if roof.kind == "compute":
            name, peak = roof.id.replace("-", " "), units.flops(roof.peak).removesuffix("FLOP/s").rstrip()
        else:
            name, peak = roof.id.upper(), units.rate(roof.peak)
        text = printable(f"{chart.roof_names.get(roof.id, name)} {peak}", ascii=canvas.ascii)
        if roof.kind == "compute":
            places = list(_along_flat(line, width_of(text), plot))
        else:
            places = list(_along_slope(line, width_of(text), plot, is_left=roof.peak == steepest))
        role = f"{_role_of(roof)}-label"
        if not canvas.label(text, role, places):
            canvas.label(text, role, places, over_lines=True)


def _along_flat(line: _Line, cells: int, plot: _Plot) -> Iterator[tuple[int, int]]:
    """Above a flat roof from its right end leftwards, then below it, then in it."""
    row, start, last = round(line.y0) // 4, round(line.x0) // 2, round(line.x1) // 2 + 1 - cells
    for beside in (row - 1, row + 1, row):
        # In the row above the plot there is nothing to be mistaken for, so the name may begin before its roof does.
        first = plot.left if beside < plot.top else min(start, last)
        for col in range(last, first - 1, -3):
            yield col, beside


def _along_slope(line: _Line, cells: int, plot: _Plot, *, is_left: bool) -> Iterator[tuple[int, int]]:
    """Beside a slope, from its upper middle outwards: on the left the ground above it, on the right the one below."""
    top, bottom = round(line.y1) // 4, round(line.y0) // 4
    middle = top + (bottom - top) * 0.4
    slope = (line.x1 - line.x0) / (line.y0 - line.y1) if line.y0 > line.y1 else 0.0
    rows = sorted(range(max(top, plot.top), min(bottom, plot.bottom - 1) + 1), key=lambda row: abs(row - middle))
    for left in (is_left, not is_left):
        for row in rows:
            if left:
                x = line.x0 + (line.y0 - (4 * row + 3)) * slope
                yield int(x) // 2 - 1 - cells, row
            else:
                x = line.x0 + (line.y0 - 4 * row) * slope
                yield int(x) // 2 + 2, row
