"""What became what: a row a group of kernels, the longest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gputui import units
from gputui.paint.grid import shorten, width_of
from gputui.views.glyphs import Glyphs
from gputui.views.text import Line, Segment, fit, shorten_middle
from gputui.views.widgets.line_table import LineTable, TableState

if TYPE_CHECKING:
    from gputui.render.compare_rows import GroupRow
    from gputui.views.comparing import Compared
    from gputui.wording import Wording

_COLUMNS = ("how", "time", "gain", "dram", "tensor")
_FIRST_TO_GO = ("tensor", "dram", "how")
_LEAST_NAMES = 34
_PICK = 2
_GAIN_ROLES = {"faster": "ok", "slower": "high"}


class GroupTable:
    """What stands in the table; ``picked`` are the groups that the user has marked to pair them, by their number."""

    def __init__(self, words: Wording, signs: Glyphs) -> None:
        self.words = words
        self.signs = signs
        self.rows: tuple[GroupRow, ...] = ()
        self.picked: set[int] = set()
        self._sides: dict[str, tuple[int, int]] = {}
        self._cells: dict[str, int] = {}

    def show(self, compared: Compared) -> None:
        self.rows, self.picked = compared.rows, set()
        told = [[self._told(id, row) for id in _COLUMNS] for row in self.rows]
        for place, id in enumerate(_COLUMNS):
            if {text for row in told for text in row[place]} <= {"", units.DASH}:
                self._cells[id] = 0
                continue
            before, after = (max((width_of(row[place][side]) for row in told), default=0) for side in (0, 1))
            self._sides[id] = before, after
            whole = before + (after and after + width_of(self.signs.arrow) + 2)
            self._cells[id] = 2 + max(whole, width_of(self._title(id)))

    def _told(self, id: str, row: GroupRow) -> tuple[str, str]:
        """What stands before the change and after it; of what is no change, only the first."""
        if id == "how":
            return row.how, ""
        if id == "gain":
            return row.gain, ""
        if id == "time":
            return row.before, row.after
        return (row.dram_before, row.dram_after) if id == "dram" else (row.tensor_before, row.tensor_after)

    def _title(self, id: str) -> str:
        return self.words.ui(f"compare.column.{id}")

    def _columns(self, width: int) -> dict[str, int]:
        """Cells by column; what has no room is left out, the names get the rest."""
        sizes = {id: cells for id, cells in self._cells.items() if cells}
        for id in _FIRST_TO_GO:
            if width - _PICK - sum(sizes.values()) < _LEAST_NAMES:
                sizes.pop(id, None)
        return {"names": max(12, width - _PICK - sum(sizes.values())), **sizes}

    def head(self, width: int) -> Line:
        line: list[Segment] = [(" " * (_PICK + 1), "head")]
        for id, cells in self._columns(width - 1).items():
            line.append((fit(self._title(id), cells), "head"))
        return line

    def row(self, row: int, state: TableState) -> Line:
        one = self.rows[row]
        is_picked = row in self.picked
        line: list[Segment] = [("* ", "accent") if is_picked else ("  ", "")]
        for id, cells in self._columns(state.width).items():
            line += self._names(one, cells, is_picked=is_picked) if id == "names" else self._cell(id, one, cells)
        return line

    def _names(self, one: GroupRow, cells: int, *, is_picked: bool) -> list[Segment]:
        """Both sides, or what stayed the same; where there is no room for both, the shorter one keeps its length."""
        role = "strong" if is_picked else ""
        base, new = (text or self.signs.dash for text in (one.base, one.new))
        if one.group.how == "same" and not one.new:
            return [(fit(shorten_middle(base, cells - 1), cells), role)]
        arrow = f" {self.signs.arrow} "
        room = cells - 1 - width_of(arrow)
        sizes = [width_of(base), width_of(new)]
        if sum(sizes) > room:
            short = min(*sizes, room // 2)
            sizes = [short, room - short] if sizes[0] <= sizes[1] else [room - short, short]
        base, new = (
            # Of names the ends tell as much as the beginnings, of several kernels the first ones tell most.
            shorten_middle(text, size) if len(members) == one.group.times else shorten(text, size)
            for text, size, members in ((base, sizes[0], one.group.base), (new, sizes[1], one.group.new))
        )
        rest = cells - width_of(base) - width_of(arrow) - width_of(new)
        return [(base, role), (arrow, "faint"), (new, role), (" " * max(0, rest), "")]

    def _cell(self, id: str, one: GroupRow, cells: int) -> list[Segment]:
        before, after = self._told(id, one)
        if not self._sides[id][1]:
            outcome = "" if one.group.time is None or id == "how" else one.group.time.outcome
            return [(fit(before, cells), _GAIN_ROLES.get(outcome, "muted"))]
        arrow = self.signs.arrow if before and after else " " * width_of(self.signs.arrow)
        text = fit(before, self._sides[id][0], right=True)
        rest = cells - width_of(text) - width_of(arrow) - 2
        return [(text, "muted"), (f" {arrow} ", "faint"), (fit(after, rest), "number")]


class GroupList(LineTable):
    def __init__(self, words: Wording, signs: Glyphs) -> None:
        self.data = GroupTable(words, signs)
        super().__init__(self.data, id="group-list")

    def show(self, compared: Compared, at: int) -> None:
        """These groups, the cursor on the one of this number."""
        self.data.show(compared)
        self.set_rows(np.arange(len(compared.rows), dtype=np.int64), keep=at)
        self.repaint()

    def toggle(self) -> None:
        if self.row is not None:
            self.data.picked ^= {self.row}
            self.repaint([self.row])
