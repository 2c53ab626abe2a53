"""The kernels: share of time, duration, name, verdict. Columns fold away as the list gets narrow.

A row is a launch of an ncu report, or all launches of one name of a timeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from textual.containers import Vertical

from gputui import units
from gputui.paint.bars import bar
from gputui.paint.grid import shorten, width_of
from gputui.views import ordering
from gputui.views.glyphs import Glyphs, verdict_mark
from gputui.views.text import Line, Segment, fit, line_width, shorten_middle, shown
from gputui.views.widgets.line_table import LineTable, TableState, highlight
from gputui.views.widgets.one_line import OneLine

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.timeline import Group
    from gputui.views.library import Entry, Library, RangeContent
    from gputui.wording import Wording

SORTS = ("time", "order", "name", "verdict", "op")
_DESCENDING = {"time": True}
_BAR = 6
_ROOM_FOR_NAMES = 40
"""Cells: a timeline's names get so many, if they need them, before a bar and a class do."""
_LEAST_NAME = 7
FULL_BAR_PCT = 20.0
"""A full bar stands for the largest share, but for no less than this: a list of equals has no long bars."""


def fit_name(entry: Entry, cells: int) -> tuple[str, str]:
    """A kernel's name and detail in so many cells with the blank between them.

    What sets the kernel apart is told first: the detail's first word, then what follows a beginning that others share.
    """
    if not entry.detail:
        return shorten_name(entry.title, entry.common, cells), ""
    key = width_of(entry.key_detail) + 1
    name = shorten(entry.title, max(min(_LEAST_NAME, cells), cells - key))
    words = entry.detail.split(" ")
    left = cells - width_of(name) - 1
    detail = shorten(words[0], left) if left > 1 else ""
    for word in words[1:]:
        if width_of(detail) + 1 + width_of(word) > left:
            break
        detail = f"{detail} {word}"
    return name, detail


def shorten_name(title: str, common: int, cells: int) -> str:
    """A name, shortened where it must be: first what it shares with others (its first ``common`` characters) but for
    the first word of that, then the middle of the rest."""
    if width_of(title) <= cells:
        return title
    first = title[:common].split("_")[0]
    if len(first) + 1 >= common or 3 * (len(first) + 1) > cells:
        return shorten_middle(title, cells)
    return f"{first}…{shorten_middle(title[common:], cells - len(first) - 1)}"


