"""The NVTX ranges of a timeline as a tree: time on the CPU, what the GPU did for it, how much the GPU idled in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.message import Message

from gputui import units
from gputui.paint.grid import width_of
from gputui.views import actions, ordering
from gputui.views.glyphs import Glyphs
from gputui.views.text import Line, Segment, fit, shorten_middle, shown
from gputui.views.widgets.line_table import LineTable, TableState, highlight

if TYPE_CHECKING:
    from gputui.analysis.nvtx import RangeNode
    from gputui.views.library import RangeRows
    from gputui.wording import Wording

_LEVELS_OPEN = 2
"""Levels that can be seen at first, and more while that takes no more than so many rows."""
_ROWS_OPEN = 20
_MUCH_IDLE = 0.3
"""A range whose GPU idles for at least this share of its time stands out."""
_NUMBERS = {"cpu": 9, "gpu": 9, "kernels": 9, "idle": 6}


class RangeTable:
    """What the tree shows, and which of its ranges are open: the data behind one ``LineTable``."""

    def __init__(self, words: Wording, signs: Glyphs) -> None:
        self.words = words
        self.signs = signs
        self.ranges: RangeRows | None = None
        self.filter = ""
        self.expanded: set[int] = set()
        self._texts: list[str] = []

    def set_ranges(self, ranges: RangeRows) -> None:
        """Take over another timeline's ranges."""
        if ranges is self.ranges:
            return
        self.ranges = ranges
        self._texts = []
        depths = [len(node.path) for node in ranges.nodes]
        open_to = _LEVELS_OPEN
        while open_to < max(depths, default=0) and sum(depth <= open_to + 1 for depth in depths) <= _ROWS_OPEN:
            open_to += 1
        self.expanded = {row for row, depth in enumerate(depths) if depth < open_to}

    def rows(self) -> ordering.Rows:
        """The rows that are not folded away; with a filter those that match and what they stand in."""
        if self.ranges is None:
            return ordering.NO_ROWS
        if not self.filter:
            return ordering.unfolded(self.ranges.ends, self.expanded)
        found = [row for row in range(len(self.ranges.nodes)) if self.matches(self.filter, row)]
        return ordering.with_parents(self.ranges.ends, found)

    def toggle(self, row: int) -> None:
        if self.has_children(row):
            self.expanded ^= {row}

    def has_children(self, row: int) -> bool:
        return self.ranges is not None and self.ranges.ends[row] > row + 1

    def node(self, row: int) -> RangeNode:
        assert self.ranges is not None
        return self.ranges.nodes[row]

    def matches(self, query: str, row: int) -> bool:
        if not self._texts and self.ranges is not None:
            self._texts = [node.name.casefold() for node in self.ranges.nodes]
        return query in self._texts[row]

    # -------------------------------------------------------------- cells

    def columns(self, width: int) -> dict[str, int]:
        """Cells by column behind the name, left to right; what has no room is left out."""
        sizes = dict(_NUMBERS)
        for id in ("kernels", "idle", "cpu"):
            if width - sum(sizes.values()) < (24 if id == "kernels" else 16):
                del sizes[id]
        return sizes

    def head(self, width: int) -> Line:
        columns = self.columns(width - 1)
        name = width - 1 - sum(columns.values())
        line: list[Segment] = [(" ", "head"), (fit(self.words.ui("column.range"), name), "head")]
        return [
            *line,
            *((fit(self.words.ui(f"column.range_{id}"), cells, right=True), "head") for id, cells in columns.items()),
        ]

    def row(self, row: int, state: TableState) -> Line:
        node = self.node(row)
        columns = self.columns(state.width)
        line = self._name(row, node, state.width - sum(columns.values()), state.query)
        for id, cells in columns.items():
            text, role = self._number(id, node)
            line.append((fit(text, cells, right=True), role))
        return line

    def _name(self, row: int, node: RangeNode, cells: int, query: str) -> list[Segment]:
        sign = " "
        if self.has_children(row):
            is_open = row in self.expanded or bool(self.filter)
            sign = self.signs.unfolded if is_open else self.signs.folded
        # Deep ranges keep room for their names.
        indent = "  " * min(len(node.path) - 1, max(0, cells // 4 - 2))
        room = cells - len(indent) - 3
        detail = f" ×{units.count(node.count)}" if node.count > 1 else ""
        if width_of(detail) > room // 2:
            detail = ""
        name = shorten_middle(shown(node.name) or self.words.ui("range_unnamed"), room - width_of(detail))
        line = [(indent, ""), (f"{sign} ", "accent"), *highlight(name, self._role(node), query), (detail, "faint")]
        return [*line, (" " * max(0, cells - sum(width_of(text) for text, _ in line)), "")]

    def _role(self, node: RangeNode) -> str:
        # What comes from a tool and not from the program's author stands back.
        return "muted" if node.domain and node.kernels == 0 else ""

    def _number(self, id: str, node: RangeNode) -> Segment:
        if id == "cpu":
            return units.duration(node.cpu_ns), "number"
        if id == "gpu":
            return (units.duration(node.busy_ns), "number") if node.busy_ns else (units.DASH, "faint")
        if id == "kernels":
            return (units.count(node.kernels), "muted") if node.kernels else (units.DASH, "faint")
        idle = node.idle_share
        if idle is None:
            return units.DASH, "faint"
        return units.share(100 * idle), "medium" if idle >= _MUCH_IDLE else "muted"


class RangeTree(Vertical):
    """The table with its data. Posts ``Chosen`` for the range whose kernels the reader wants."""

    BINDINGS = actions.bindings("place")

    class Chosen(Message):
        def __init__(self, node: RangeNode) -> None:
            super().__init__()
            self.node = node

    def __init__(self, words: Wording, signs: Glyphs, *, ascii: bool, id: str | None = None) -> None:
        super().__init__(id=id)
        self.data = RangeTable(words, signs)
        self.table = LineTable(self.data, id="range-table")
        self.table.ascii = ascii

    def compose(self):  # type: ignore[no-untyped-def]
        yield self.table

    def show(self, ranges: RangeRows) -> None:
        if ranges is not self.data.ranges:
            self.data.set_ranges(ranges)
            self.update_rows()

    def update_rows(self) -> None:
        """Fold and filter anew; the cursor stays on its range, or goes to the one that folds it away."""
        self.table.set_rows(self.data.rows())

    def toggle(self) -> None:
        row = self.table.row
        if row is not None:
            self.data.toggle(row)
            self.update_rows()

    def action_open_place(self) -> None:
        node = self.node
        if node is not None:
            self.post_message(self.Chosen(node))

    @property
    def lines_needed(self) -> int:
        return len(self.table.rows) + 1

    @property
    def node(self) -> RangeNode | None:
        """The range under the cursor."""
        row = self.table.row
        return None if row is None else self.data.node(row)
