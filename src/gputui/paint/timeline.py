"""The timeline pane: a time ruler, a row a lane, and a legend.

What one cell of a lane shows is how much of its time is covered, to an eighth and exactly so at every zoom: what is not
nothing shows at least one eighth, and only what is covered without a gap is a full block. Its colour is the class that
covers most of it. An event that fills several cells is a bar with its name in it.

Words that depend on the language come in as ``names``; this module only places them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from gputui import units
from gputui.analysis.lanes import CALL_CLASSES, OP_CLASSES, OS_CLASSES, RANGE_CLASSES, Lane, Lit
from gputui.model.intervals import Ns
from gputui.paint.grid import Canvas, Picture, clusters, printable, shorten, width_of

NAMES: tuple[str, ...] = (*OP_CLASSES, *CALL_CLASSES, *OS_CLASSES, "lit")
"""What the legend may show: the keys of ``names``; "lit" is what is selected elsewhere."""

SHARES = ("work", "view")
"""Further keys: what the legend's shares are of, and those beside the lanes."""

_LETTERS = {
    "gemm": "G", "attention": "A", "norm": "N", "elementwise": "E", "optimizer": "O", "copy-kernel": "C",
    "other": "K", "api-launch": "L", "api-sync": "S", "api-memcpy": "M", "api-alloc": "A", "api-other": "c",
    "os-wait": "w", "os": "o",
}  # fmt: skip
"""What tells the classes of one lane apart without colour; other lanes have a title that says it."""

_WITH_BARS = (*OP_CLASSES, *RANGE_CLASSES, *CALL_CLASSES, *OS_CLASSES, "lit")
ROLES: tuple[str, ...] = (
    *(f"tl-{one}" for one in _WITH_BARS), *(f"tl-{one}-bar" for one in _WITH_BARS),
    "tl-mark", "tl-counter", "tl-idle", "tl-idle-label", "tl-idle-longest",
    "tl-title", "tl-title-selected", "tl-share", "tl-legend", "tl-axis", "tl-axis-label", "tl-axis-offset",
    "tl-mark-a", "tl-mark-b", "tl-measure", "tl-bookmark", "tl-cursor-head", "tl-cursor-line",
    "tl-cursor", "tl-selection", "tl-has-lit", "tl-hit", "tl-selected",
)  # fmt: skip
"""Every role of the pane. Those of the last line are laid over another: "tl-gemm tl-cursor"."""

_GPU_KINDS = ("stream", "nccl", "graph", "copy", "memset")
_TALL_KINDS = ("stream", "nccl", "graph")
_RANGE_KINDS = ("nvtx", "start-end", "marks")
_MOST_ROWS = 3
_TITLE_CELLS = 12
_SHARE_CELLS = 8
_SHARES_FROM = 100
_LEAST_BAR = 4
_RULER_ROWS = 2


@dataclass(frozen=True, slots=True)
class _Signs:
    blocks: npt.NDArray[np.str_]
    border: str
    line: str
    ends: tuple[str, str]
    axis: str
    tick: str
    cursor: str
    cursor_line: str
    mark_line: str
    bookmark: str
    mark: str
    little: str
    measure: str
    swatch: str
    lit: str


_UNICODE = _Signs(
    np.array(list(" ▁▂▃▄▅▆▇█")), "▏", "─", ("├", "┤"), "─", "┬", "▼", "│", "┊", "◆", "▾", "·", "━", "■", "◆"
)  # fmt: skip
_ASCII = _Signs(
    np.array(list(" .:-=+*%#")), "|", "-", ("|", "|"), "-", "+", "v", "|", ":", "*", "'", ".", "=", "#", "@"
)


@dataclass(frozen=True, slots=True)
class Viewport:
    """The part of a timeline that is drawn, ``[start_ns, end_ns)``, and the cells there are for it.

    ``first_lane`` is the topmost lane.
    """

    start_ns: int
    end_ns: int
    width: int
    height: int
    first_lane: int = 0


