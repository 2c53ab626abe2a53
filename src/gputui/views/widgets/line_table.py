"""A table painted line by line: 100,000 rows cost no more than the few that are seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.style import Style
from textual import events
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gputui.views import actions
from gputui.views.glyphs import glyphs
from gputui.views.ordering import NO_ROWS, Rows
from gputui.views.paper import RolePainter
from gputui.views.text import Line


@dataclass(frozen=True, slots=True)
class TableState:
    """What a row's picture depends on beside the row itself."""

    width: int
    query: str


class RowPainter(Protocol):
    """Who says what stands in a row. Asked only for rows that are seen."""

    def head(self, width: int) -> Line: ...

    def row(self, row: int, state: TableState) -> Line: ...


class LineTable(ScrollView, RolePainter, can_focus=True):
    """Rows on demand, a head that stays, a cursor. The owner sorts, filters and groups by giving other rows."""

    BINDINGS = actions.bindings("pane")
    DEFAULT_CSS = """
    LineTable {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-gutter: stable;
    }
    """

    class Highlighted(Message):
        """The cursor stands on another row."""

        def __init__(self, table: LineTable, row: int | None) -> None:
            super().__init__()
            self.table = table
            self.row = row

        @property
        def control(self) -> LineTable:
            return self.table

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LineTable.Highlighted) and message.table is self.table

    def __init__(self, painter: RowPainter, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._painter = painter
        self._rows: Rows = NO_ROWS
        self._cursor = 0
        self.was_moved = False
        """Whether the reader has moved the cursor: until then it may be put where it is best."""
        self._query = ""
        self._strips: LRUCache[tuple[int, int, bool, bool, str], Strip] = LRUCache(512)
        self._width = -1

    @property
    def rows(self) -> Rows:
        return self._rows

    @property
    def cursor(self) -> int:
        """The cursor's place among the rows."""
        return self._cursor

    @property
    def row(self) -> int | None:
        """The row under the cursor."""
        return int(self._rows[self._cursor]) if len(self._rows) else None

    def set_rows(self, rows: Rows, *, keep: int | None = None) -> None:
        """Show these rows, the cursor on the row ``keep`` where that is among them."""
        before = self.row
        self._rows = rows
        wanted = before if keep is None else keep
        places = NO_ROWS if wanted is None else (rows == wanted).nonzero()[0]
        self._cursor = int(places[0]) if len(places) else min(self._cursor, max(0, len(rows) - 1))
        if not self.was_moved and keep is None:
            self._cursor = 1 if len(rows) > 1 and rows[0] < 0 <= rows[1] else 0
        self._strips.clear()
        self._update_size()
        self._show_cursor()
        self.refresh()
        if self.row != before:
            self.post_message(self.Highlighted(self, self.row))

    def set_query(self, query: str) -> None:
        """Highlight this text."""
        if query != self._query:
            self._query = query
            self.repaint()

    def repaint(self, rows: Sequence[int] | None = None) -> None:
        """Paint anew what is seen; where ``rows`` are given, only those of them that are seen."""
        self._strips.clear()
        if rows is None:
            self.refresh()
            return
        changed = set(rows)
        top, height = self.scroll_offset.y, self.size.height
        seen = self._rows[top : top + height]
        lines = [Region(0, line + 1, self.size.width, 1) for line, row in enumerate(seen) if int(row) in changed]
        if lines:
            self.refresh(*lines)

    def move_to(self, place: int) -> None:
        """Put the cursor on a place; two lines are painted, or all where the view must scroll."""
        place = max(0, min(place, len(self._rows) - 1))
        if place == self._cursor or not len(self._rows):
            return
        self.was_moved = True
        before, self._cursor = self._cursor, place
        top = self.scroll_offset.y
        self.refresh(*(Region(0, one - top + 1, self.size.width, 1) for one in (before, place)))
        self._show_cursor()
        self.post_message(self.Highlighted(self, self.row))

    def _show_cursor(self) -> None:
        page = max(1, self.size.height - 1)
        top = round(self.scroll_y)
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False)
        elif self._cursor >= top + page:
            self.scroll_to(y=self._cursor - page + 1, animate=False)

    def _update_size(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows) + 1)

    def on_resize(self) -> None:
        self._strips.clear()
        self._update_size()
        self._show_cursor()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()

    def watch_has_focus(self, has_focus: bool) -> None:
        self._strips.clear()
        super().watch_has_focus(has_focus)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if y == 0:
            head = self._painter.head(width)
            return self.strip(head, width, self.role_style("head") if head else None)
        place = self.scroll_offset.y + y - 1
        if place >= len(self._rows):
            return self.strip((), width)
        row = int(self._rows[place])
        at_cursor = place == self._cursor
        key = (row, width, at_cursor, self.has_focus, self._query)
        strip = self._strips.get(key)
        if strip is None:
            sign = glyphs(self.ascii).cursor if at_cursor else " "
            line: Line = [(sign, "accent"), *self._painter.row(row, TableState(width - 1, self._query))]
            over = None
            if at_cursor:
                # Faint text on the cursor's ground would vanish where there are 16 colours.
                line = [(text, "muted" if role == "faint" else role) for text, role in line]
                over = _background(self.role_style("cursor" if self.has_focus else "cursor-blurred"))
            strip = self.strip(line, width, over)
            self._strips[key] = strip
        return strip

    def on_click(self, event: events.Click) -> None:
        place = self.scroll_offset.y + event.y - 1
        if event.y >= 1 and place < len(self._rows):
            self.move_to(place)

    def action_cursor_down(self) -> None:
        self.move_to(self._cursor + 1)

    def action_cursor_up(self) -> None:
        self.move_to(self._cursor - 1)

    def action_page_down(self) -> None:
        self.move_to(self._cursor + max(1, self.size.height - 2))

    def action_page_up(self) -> None:
        self.move_to(self._cursor - max(1, self.size.height - 2))

    def action_top(self) -> None:
        self.move_to(0)

    def action_bottom(self) -> None:
        self.move_to(len(self._rows) - 1)


def _background(style: Style) -> Style:
    return Style(bgcolor=style.bgcolor, bold=style.bold, reverse=style.reverse)


def highlight(text: str, role: str, query: str) -> list[tuple[str, str]]:
    """``text`` with what the search found in it marked."""
    if not query:
        return [(text, role)]
    folded, pieces, start = text.casefold(), [], 0
    if len(folded) != len(text):
        return [(text, role)]
    while (found := folded.find(query, start)) >= 0:
        pieces += [(text[start:found], role), (text[found : found + len(query)], "match")]
        start = found + len(query)
    return [(piece, of) for piece, of in (*pieces, (text[start:], role)) if piece]


__all__ = ["LineTable", "RowPainter", "TableState", "highlight"]
