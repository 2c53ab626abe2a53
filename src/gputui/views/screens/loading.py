"""Opening a report: which one, how far, how to stop, and what kernels it holds as soon as those are summed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen

from gputui import units
from gputui.paint.bars import bar
from gputui.paint.grid import width_of
from gputui.views.paper import ROLE_CLASSES, LinesView
from gputui.views.text import Line, fit, shorten_middle
from gputui.views.widgets.kernel_list import FULL_BAR_PCT

if TYPE_CHECKING:
    from gputui.views.library import SummedKernels
    from gputui.wording import Wording

_COUNT = 26
"""Cells: tens of millions of so many."""
_LINES_ABOVE_KERNELS = 3
_LEAST_WIDTH = 56
_LEAST_DETAIL = 4
"""Cells."""


class LoadingBody(LinesView):
    def __init__(self, words: Wording) -> None:
        super().__init__(id="loading-body")
        self.words = words
        self._name = ""
        self._done = 0
        self._total = 0
        self._kernels: SummedKernels | None = None

    def on_resize(self) -> None:
        # Also as many kernels as the new height has room for.
        self.rebuild()

    def show_kernels(self, kernels: SummedKernels) -> None:
        self._kernels = kernels
        self.add_class("-kernels")
        self.rebuild()

    def show(self, name: str, done: int, total: int) -> None:
        self._name, self._done, self._total = name, done, total
        self.rebuild()

    def build(self, width: int) -> list[Line]:
        count = f"{units.count(self._done)} / {units.count(self._total)}" if self._total else ""
        cells = max(4, width - _COUNT - 2)
        lines: list[Line] = [
            [(self.words.ui("opening"), "muted"), (" ", ""), (shorten_middle(self._name, width - 14), "strong")],
            [
                (bar(self._done, self._total or 1, cells, ascii=self.ascii), "bar-lead"),
                ("  ", ""),
                (fit(count, _COUNT), "muted"),
            ],
            [("esc", "key"), (f" {self.words.ui('footer.stop')}", "muted")],
        ]
        room = self.scrollable_content_region.height - len(lines) - _LINES_ABOVE_KERNELS
        if self._kernels is None or room < 1:
            return lines
        return [*lines, *self._kernel_lines(self._kernels, width, room)]

    def _kernel_lines(self, kernels: SummedKernels, width: int, room: int) -> Iterator[Line]:
        key = "header.launch" if kernels.launches == 1 else "header.launches"
        count = self.words.ui(key, kernels=kernels.names, launches=kernels.launches)
        columns = {"share": 7, "bar": 7, "time": 10, "count": 12}
        # What a narrow list lacks as well.
        if width < _LEAST_WIDTH:
            columns = {"share": 7, "time": 10}
        name_cells = max(8, width - sum(columns.values()))
        yield ()
        yield [(shorten_middle(kernels.file, max(8, width - width_of(count) - 2)), "strong"), (f"  {count}", "muted")]
        head = [
            (" " * cells if id == "bar" else self._right(self.words.ui(f"column.{id}"), cells), "head")
            for id, cells in columns.items()
        ]
        yield [*head, (fit(self.words.ui("column.name"), name_cells), "head")]
        largest = max(FULL_BAR_PCT, *(100 * (one.share or 0.0) for one in kernels.longest))
        for one in kernels.longest[:room]:
            percent = None if one.share is None else 100 * one.share
            cells = {
                "share": (self._right(units.share(percent), 7), "number"),
                "bar": (f"{bar(percent, largest, 6, ascii=self.ascii)} ", "bar"),
                "time": (self._right(units.duration(one.total_ns), 10), "number"),
                "count": (self._right(f"×{units.count(one.count)}", 12), "muted"),
            }
            name = shorten_middle(one.title, name_cells)
            left = name_cells - width_of(name) - 1
            detail = f" {shorten_middle(one.detail, left)}" if one.detail and left >= _LEAST_DETAIL else ""
            yield [*(cells[id] for id in columns), (name, ""), (detail, "faint")]

    @staticmethod
    def _right(text: str, cells: int) -> str:
        return f"{fit(text, cells - 1, right=True)} "


class LoadingScreen(Screen[None]):
    COMPONENT_CLASSES = set(ROLE_CLASSES)
    BINDINGS = [Binding("escape", "app.stop", show=False)]

    def __init__(self, words: Wording, *, ascii: bool) -> None:
        super().__init__()
        self.body = LoadingBody(words)
        self.body.ascii = ascii
        self.set_class(ascii, "-ascii")

    def compose(self) -> ComposeResult:
        yield self.body
