"""Opening a report: which one, how far, how to stop, and the kernels of a large one as soon as they are summed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import Screen

from gputui import units
from gputui.paint.bars import bar
from gputui.paint.grid import width_of
from gputui.views.paper import LinesView
from gputui.views.text import Line, fit, shorten_middle
from gputui.views.widgets.kernel_list import FULL_BAR_PCT

if TYPE_CHECKING:
    from gputui.views.library import SummedKernels
    from gputui.wording import Wording

_COUNT = 26
"""Cells: tens of millions of so many."""
_COLUMNS = {"share": 7, "bar": 7, "time": 10, "count": 12}
_NARROW_COLUMNS = {"share": 7, "time": 10}
_LEAST_WIDTH = 56
"""Cells for all columns."""
_LEAST_NAME = 8
_LEAST_DETAIL = 4


class LoadingBody(LinesView):
    def __init__(self, words: Wording) -> None:
        super().__init__(id="loading-body")
        self.words = words
        self._name = ""
        self._done = 0
        self._total = 0

    def show(self, name: str, done: int, total: int) -> None:
        self._name, self._done, self._total = name, done, total
        self.rebuild()

    def build(self, width: int) -> list[Line]:
        count = f"{units.count(self._done)} / {units.count(self._total)}" if self._total else ""
        cells = max(4, width - _COUNT - 2)
        return [
            [(self.words.ui("opening"), "muted"), (" ", ""), (shorten_middle(self._name, width - 14), "strong")],
            [
                (bar(self._done, self._total or 1, cells, ascii=self.ascii), "bar-lead"),
                ("  ", ""),
                (fit(count, _COUNT), "muted"),
            ],
            [("esc", "key"), (f" {self.words.ui('footer.stop')}", "muted")],
        ]


class LoadingKernels(LinesView):
    """The kernels with the longest total times, as many as there is room for."""

    def __init__(self, words: Wording) -> None:
        super().__init__(id="loading-kernels")
        self.words = words
        self._kernels: SummedKernels | None = None

    def show(self, kernels: SummedKernels) -> None:
        self._kernels = kernels
        self.rebuild()

    def on_resize(self) -> None:
        # The height counts as well.
        self.rebuild()

    def build(self, width: int) -> list[Line]:
        if self._kernels is None:
            return []
        lines = self._lines_of(self._kernels, width)
        return [line for line, _ in zip(lines, range(self.scrollable_content_region.height), strict=False)]

    def _lines_of(self, kernels: SummedKernels, width: int) -> Iterator[Line]:
        columns = _COLUMNS if width >= _LEAST_WIDTH else _NARROW_COLUMNS
        name_cells = max(_LEAST_NAME, width - sum(columns.values()))
        key = "header.launch" if kernels.launches == 1 else "header.launches"
        count = self.words.ui(key, kernels=kernels.names, launches=kernels.launches)
        file_cells = width - width_of(count) - 2
        file = f"{shorten_middle(kernels.file, file_cells)}  " if file_cells >= _LEAST_NAME else ""
        yield [(file, "strong"), (count, "muted")]
        heads = {id: "" if id == "bar" else self.words.ui(f"column.{id}") for id in columns}
        yield [
            *((_right(heads[id], cells), "head") for id, cells in columns.items()),
            (fit(self.words.ui("column.name"), name_cells), "head"),
        ]
        largest = max(FULL_BAR_PCT, *(100 * (one.share or 0.0) for one in kernels.longest))
        for one in kernels.longest:
            percent = None if one.share is None else 100 * one.share
            cells = {
                "share": (_right(units.share(percent), _COLUMNS["share"]), "number"),
                "bar": (f"{bar(percent, largest, _COLUMNS['bar'] - 1, ascii=self.ascii)} ", "bar"),
                "time": (_right(units.duration(one.total_ns), _COLUMNS["time"]), "number"),
                "count": (_right(f"×{units.count(one.count)}", _COLUMNS["count"]), "muted"),
            }
            name = shorten_middle(one.title, name_cells)
            left = name_cells - width_of(name) - 1
            detail = f" {shorten_middle(one.detail, left)}" if one.detail and left >= _LEAST_DETAIL else ""
            yield [*(cells[id] for id in columns), (name, ""), (detail, "faint")]


def _right(text: str, cells: int) -> str:
    return f"{fit(text, cells - 1, right=True)} "


class LoadingScreen(Screen[None]):
    BINDINGS = [Binding("escape", "app.stop", show=False)]

    def __init__(self, words: Wording, *, ascii: bool) -> None:
        super().__init__()
        self._is_over = False
        # Two, so that progress does not paint the kernels anew.
        self.body = LoadingBody(words)
        self.kernels = LoadingKernels(words)
        self.body.ascii = self.kernels.ascii = ascii
        self.set_class(ascii, "-ascii")

    def compose(self) -> ComposeResult:
        with Vertical(id="loading"):
            yield self.body
            yield self.kernels

    def close(self) -> None:
        """Go at once, or as soon as what the user has opened over it is closed."""
        self._is_over = True
        if self.app.screen is self:
            self.app.pop_screen()

    def on_screen_resume(self) -> None:
        if self._is_over:
            self.app.pop_screen()

    def show_kernels(self, kernels: SummedKernels) -> None:
        self.add_class("-kernels")
        self.kernels.show(kernels)
