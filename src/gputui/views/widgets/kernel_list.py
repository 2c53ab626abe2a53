"""The kernels: share of time, duration, name, verdict. Columns fold away as the list gets narrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from textual.containers import Vertical

from gputui import units
from gputui.paint.bars import bar
from gputui.paint.grid import width_of
from gputui.views import ordering
from gputui.views.glyphs import Glyphs, verdict_mark
from gputui.views.text import Line, Segment, fit, shorten_middle
from gputui.views.widgets.line_table import LineTable, TableState, highlight

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.views.library import Entry, Library
    from gputui.wording import Wording

SORTS = ("time", "order", "name", "verdict", "op")
_DESCENDING = {"time": True}
_BAR = 6
_FULL_BAR_PCT = 20.0
"""A full bar stands for the largest share, but for no less than this: a list of equals has no long bars."""


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
        self.expanded: set[int] = set()
        self._groups: ordering.Rows = ordering.NO_ROWS
        self._group_names: list[str] = []
        self._group_counts: ordering.Rows = ordering.NO_ROWS
        self._group_ns: list[float] = []
        self._ordered: ordering.Rows = ordering.NO_ROWS
        self._largest_pct = 0.0

    # -------------------------------------------------------------- order

    def rows(self) -> ordering.Rows:
        """The rows as sort, filter and grouping have them now."""
        entries = self.library.entries
        self._largest_pct = max(_FULL_BAR_PCT, 100 * max((one.share or 0.0 for one in entries), default=0.0))
        keys = self._keys()
        descending = keys is not None and _DESCENDING.get(self.sort, False)
        rows = ordering.sort_items(keys, len(entries), descending=descending != self.reversed)
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
            times = np.array([np.nan if one.duration_ns is None else one.duration_ns for one in entries], dtype=float)
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
        times = np.array([one.duration_ns or 0.0 for one in self.library.entries], dtype=float)
        self._group_ns = np.bincount(groups[rows], weights=times[rows], minlength=len(numbers)).tolist()

    def toggle(self, group: int) -> None:
        self.expanded ^= {group}

    def first_of(self, group: int) -> int:
        """The item of the group that stands first in the order of the list."""
        rows = self._ordered
        return int(rows[np.argmax(self._groups[rows] == group)])

    def _by_group_time(self, rows: ordering.Rows) -> ordering.Rows:
        """Groups by their whole time, so that the header's number is what they are sorted by."""
        whole = np.array(self._group_ns)[self._groups[rows]]
        return rows[np.argsort(whole if self.reversed else -whole, kind="stable")]

    # -------------------------------------------------------------- cells

    def columns(self, width: int) -> dict[str, int]:
        """Cells by column, left to right; what has no room is left out."""
        sizes = {"share": 6}
        if width >= 56:
            sizes["bar"] = _BAR + 1
        if width >= 34:
            sizes["time"] = 9
        verdict = max(
            [width_of(self.words.verdict_name(id)) for id in ("launch-bound", "memory-bound", "latency-bound")]
        )
        tail = {"verdict": verdict + 5} if width >= 56 else {"level": 7} if width >= 42 else {}
        if width >= 84:
            tail = {"op": 13, **tail}
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
                "name": "name",
                "verdict": "verdict",
                "level": "verdict",
                "op": "op",
            }
            title = self.words.ui(f"column.{id}")
            if sorted_by[id] == self.sort:
                title += arrow
            right = id in ("share", "time")
            text = fit(title, cells - 1 if id in ("share", "time", "name") else cells, right=right)
            line.append((fit(text, cells), "head"))
        return line

    def row(self, row: int, state: TableState) -> Line:
        if row < 0:
            return self._header(ordering.group_of(row), state)
        entry = self.library.entries[row]
        diagnosis = self.diagnoses.get(row)
        line: list[Segment] = []
        for id, cells in self.columns(state.width).items():
            line += self._cell(id, cells, entry, diagnosis, state.query)
        return line

    def _cell(self, id: str, cells: int, entry: Entry, diagnosis: Diagnosis | None, query: str) -> list[Segment]:
        share = None if entry.share is None else 100 * entry.share
        if id == "share":
            return [(f"{fit(units.share(share), cells - 1, right=True)} ", "number")]
        if id == "bar":
            return [(bar(share, self._largest_pct, cells - 1, ascii=self.ascii), "bar"), (" ", "")]
        if id == "time":
            return [(f"{fit(units.duration(entry.duration_ns), cells - 1, right=True)} ", "number")]
        if id == "name":
            return self._name(entry, cells, query)
        if id in ("verdict", "level"):
            return [(fit(self.level_text(entry) if id == "level" else self.verdict_text(entry), cells), "muted")]
        if id == "op":
            return [(fit(entry.identity.op_class, cells), "muted")]
        return [(" ", ""), verdict_mark(diagnosis, self.signs)]

    def _name(self, entry: Entry, cells: int, query: str) -> list[Segment]:
        indent = "  " if self.grouping else ""
        room = cells - 1 - len(indent)
        detail_room = min(width_of(entry.detail) + 1, room // 2) if entry.detail else 0
        name = shorten_middle(entry.title, max(room - detail_room, min(room, width_of(entry.title), 8)))
        left = room - width_of(name)
        line = [(indent, ""), *highlight(name, "", query)]
        if entry.detail and left > min(4, width_of(entry.detail)):
            line.append((f" {shorten_middle(entry.detail, left - 1)}", "faint"))
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
        diagnosis = self.diagnoses.get(entry.number)
        if diagnosis is None:
            return ""
        name = self.words.verdict_name(diagnosis.verdict.id)
        level = diagnosis.verdict.level
        return f"{name} {level.upper()}" if level and diagnosis.verdict.id == "memory-bound" else name

    def level_text(self, entry: Entry) -> str:
        diagnosis = self.diagnoses.get(entry.number)
        if diagnosis is None:
            return ""
        level = diagnosis.verdict.level
        return level.upper() if level else self.words.ui(f"verdict_short.{diagnosis.verdict.id}")


class KernelList(Vertical):
    """The table with its data."""

    def __init__(self, data: KernelTable, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.data = data
        self.table = LineTable(data, id="kernel-table")
        self.table.ascii = data.ascii

    def compose(self):  # type: ignore[no-untyped-def]
        yield self.table

    def update_rows(self, keep: int | None = None) -> None:
        """Sort, filter and group anew; the cursor stays on its kernel."""
        self.table.set_rows(self.data.rows(), keep=keep)
