"""The tabs of the right-hand pane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from gputui.paint.grid import width_of
from gputui.views.text import Line, Segment
from gputui.views.widgets.one_line import OneLine


@dataclass(frozen=True, slots=True)
class Tab:
    id: str
    key: str
    title: str
    has_data: bool


class TabBar(OneLine):
    """The tabs with their keys; the open one is marked by brackets as well as by colour."""

    class Chosen(Message):
        def __init__(self, tab: str) -> None:
            super().__init__()
            self.tab = tab

    def __init__(self) -> None:
        super().__init__(id="tabs")
        self.tabs: tuple[Tab, ...] = ()
        self.open = ""

    def show(self, tabs: Sequence[Tab], open: str) -> None:
        self.tabs, self.open = tuple(tabs), open
        self.refresh()

    def _cells(self, width: int) -> list[tuple[Tab, str]]:
        full = [(tab, f" {tab.key} {tab.title} ") for tab in self.tabs]
        if sum(width_of(text) + 1 for _, text in full) <= width:
            return full
        return [(tab, text if tab.id == self.open or tab.has_data else f" {tab.key} ") for tab, text in full]

    def lines(self, width: int) -> list[Line]:
        line: list[Segment] = []
        for tab, text in self._cells(width):
            role = "tab-open" if tab.id == self.open else "tab" if tab.has_data else "faint"
            line += [(text, role), (" ", "")]
        return [line]

    def on_click(self, event: events.Click) -> None:
        x = 0
        for tab, text in self._cells(self.size.width):
            if x <= event.x < x + width_of(text):
                self.post_message(self.Chosen(tab.id))
                return
            x += width_of(text) + 1
