"""Opening a report: which one, how far, and how to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen

from gputui import units
from gputui.paint.bars import bar
from gputui.views.paper import ROLE_CLASSES, LinesView
from gputui.views.text import Line, fit, shorten_middle

if TYPE_CHECKING:
    from gputui.wording import Wording


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
        cells = max(4, width - 24)
        return [
            [(self.words.ui("opening"), "muted"), (" ", ""), (shorten_middle(self._name, width - 14), "strong")],
            [
                (bar(self._done, self._total or 1, cells, ascii=self.ascii), "bar-lead"),
                ("  ", ""),
                (fit(count, 20), "muted"),
            ],
            [("esc", "key"), (f" {self.words.ui('footer.stop')}", "muted")],
        ]


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