@dataclass(frozen=True, slots=True)
class Overlay:
    """What is drawn over the lanes. Times in ns; ``lane`` is a place among the lanes, ``row`` its selected event.

    ``lit`` are the events that belong to what is selected elsewhere, ``hits`` those that a search found.
    """

    cursor_ns: int | None = None
    selection: tuple[int, int] | None = None
    mark_a: int | None = None
    mark_b: int | None = None
    bookmarks: Sequence[int] = ()
    lane: int | None = None
    row: int | None = None
    lit: Lit | None = None
    hits: Lit | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """The rows of the picture that a lane takes."""

    lane: int
    row: int
    height: int


@dataclass(frozen=True)
class Layout:
    """Where things are: time on the columns ``left`` to ``left + columns``, lanes on the rows of ``slots``."""

    start_ns: int
    span_ns: int
    left: int
    columns: int
    slots: tuple[Slot, ...]

    @cached_property
    def edges(self) -> Ns:
        """The borders of the cells in ns, one more than there are columns."""
        # In two parts, so that no product leaves 64 bits.
        whole, rest = divmod(self.span_ns, self.columns)
        places = np.arange(self.columns + 1, dtype=np.int64)
        return self.start_ns + places * whole + places * rest // self.columns

    @property
    def lanes_shown(self) -> int:
        return len(self.slots)

    def column_of(self, time_ns: int) -> int | None:
        """The column of the picture in which this time lies."""
        place = int(np.searchsorted(self.edges, time_ns, side="right")) - 1
        return self.left + place if 0 <= place < self.columns else None

    def time_at(self, column: int) -> int:
        """The time at which a column begins; beyond the lanes, the time at their nearer end."""
        return int(self.edges[min(max(column - self.left, 0), self.columns)])

    def lane_at(self, row: int) -> int | None:
        """The lane that has this row of the picture."""
        return next((slot.lane for slot in self.slots if slot.row <= row < slot.row + slot.height), None)


