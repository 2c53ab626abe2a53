"""Fixed lines around the panes, painted once and then still."""

from __future__ import annotations

from textual.strip import Strip

from gputui.views.paper import RolePainter
from gputui.views.text import Line


class OneLine(RolePainter):
    """Lines given from outside."""

    DEFAULT_CSS = "OneLine { height: 1; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Line] = []

    def lines(self, width: int) -> list[Line]:
        """What to paint; a subclass builds it for the width."""
        return self._lines

    def render_line(self, y: int) -> Strip:
        lines = self.lines(self.size.width)
        return self.strip(lines[y] if y < len(lines) else (), self.size.width)