class KernelTable:
    """What the list shows, in which order: the data behind one ``LineTable``."""

    def __init__(self, library: Library, diagnoses: Mapping[int, Diagnosis], words: Wording, signs: Glyphs) -> None:
        self.library = library
        self.diagnoses = diagnoses
        self.words = words
        self.signs = signs
        self.ascii = False
        self.sort = "time"
        self.reversed = False
        self.grouping = ""
        self.filter = ""
        self.within: Mapping[int, Group] | None = None
        """By entry its launches in the NVTX range that the list is held to; ``None`` shows all."""
        self.expanded: set[int] = set()
        self._groups: ordering.Rows = ordering.NO_ROWS
        self._group_names: list[str] = []
        self._group_counts: ordering.Rows = ordering.NO_ROWS
        self._group_ns: list[float] = []
        self._ordered: ordering.Rows = ordering.NO_ROWS
        self._largest_pct = 0.0
        self._some_deserve = False
        self._count_cells = 0
        self._name_cells = 0

    # -------------------------------------------------------------- numbers

    def duration_of(self, entry: Entry) -> float | None:
        if self.within is None:
            return entry.duration_ns
        group = self.within.get(entry.number)
        return None if group is None else group.total_ns

    def share_of(self, entry: Entry) -> float | None:
        """Of its report's kernels, or of those in the range that the list is held to; 0-1."""
        if self.within is None:
            return entry.share
        group = self.within.get(entry.number)
        return None if group is None else group.share

    def count_of(self, entry: Entry) -> int:
        group = None if self.within is None else self.within.get(entry.number)
        return entry.count if group is None else group.count

    def diagnosis_of(self, entry: Entry) -> Diagnosis | None:
        """That of the launch itself; of a timeline's kernel that of the launch it is linked to."""
        linked = self.library.links.get(entry.number)
        return self.diagnoses.get(entry.number if linked is None else linked.entry.number)

    # -------------------------------------------------------------- order

    def rows(self) -> ordering.Rows:
        """The rows as sort, filter and grouping have them now."""
        entries = self.library.entries
        shares = [self.share_of(one) or 0.0 for one in entries]
        self._largest_pct = max(FULL_BAR_PCT, 100 * max(shares, default=0.0))
        self._some_deserve = any(self._deserves(one) for one in entries)
        most = max((self.count_of(one) for one in entries), default=1)
        self._count_cells = max(width_of(self.words.ui("column.count")), len(units.count(most)) + 1) + 1
        longest = max((width_of(one.title) + width_of(one.key_detail) + 2 for one in entries), default=0)
        self._name_cells = min(_ROOM_FOR_NAMES, longest)
        keys = self._keys()
        descending = keys is not None and _DESCENDING.get(self.sort, False)
        rows = ordering.sort_items(keys, len(entries), descending=descending != self.reversed)
        if self.within is not None:
            rows = ordering.keep(rows, np.array([entry.number in self.within for entry in entries], dtype=bool))
        if self.filter:
            rows = ordering.keep(rows, np.array([self.filter in entry.search for entry in entries], dtype=bool))
        if not self.grouping:
            return rows
        self._group(rows)
        if self.sort == "time" and len(rows):
            rows = self._by_group_time(rows)
        self._ordered = rows
        return ordering.group_rows(rows, self._groups, self.expanded)

    def _keys(self) -> np.ndarray | None:
        entries = self.library.entries
        if self.sort == "order":
            return None
        if self.sort == "time":
            known = [self.duration_of(one) for one in entries]
            times = np.array([np.nan if one is None else one for one in known], dtype=float)
            return None if np.isnan(times).all() else times
        if self.sort == "name":
            return np.array([one.title.casefold() for one in entries], dtype=object)
        if self.sort == "op":
            return np.array([one.identity.op_class for one in entries], dtype=object)
        return np.array([self.verdict_text(one) for one in entries], dtype=object)

    def _group(self, rows: ordering.Rows) -> None:
        numbers: dict[str | int, int] = {}
        groups = np.empty(len(self.library.entries), dtype=np.int64)
        for entry in self.library.entries:
            # Files by place, not by name: two folders may each hold a run.ncu-rep.
            key = entry.title if self.grouping == "name" else entry.report
            groups[entry.number] = numbers.setdefault(key, len(numbers))
        self._groups = groups
        self._group_names = [key if isinstance(key, str) else self.library.name_of(key) for key in numbers]
        self._group_counts = np.bincount(groups[rows], minlength=len(numbers))
        times = np.array([self.duration_of(one) or 0.0 for one in self.library.entries], dtype=float)
        self._group_ns = np.bincount(groups[rows], weights=times[rows], minlength=len(numbers)).tolist()

    def toggle(self, group: int) -> None:
        self.expanded ^= {group}

    def first_of(self, group: int) -> int:
        """The item of the group that stands first in the order of the list."""
        rows = self._ordered
        return int(rows[np.argmax(self._groups[rows] == group)])

    def _by_group_time(self, rows: ordering.Rows) -> ordering.Rows:
        """Groups by their whole time, so that the header's number is what they are sorted by; timelines before
        reports that look into some of their kernels."""
        whole = np.array(self._group_ns)[self._groups[rows]]
        counted = np.array([entry.timed is None for entry in self.library.entries], dtype=bool)[rows]
        return rows[np.lexsort((whole if self.reversed else -whole, counted))]

    def matches(self, query: str, row: int) -> bool:
        return row >= 0 and query in self.library.entries[row].search

    # -------------------------------------------------------------- cells

    def columns(self, width: int) -> dict[str, int]:
        """Cells by column, left to right; what has no room is left out."""
        sizes = {"share": 6}
        if width >= 56:
            sizes["bar"] = _BAR + 1
        if width >= 34:
            sizes["time"] = 8
        if width >= 44 and self.library.has_timeline:
            sizes["count"] = self._count_cells
        verdict = max(
            [width_of(self.words.verdict_name(id)) for id in ("launch-bound", "memory-bound", "latency-bound")]
        )
        # In a narrow list of a timeline alone the mark says as much, and the names need the room.
        has_levels = not self.library.has_timeline or bool(self.library.links)
        has_verdicts = has_levels or self._some_deserve
        tail = {}
        if width >= 56:
            tail = {"verdict": verdict + 5} if has_verdicts else {}
        elif width >= 42 and has_levels:
            tail = {"level": 7}
        if width >= 84:
            tail = {"op": 13, **tail}
        if self.library.has_timeline:
            # Names tell more than what a class or a bar says again.
            for parts, id in ((tail, "op"), (sizes, "bar")):
                if id in parts and width - sum(sizes.values()) - sum(tail.values()) - 2 < self._name_cells:
                    del parts[id]
        sizes["name"] = max(8, width - sum(sizes.values()) - sum(tail.values()) - 2)
        return {**sizes, **tail, "mark": 2}

    def head(self, width: int) -> Line:
        columns = self.columns(width - 1)
        arrow = self.signs.down if (_DESCENDING.get(self.sort, False) != self.reversed) else self.signs.up
        line: list[Segment] = [(" ", "head")]
        for id, cells in columns.items():
            if id in ("bar", "mark"):
                line.append((" " * cells, "head"))
                continue
            sorted_by = {
                "share": "",
                "time": "time",
                "count": "",
                "name": "name",
                "verdict": "verdict",
                "level": "verdict",
                "op": "op",
            }
            title = self.words.ui(f"column.{id}")
            if sorted_by[id] == self.sort:
                title += arrow
            right = id in ("share", "time", "count")
            text = fit(title, cells - 1 if right or id == "name" else cells, right=right)
            line.append((fit(text, cells), "head"))
        return line

    def row(self, row: int, state: TableState) -> Line:
        if row < 0:
            return self._header(ordering.group_of(row), state)
        entry = self.library.entries[row]
        line: list[Segment] = []
        for id, cells in self.columns(state.width).items():
            line += self._cell(id, cells, entry, state.query)
        return line

    def _cell(self, id: str, cells: int, entry: Entry, query: str) -> list[Segment]:
        share = self.share_of(entry)
        percent = None if share is None else 100 * share
        if id == "share":
            return [(f"{fit(units.share(percent), cells - 1, right=True)} ", "number")]
        if id == "bar":
            return [(bar(percent, self._largest_pct, cells - 1, ascii=self.ascii), "bar"), (" ", "")]
        if id == "time":
            return [(f"{fit(units.duration(self.duration_of(entry)), cells - 1, right=True)} ", "number")]
        if id == "count":
            text = "" if entry.timed is None else f"×{units.count(self.count_of(entry))}"
            return [(f"{fit(text, cells - 1, right=True)} ", "muted")]
        if id == "name":
            return self._name(entry, cells, query)
        if id in ("verdict", "level"):
            return [(fit(self.level_text(entry) if id == "level" else self.verdict_text(entry), cells), "muted")]
        if id == "op":
            return [(fit(entry.identity.op_class, cells), "muted")]
        return [(" ", ""), self._mark(entry)]

    def _mark(self, entry: Entry) -> Segment:
        diagnosis = self.diagnosis_of(entry)
        if entry.timed is None or diagnosis is not None:
            return verdict_mark(diagnosis, self.signs)
        return (self.signs.worth, "accent") if self._deserves(entry) else (" ", "")

    def _deserves(self, entry: Entry) -> bool:
        """Whether a kernel of a timeline is worth a look with ncu."""
        share = self.library.share_of(entry)
        return share is not None and share.deserves

    def _name(self, entry: Entry, cells: int, query: str) -> list[Segment]:
        indent = "  " if self.grouping else ""
        base = f"{self.words.ui('compare.base')} " if entry is self.library.base else ""
        room = cells - 1 - len(indent) - width_of(base)
        name, detail = fit_name(entry, room)
        line = [(indent, ""), (base, "accent"), *highlight(name, "", query)]
        if detail:
            line.append((f" {detail}", "faint"))
        return [*line, (" " * (cells - sum(width_of(text) for text, _ in line)), "")]

    def _header(self, group: int, state: TableState) -> Line:
        sign = self.signs.unfolded if group in self.expanded else self.signs.folded
        count = int(self._group_counts[group])
        whole = sum(self._group_ns)
        share = units.percent(100 * self._group_ns[group] / whole) if whole else units.DASH
        numbers = f"×{count}  {share}  {units.duration(self._group_ns[group] or None)}"
        name = shorten_middle(self._group_names[group], max(8, state.width - width_of(numbers) - 6))
        used = width_of(name) + 2
        return [
            (f"{sign} ", "accent"),
            *highlight(name, "strong", state.query),
            (fit(numbers, max(0, state.width - used - 2), right=True), "number"),
        ]

    def verdict_text(self, entry: Entry) -> str:
        diagnosis = self.diagnosis_of(entry)
        if diagnosis is None:
            return self.words.ui("worth_ncu") if self._deserves(entry) else ""
        name = self.words.verdict_name(diagnosis.verdict.id)
        level = diagnosis.verdict.level
        return f"{name} {level.upper()}" if level and diagnosis.verdict.id == "memory-bound" else name

    def level_text(self, entry: Entry) -> str:
        diagnosis = self.diagnosis_of(entry)
        if diagnosis is None:
            return ""
        level = diagnosis.verdict.level
        return level.upper() if level else self.words.ui(f"verdict_short.{diagnosis.verdict.id}")