def layout(lanes: Sequence[Lane], viewport: Viewport) -> Layout:
    """How the lanes are laid out. A cell is 1 ns long at least."""
    # The ASCII twin may be longer; the lanes begin at the same column in both.
    titles = (
        max(width_of(lane.title), len(printable(lane.title, ascii=True))) + (0 if lane.level else len(_more(lane)))
        for lane in lanes
    )
    left = min(max(titles, default=0), _TITLE_CELLS, viewport.width // 3) + 1
    right = _SHARE_CELLS if viewport.width >= _SHARES_FROM else 0
    columns = max(1, viewport.width - left - right)
    span = max(viewport.end_ns - viewport.start_ns, columns)
    room = max(0, viewport.height - _RULER_ROWS - 1)
    return Layout(viewport.start_ns, span, left, columns, _slots(lanes, viewport.first_lane, room))


def _slots(lanes: Sequence[Lane], first: int, room: int) -> tuple[Slot, ...]:
    """Where all lanes fit, what is left parts them from each other and makes those of kernels taller."""
    shown = range(max(0, first), min(len(lanes), max(0, first) + room))
    spare = room - len(lanes)
    parted = {place for place in shown[1:] if _section(lanes[place]) != _section(lanes[place - 1])}
    if spare < len(parted):
        parted = set()
    spare -= len(parted)
    tall = [place for place in shown if lanes[place].kind in _TALL_KINDS]
    more = min(_MOST_ROWS - 1, max(0, spare) // len(tall)) if tall else 0
    slots, row = [], _RULER_ROWS
    for place in shown:
        row += place in parted
        height = 1 + (more if place in tall else 0)
        slots.append(Slot(place, row, height))
        row += height
    return tuple(slots)


def _more(lane: Lane) -> str:
    """What stands behind the title of a lane below which deeper ones are not shown."""
    return f" +{lane.hidden}" if lane.hidden else ""


def _section(lane: Lane) -> tuple[str, int]:
    if lane.kind in _RANGE_KINDS:
        return "ranges", -1
    return ("gpu", lane.gpu) if lane.kind in ("idle", *_GPU_KINDS) else (lane.kind, -1)


def paint(
    lanes: Sequence[Lane],
    viewport: Viewport,
    overlay: Overlay = Overlay(),
    *,
    names: Mapping[str, str] = MappingProxyType({}),
    ascii: bool = False,
    colourless: bool = False,
) -> Picture:
    """The pane in ``viewport.width`` × ``viewport.height`` cells: ruler, lanes, legend.

    ``names`` are its words, by ``NAMES`` and ``SHARES``. ``colourless`` puts a letter where a run of one class begins,
    for terminals that show no colours.
    """
    return _Painter(lanes, viewport, overlay, names, ascii, colourless).picture()


@dataclass
class _Painter:
    lanes: Sequence[Lane]
    viewport: Viewport
    overlay: Overlay
    names: Mapping[str, str]
    ascii: bool
    colourless: bool
    totals: dict[str, int] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)

    def picture(self) -> Picture:
        self.signs = _ASCII if self.ascii else _UNICODE
        self.plan = layout(self.lanes, self.viewport)
        self.edges = self.plan.edges
        self.widths: Ns = np.diff(self.edges)
        self.canvas = Canvas(self.viewport.width, self.viewport.height, ascii=self.ascii)
        if self.viewport.height >= _RULER_ROWS and self.viewport.width > self.plan.left:
            self._ruler()
            for slot in self.plan.slots:
                self._lane(slot, self.lanes[slot.lane])
            self._legend()
        return self.canvas.picture()

    def _cell_of(self, time_ns: int | None) -> int | None:
        """The cell in which a time lies, counted from the first of the lanes'."""
        column = None if time_ns is None else self.plan.column_of(time_ns)
        return None if column is None else column - self.plan.left

    def _cells_of(self, start_ns: int, end_ns: int) -> slice:
        """The cells that a stretch of time touches."""
        first = int(np.searchsorted(self.edges, start_ns, side="right")) - 1
        last = int(np.searchsorted(self.edges, max(end_ns, start_ns + 1), side="left"))
        return slice(max(first, 0), max(last, 0))

    # -------------------------------------------------------------- ruler

    def _ruler(self) -> None:
        plan, canvas, signs = self.plan, self.canvas, self.signs
        canvas.fill(plan.left, 1, [signs.axis] * plan.columns, ["tl-axis"] * plan.columns)
        start, end = plan.start_ns, plan.start_ns + plan.span_ns
        ticks = _ticks(start, end, plan.columns)
        if ticks.base is not None:
            canvas.write(
                0, 0, printable(units.moment(ticks.base, ticks.base_step, end), ascii=self.ascii), "tl-axis-offset"
            )
        for time in ticks.times:
            column = plan.column_of(time)
            if column is None:
                continue
            canvas.put(column, 1, signs.tick, "tl-axis")
            text = printable(ticks.label(time), ascii=self.ascii)
            cells = width_of(text)
            at = min(max(column - cells // 2, plan.left), canvas.width - cells)
            canvas.label(text, "tl-axis-label", [(at, 0)])
        self._on_axis()
        view = printable(self.names.get("view", ""), ascii=self.ascii)
        if self.viewport.width >= _SHARES_FROM:
            self.canvas.write(canvas.width - width_of(view), 1, view, "tl-legend")

    def _on_axis(self) -> None:
        """Selection, marks, bookmarks and cursor, each over those before."""
        overlay = self.overlay
        if overlay.selection is not None:
            self._stretch(overlay.selection, "tl-selection")
        a, b = overlay.mark_a, overlay.mark_b
        if a is not None and b is not None:
            self._stretch((min(a, b), max(a, b)), "tl-measure")
        for time in overlay.bookmarks:
            self._point(time, self.signs.bookmark, "tl-bookmark")
        self._point(overlay.cursor_ns, self.signs.cursor, "tl-cursor-head")
        self._point(a, "a", "tl-mark-a")
        self._point(b, "b", "tl-mark-b")

    def _stretch(self, span: tuple[int, int], role: str) -> None:
        """A stretch of time on the axis, with its length where that fits into it or beside it."""
        cells = self._cells_of(*span)
        first, last = min(cells.start, self.plan.columns), min(cells.stop, self.plan.columns)
        if last <= first:
            return
        self.canvas.fill(self.plan.left + first, 1, [self.signs.measure] * (last - first), [role] * (last - first))
        text = f" {printable(units.duration(span[1] - span[0]), ascii=self.ascii)} "
        room = last - first
        for at in (first + (room - len(text)) // 2, last, first - len(text)):
            inside = first < at and at + len(text) < last
            beside = at in (last, first - len(text))
            if (inside or beside) and at >= 0 and at + len(text) <= self.plan.columns:
                self.canvas.write(self.plan.left + at, 1, text, role)
                return

    def _point(self, time_ns: int | None, sign: str, role: str) -> None:
        cell = self._cell_of(time_ns)
        if cell is not None:
            self.canvas.put(self.plan.left + cell, 1, sign, role)

    # -------------------------------------------------------------- lanes

    def _lane(self, slot: Slot, lane: Lane) -> None:
        cover = lane.cover(self.edges)
        covered = np.minimum(cover.sum(axis=0), self.widths)
        self._titles(slot, lane, int(covered.sum()))
        self._count(lane, cover)
        level = _steps(covered, self.widths, 8 * slot.height)
        if len(lane.instants):
            level = np.maximum(level, np.diff(np.searchsorted(lane.instants, self.edges)) > 0)
        main = cover.argmax(axis=0)
        is_lit, has_lit, is_hit = self._light(lane, covered)
        classes = [f"tl-{one}" for one in lane.classes]
        # Lit events are one class more.
        of = np.where(is_lit, len(classes), main)
        classes.append("tl-lit")
        roles = [classes[one] for one in of.tolist()]
        rows = self._blocks(level, slot.height)
        inks = [[role if glyph != " " else "" for glyph, role in zip(row, roles, strict=True)] for row in rows]
        if self.colourless:
            self._letters(lane, of, level, rows[-1])
        if lane.kind == "marks":
            self._mark_names(lane, rows[0], inks[0])
        elif lane.kind == "idle":
            self._gaps(lane, rows[0], inks[0])
        elif lane.kind != "counter":
            self._bars(lane, rows, inks, roles, covered == self.widths)
        for mask, over in ((has_lit, "tl-has-lit"), (is_hit, "tl-hit")):
            for cell in np.flatnonzero(mask).tolist():
                inks[-1][cell] = f"{inks[-1][cell]} {over}".lstrip()
        for glyphs, ink in zip(rows, inks, strict=True):
            self._lay_over(slot, lane, glyphs, ink)
        for line, (glyphs, ink) in enumerate(zip(rows, inks, strict=True)):
            self.canvas.fill(self.plan.left, slot.row + line, glyphs, ink)

    def _titles(self, slot: Slot, lane: Lane, covered_ns: int) -> None:
        role = "tl-title-selected" if slot.lane == self.overlay.lane else "tl-title"
        row = slot.row + (slot.height - 1) // 2
        more = _more(lane)
        room = self.plan.left - 1 - len(more)
        if lane.level == 0 or slot is self.plan.slots[0]:
            title = shorten(printable(lane.title, ascii=self.ascii), room, ascii=self.ascii)
            self.canvas.write(0, row, title, role)
        self.canvas.write(max(0, room), row, more, "tl-title")
        if covered_ns and self.viewport.width >= _SHARES_FROM and lane.kind in ("idle", *_GPU_KINDS):
            text = printable(units.share(100 * covered_ns / self.plan.span_ns), ascii=self.ascii)
            self.canvas.write(self.canvas.width - len(text), row, text, "tl-share")

    def _count(self, lane: Lane, cover: Ns) -> None:
        """For the legend: what is in view."""
        for name, ns in zip(lane.classes, cover.sum(axis=1).tolist(), strict=True):
            if ns and lane.kind in _GPU_KINDS:
                self.totals[name] = self.totals.get(name, 0) + ns
            elif ns and lane.kind in ("api", "os"):
                self.others[name] = None

    def _light(self, lane: Lane, covered: Ns) -> tuple[npt.NDArray[np.bool_], ...]:
        """Per cell whether lit events cover most of what is covered, whether there is any, and any search hit."""
        none = np.zeros(len(covered), dtype=bool)
        lit, hits = self.overlay.lit, self.overlay.hits
        lit_ns = None if lit is None else lit.within(lane, self.edges)
        hit_ns = None if hits is None else hits.within(lane, self.edges)
        is_lit = none if lit_ns is None else (lit_ns > 0) & (2 * lit_ns >= covered)
        has_lit = none if lit_ns is None else (lit_ns > 0) & ~is_lit
        return is_lit, has_lit, none if hit_ns is None else hit_ns > 0

    def _blocks(self, level: Ns, height: int) -> list[list[str]]:
        """The glyphs of each row, from the top."""
        return [self.signs.blocks[np.clip(level - 8 * below, 0, 8)].tolist() for below in reversed(range(height))]

    def _letters(self, lane: Lane, of: Ns, level: Ns, glyphs: list[str]) -> None:
        """Write each class's letter where a run of it begins."""
        letters = [_LETTERS.get(one) for one in lane.classes] if lane.kind in ("stream", "api", "os") else []
        letters += [None] * (len(lane.classes) - len(letters)) + [self.signs.lit]
        key = np.where(level > 0, of, -1)
        begins = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
        lengths = np.diff(np.append(begins, len(key)))
        for begin in begins[lengths > 1].tolist():
            letter = letters[key[begin]] if key[begin] >= 0 else None
            if letter is not None:
                glyphs[begin] = letter

    def _bars(
        self,
        lane: Lane,
        rows: list[list[str]],
        inks: list[list[str]],
        roles: list[str],
        is_full: npt.NDArray[np.bool_],
    ) -> None:
        """Events that fill several cells, with their names."""
        is_range = lane.kind in _RANGE_KINDS
        line = (len(rows) - 1) // 2
        for place, first, last in self._filled(lane, _LEAST_BAR - is_range):
            near = self._rounded(lane, place, first, last)
            # A cell that is not full tells that there is time left free.
            first, last = near[0] + (not is_full[near[0]]), near[1] - (not is_full[near[1] - 1])
            bar = f"{roles[first]}-bar"
            for glyphs, ink in zip(rows, inks, strict=True):
                if not self.colourless:
                    glyphs[first:last] = [" "] * (last - first)
                    ink[first:last] = [bar] * (last - first)
            joins = is_range or (first > 0 and is_full[first - 1])
            text = (self.signs.border if joins else " ") + self._text(lane, place, last - first - 1)
            if self.colourless:
                text = f"{text} "
                fill = self.signs.line if is_range else str(self.signs.blocks[8])
                rows[line][first:last] = [fill] * (last - first)
            _write(rows[line], first, last, text)

    def _rounded(self, lane: Lane, place: int, first: int, last: int) -> tuple[int, int]:
        """The cells of an event, with those at its ends of which it has most."""
        edges = self.edges
        if first > 0 and 2 * (edges[first] - lane.start[place]) > self.widths[first - 1]:
            first -= 1
        if last < len(self.widths) and 2 * (lane.end[place] - edges[last]) >= self.widths[last]:
            last += 1
        return first, last

    def _text(self, lane: Lane, place: int, cells: int) -> str:
        """An event's name, or as much of it as fits; nothing where that would tell nothing."""
        text = printable(lane.label(place), ascii=self.ascii)
        short = shorten(text, cells, ascii=self.ascii)
        return short if short == text or cells > _LEAST_BAR else ""

    def _filled(self, lane: Lane, least: int) -> list[tuple[int, int, int]]:
        """The events that fill at least so many cells: place in the lane, first cell, cell after the last."""
        places = lane.filling(self.edges)
        first = np.searchsorted(self.edges, lane.start[places], side="left")
        last = np.searchsorted(self.edges, lane.end[places], side="right") - 1
        long = last - first >= least
        return list(zip(places[long].tolist(), first[long].tolist(), last[long].tolist(), strict=True))

    def _mark_names(self, lane: Lane, glyphs: list[str], ink: list[str]) -> None:
        places = lane.first_in(self.edges)
        cells = np.flatnonzero(places >= 0).tolist()
        for cell, until in pairwise((*cells, len(glyphs))):
            glyphs[cell], ink[cell] = self.signs.mark, "tl-mark"
            if until - cell > _LEAST_BAR:
                text = f" {self._text(lane, int(places[cell]), until - cell - 3)}"
                _write(glyphs, cell + 1, until - 1, text)
                ink[cell + 1 : cell + 1 + width_of(text)] = ["tl-mark"] * width_of(text)

    def _gaps(self, lane: Lane, glyphs: list[str], ink: list[str]) -> None:
        """Gaps of several cells as brackets with their lengths; the longest stands out."""
        # So little is no block: a row of them would underline the lane above.
        glyphs[:] = [self.signs.little if glyph == self.signs.blocks[1] else glyph for glyph in glyphs]
        found = [(place, *self._rounded(lane, place, *cells)) for place, *cells in self._filled(lane, 2)]
        longest = max((int(lane.end[place] - lane.start[place]) for place, _, _ in found), default=0)
        left, right = self.signs.ends
        for place, first, last in found:
            length = int(lane.end[place] - lane.start[place])
            room = last - first
            line = [left, *[self.signs.line] * (room - 2), right]
            text = printable(units.duration(length), ascii=self.ascii)
            if len(text) <= room:
                text = f" {text} " if len(text) + 4 <= room else text.center(room)
                at = (room - len(text)) // 2
                line[at : at + len(text)] = list(text)
            glyphs[first:last] = line
            ink[first:last] = ["tl-idle-longest" if length == longest else "tl-idle-label"] * room

    def _lay_over(self, slot: Slot, lane: Lane, glyphs: list[str], ink: list[str]) -> None:
        """Selection, marks and cursor, over one row."""
        overlay = self.overlay
        if overlay.selection is not None:
            # A bar has its class as its ground, which is not to be hidden.
            _add(ink, self._cells_of(*overlay.selection), "tl-selection", unless="-bar")
        if overlay.row is not None and slot.lane == overlay.lane and lane.has(overlay.row):
            _add(ink, self._cells_of(*lane.span(overlay.row)), "tl-selected")
        for time, role in ((overlay.mark_a, "tl-mark-a"), (overlay.mark_b, "tl-mark-b")):
            cell = self._cell_of(time)
            if cell is not None and glyphs[cell] == " " and not ink[cell].endswith("-bar"):
                glyphs[cell], ink[cell] = self.signs.mark_line, role
        cell = self._cell_of(overlay.cursor_ns)
        if cell is not None:
            if glyphs[cell] == " " and ink[cell] in ("", "tl-selection"):
                glyphs[cell], ink[cell] = self.signs.cursor_line, "tl-cursor-line"
            else:
                ink[cell] = f"{ink[cell]} tl-cursor"

    # -------------------------------------------------------------- legend

    def _legend(self) -> None:
        """The classes in view, of the GPU's time each with its share, largest first, as many as fit."""
        row, column = self.viewport.height - 1, 0
        if row <= _RULER_ROWS:
            return
        whole = sum(self.totals.values())
        items = [
            (name, f" {units.share(100 * ns / whole)}")
            for name, ns in sorted(self.totals.items(), key=lambda one: -one[1])
        ]
        items += [(name, "") for name in self.others]
        if self.overlay.lit is not None:
            column = self._legend_item(row, column, "lit", "") or column
        work = printable(self.names.get("work", ""), ascii=self.ascii)
        if whole and work:
            self.canvas.write(column, row, work, "tl-legend")
            column += width_of(work) + 1
        for name, share in items:
            # The colours matter more than their shares.
            after = self._legend_item(row, column, name, share) or self._legend_item(row, column, name, "")
            if after is None:
                break
            column = after

    def _legend_item(self, row: int, column: int, name: str, share: str) -> int | None:
        """Write a class's sign and word; the column of the next one, ``None`` where it does not fit."""
        sign = self.signs.lit if self.colourless and name == "lit" else self.signs.swatch
        if self.colourless and name != "lit":
            sign = _LETTERS.get(name, "")
        word = printable(f"{self.names.get(name, name)}{share}", ascii=self.ascii)
        cells = width_of(sign) + 1 + width_of(word)
        if column + cells > self.canvas.width:
            return None
        self.canvas.write(column, row, sign, f"tl-{name}")
        self.canvas.write(column + (2 if sign else 0), row, word, "tl-legend")
        return column + cells + 2


def _steps(covered: Ns, widths: Ns, steps: int) -> Ns:
    """``covered`` of ``widths`` in so many steps, to the nearest; 0 and ``steps`` only for nothing and for all."""
    near = (2 * covered * steps + widths) // (2 * widths)
    return np.where(covered >= widths, steps, np.clip(near, covered > 0, steps - 1))


def _write(glyphs: list[str], first: int, last: int, text: str) -> None:
    """Write ``text`` into the cells from ``first``, as much of it as ends before ``last``."""
    for piece, cells in clusters(text):
        if first + cells > last:
            return
        glyphs[first : first + cells] = [piece, ""][:cells]
        first += cells


def _add(ink: list[str], cells: slice, role: str, *, unless: str = "\0") -> None:
    """Lay a role over those of some cells, but for roles that hold ``unless``."""
    ink[cells] = [one if unless in one else f"{one} {role}".lstrip() for one in ink[cells]]


# ------------------------------------------------------------------ ruler


@dataclass(frozen=True, slots=True)
class _Ticks:
    """Where the ruler's ticks are, in ns, and how they are told: in full, or from ``base`` on."""

    times: range
    step: int
    reach: int
    base: int | None = None
    base_step: int = 1

    def label(self, time: int) -> str:
        if self.base is None:
            return units.moment(time, self.step, self.reach)
        return f"+{units.moment(time - self.base, self.step, self.reach)}"


_MOST_PLACES = 4
"""Digits that the steps of a ruler may lie below its times before they are told as offsets."""


def _ticks(start: int, end: int, columns: int) -> _Ticks:
    """Ticks at the finest of the steps 1, 2, 5, 10 … ns whose labels do not touch."""
    span = end - start
    power = 10 ** (len(str(span // columns)) - 1)
    while True:
        for factor in (1, 2, 5):
            step = factor * power
            ticks = _ticks_of(start, end, step)
            widest = max(len(ticks.label(time)) for time in (start, end))
            if columns * step >= (widest + 3) * span or step > span:
                return ticks
        power *= 10


def _ticks_of(start: int, end: int, step: int) -> _Ticks:
    times = range(-(-start // step) * step, end, step)
    reach = max(abs(start), abs(end))
    if reach < step * 10**_MOST_PLACES:
        return _Ticks(times, step, reach)
    # The largest power of ten that the view is longer than: the base changes seldom while one moves.
    unit = 10 ** (len(str(end - start)) - 1)
    base = start // unit * unit
    return _Ticks(times, step, end - base, base, unit)
