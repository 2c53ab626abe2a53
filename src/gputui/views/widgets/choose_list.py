"""The kernels of a timeline to choose from: which are marked, what each is to the program, what profiling it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gputui import units
from gputui.paint.grid import width_of
from gputui.views.text import Line, Segment, fit, paragraph, shorten_middle, shown
from gputui.views.widgets.kernel_list import fit_name
from gputui.views.widgets.line_table import LineTable, TableState
from gputui.views.widgets.one_line import OneLine

if TYPE_CHECKING:
    from gputui.analysis.proposals import Proposal
    from gputui.views.guide import Guide
    from gputui.wording import Wording

_LEAST_GAIN = 1.005
"""What is less reads as none."""
_MOST_GAIN = 10.0
_MARK, _SHARE, _COUNT = 4, 7, 10
_LEAST_NAME = 40
_DETAIL = 24


class ChooseTable:
    """What stands in the table: a row a proposal."""

    def __init__(self, guide: Guide, words: Wording) -> None:
        self.guide = guide
        self.words = words

    def _columns(self, width: int) -> dict[str, int]:
        gain = max(width_of(self.words.text("guide.column.gain")), width_of(self._gain(1.25))) + 2
        cost = max(width_of(self.words.text("guide.column.cost")), width_of(self._cost(120.0)) + 1) + 2
        sizes = {"mark": _MARK, "share": _SHARE, "gain": gain, "cost": cost}
        if width >= 84:
            sizes["count"] = _COUNT
        room = width - sum(sizes.values())
        reason = max((width_of(self.reason(one)) for one in self.guide.proposals), default=0)
        if room >= _LEAST_NAME + reason:
            longest = max((width_of(shown(one.share.kernel.name)) for one in self.guide.proposals), default=0)
            sizes["name"] = max(_LEAST_NAME, min(longest + _DETAIL, room - reason))
            sizes["reason"] = room - sizes["name"]
        else:
            sizes["name"] = room
        order = ("mark", "share", "name", "count", "gain", "cost", "reason")
        return {id: sizes[id] for id in order if id in sizes}

    def tells_reasons(self, width: int) -> bool:
        return "reason" in self._columns(width - 1)

    def head(self, width: int) -> Line:
        line: list[Segment] = [(" ", "head")]
        for id, cells in self._columns(width - 1).items():
            title = "" if id == "mark" else self.words.text(f"guide.column.{id}")
            line.append((_cell(title, cells, right=id in ("share", "count", "gain", "cost")), "head"))
        return line

    def row(self, row: int, state: TableState) -> Line:
        one = self.guide.proposals[row]
        is_marked = row in self.guide.marked
        line: list[Segment] = []
        for id, cells in self._columns(state.width).items():
            if id == "name":
                name, detail = fit_name(self.guide.entry_of(one), cells - 2)
                rest = fit(f" {detail}", max(0, cells - width_of(name)))
                line += [(name, "strong" if is_marked else ""), (rest, "faint")]
                continue
            text, role = self._text(id, one, is_marked=is_marked)
            line.append((_cell(text, cells, right=id in ("share", "count", "gain", "cost")), role))
        return line

    def _text(self, id: str, one: Proposal, *, is_marked: bool) -> Segment:
        if id == "mark":
            return ("[x]", "accent") if is_marked else ("[ ]", "muted")
        if id == "share":
            return units.share(100 * one.share.share), "number"
        if id == "count":
            return f"×{units.count(one.share.group.count)}", "muted"
        if id == "gain":
            return self._gain(one.gain), "number"
        if id == "cost":
            return self._cost(one.seconds), "muted"
        return self.reason(one), "muted"

    def _gain(self, ratio: float | None) -> str:
        if ratio is None or ratio < _LEAST_GAIN:
            return units.DASH
        # Almost the whole program: how many times says nothing more.
        return self.words.text("guide.gain_whole" if ratio > _MOST_GAIN else "guide.gain", gain=ratio)

    def _cost(self, seconds: float | None) -> str:
        return units.DASH if seconds is None else self.words.text("guide.cost", seconds=spoken(seconds))

    def reason(self, one: Proposal) -> str:
        return self.words.text(f"run.reason.{one.reason}")


def _cell(text: str, cells: int, *, right: bool) -> str:
    return f"{fit(text, cells - 2, right=True)}  " if right else fit(text, cells)


def spoken(seconds: float) -> str:
    """About how long, in whole units."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"


class ChooseList(LineTable):
    def __init__(self, guide: Guide, words: Wording) -> None:
        self.data = ChooseTable(guide, words)
        super().__init__(self.data, id="choose-list")

    def update_rows(self, at: int | None = None) -> None:
        self.set_rows(np.arange(len(self.data.guide.proposals), dtype=np.int64), keep=at)


class ChooseFoot(OneLine):
    """Below the table: why the kernel under the cursor is proposed or not, and what the marked ones take."""

    DEFAULT_CSS = "ChooseFoot { height: 3; }"

    def __init__(self, table: ChooseTable) -> None:
        super().__init__(id="choose-foot")
        self.table = table
        self.row: int | None = None

    def show(self, row: int | None) -> None:
        self.row = row
        self.refresh()

    def lines(self, width: int) -> list[Line]:
        guide, words = self.table.guide, self.table.words
        chosen = [guide.proposals[place] for place in sorted(guide.marked) if place < len(guide.proposals)]
        seconds = [one.seconds for one in chosen]
        known = [one for one in seconds if one is not None]
        if not chosen:
            told = words.text("guide.none_marked")
        elif len(known) < len(seconds):
            told = words.text("guide.marked_unknown", count=len(chosen))
        else:
            told = words.text("guide.marked", count=len(chosen), seconds=spoken(sum(known)))
        # Where the table has room for the reasons they are told there.
        is_told = self.row is None or self.table.tells_reasons(width)
        lines = [] if is_told or self.row is None else self._reason(guide.proposals[self.row], width - 2)
        return [[(" ", ""), *line] for line in (*lines, *[()] * (2 - len(lines)), [(told, "strong")])]

    def _reason(self, one: Proposal, width: int) -> list[Line]:
        name = shorten_middle(shown(one.share.kernel.name), max(8, width // 2))
        text = self.table.words.text("guide.reason", name=name, reason=self.table.reason(one))
        return paragraph(text, width, role="muted")[:2]