class Breadcrumb(OneLine):
    """The NVTX range that the list is held to, and the key that takes this back."""

    def __init__(self, words: Wording) -> None:
        super().__init__(id="breadcrumb")
        self.words = words
        self.path: tuple[str, ...] = ()
        self.display = False

    def show(self, path: tuple[str, ...]) -> None:
        self.path = path
        self.display = bool(path)
        self.refresh()

    def lines(self, width: int) -> list[Line]:
        back: list[Segment] = [("  esc", "key"), (f" {self.words.ui('footer.back')} ", "faint")]
        path = " / ".join(shown(name, 200) for name in self.path)
        room = width - line_width(back) - 6
        return [[(" NVTX ", "label-word"), (fit(shorten_middle(path, room), room), "strong"), *back]]


class KernelList(Vertical):
    """The table with its data."""

    def __init__(self, data: KernelTable, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.data = data
        self.breadcrumb = Breadcrumb(data.words)
        self.table = LineTable(data, id="kernel-table")
        self.breadcrumb.ascii = self.table.ascii = data.ascii

    def compose(self):  # type: ignore[no-untyped-def]
        yield self.breadcrumb
        yield self.table

    def hold_to(self, content: RangeContent | None, keep: int | None = None) -> None:
        """Show the kernels that these NVTX ranges launched, or all; the cursor on ``keep`` where that is among them."""
        self.data.within = None if content is None else content.kernels
        self.breadcrumb.show(() if content is None else content.path)
        self.update_rows(keep)

    @property
    def lines_needed(self) -> int:
        return len(self.table.rows) + 1 + (1 if self.breadcrumb.display else 0)

    def update_rows(self, keep: int | None = None) -> None:
        """Sort, filter and group anew; the cursor stays on its kernel."""
        self.table.set_rows(self.data.rows(), keep=keep)
