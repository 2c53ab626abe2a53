"""The top line: what is open."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.paint.grid import width_of
from gputui.views.text import Line, Segment, line_width, shorten_middle
from gputui.views.widgets.one_line import OneLine


class Header(OneLine):
    """File, GPU and totals left; level, language and help right. What has no room goes from the middle."""

    def __init__(self) -> None:
        super().__init__(id="header")
        self._left: tuple[str, ...] = ()
        self._file = ""
        self._right = ""

    def show(self, file: str, facts: Sequence[str], right: str) -> None:
        new = (file, tuple(facts), right)
        if new != (self._file, self._left, self._right):
            self._file, self._left, self._right = new
            self.refresh()

    def lines(self, width: int) -> list[Line]:
        right = f"{self._right} "
        name: list[Segment] = [(" gputui", "accent"), ("  ", "")]
        room = width - width_of(right) - line_width(name) - 3
        facts = list(self._left)
        separator = " · "
        while facts and min(width_of(self._file), 24) + 3 + width_of(separator.join(facts)) > room:
            facts.pop(max(0, len(facts) - 3) if len(facts) > 2 else 0)
        tail = separator.join(facts)
        file = shorten_middle(self._file, max(8, room - (width_of(tail) + 3 if tail else 0)))
        line = [*name, (file, "strong"), ("   " if tail else "", ""), (tail, "muted")]
        blanks = width - line_width(line) - width_of(right)
        return [[*line, (" " * max(1, blanks), ""), (right, "muted")]]
