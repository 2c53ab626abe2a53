"""Search and filter: one line of input for whatever has the focus, and what was typed for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from textual.widget import Widget

from gputui.views.text import shown
from gputui.views.widgets.line_table import LineTable
from gputui.views.widgets.prompt import Prompt
from gputui.views.widgets.timeline import TimelineView
from gputui.wording import Wording


class Rows(Protocol):
    """The data behind a table."""

    filter: str

    def matches(self, query: str, row: int) -> bool: ...


class Table(Protocol):
    """A pane that can be searched: a table and its data."""

    table: LineTable

    @property
    def data(self) -> Rows: ...

    def update_rows(self) -> None: ...


class Finder:
    """``targets`` are the panes by the name that the table of keys has for them; ``changed`` is called whenever a
    filter has left other rows. The timeline is searched by itself; it has no rows to filter."""

    def __init__(
        self,
        words: Wording,
        prompt: Prompt,
        targets: Mapping[str, Table | TimelineView],
        changed: Callable[[], None],
    ) -> None:
        self.words = words
        self.prompt = prompt
        self.targets = targets
        self.changed = changed
        self.queries: dict[str, str] = dict.fromkeys(targets, "")
        self._before = ""

    def open(self, kind: str, target: str) -> None:
        """Ask for a ``"search"`` or a ``"filter"``."""
        text = self.filter_of(target) if kind == "filter" else ""
        self._before = text if kind == "filter" else self.queries[target]
        self.prompt.open(
            f"{kind} {target}", self.words.ui(f"prompt.{kind}"), self.words.ui(f"prompt.{kind}_{target}"), text
        )

    def typed(self, kind: str, text: str) -> None:
        """Follow every letter; ``kind`` is what ``open`` gave the line of input."""
        what, target = kind.split()
        self._apply(what, target, text)

    def close(self, kind: str, *, kept: bool) -> tuple[Widget, str]:
        """Keep what was typed or take it back: the widget that gets the focus, and what to tell the reader."""
        what, target = kind.split()
        pane, query = self.targets[target], self.queries[target]
        told = ""
        if not kept:
            self._apply(what, target, self._before)
        elif what == "search" and query and not self._has_match(target):
            told = self.words.ui("no_match", text=shown(query, 40))
        return (pane if isinstance(pane, TimelineView) else pane.table), told

    def filter_of(self, target: str) -> str:
        pane = self.targets[target]
        return "" if isinstance(pane, TimelineView) else pane.data.filter

    def next_match(self, target: str, step: int) -> None:
        """Go to the next match, or the one before."""
        pane = self.targets[target]
        if isinstance(pane, TimelineView):
            pane.next_match(step)
            return
        table = pane.table
        count = len(table.rows)
        for distance in range(1, count + 1):
            place = (table.cursor + step * distance) % count
            if self._matches(target, int(table.rows[place])):
                table.move_to(place)
                return

    def take_back(self, target: str) -> bool:
        """Undo the search, else the filter; whether there was one."""
        if self.queries[target]:
            self._apply("search", target, "")
        elif self.filter_of(target):
            self._apply("filter", target, "")
        else:
            return False
        return True

    def _apply(self, what: str, target: str, text: str) -> None:
        text = text.casefold()
        pane = self.targets[target]
        if what == "search":
            self.queries[target] = text
        if isinstance(pane, TimelineView):
            pane.search(text)
        elif what == "filter":
            pane.data.filter = text
            pane.update_rows()
            self.changed()
        else:
            pane.table.set_query(text)
            if text and not self._matches(target, pane.table.row):
                self.next_match(target, 1)

    def _has_match(self, target: str) -> bool:
        pane = self.targets[target]
        if isinstance(pane, TimelineView):
            return pane.match_count != 0
        return any(self._matches(target, int(row)) for row in pane.table.rows)

    def _matches(self, target: str, row: int | None) -> bool:
        pane, query = self.targets[target], self.queries[target]
        if row is None or not query or isinstance(pane, TimelineView):
            return False
        return pane.data.matches(query, row)
