"""A page that has nothing to show, and says why."""

from __future__ import annotations

from gputui.views import actions
from gputui.views.paper import LinesView
from gputui.views.text import Line, paragraph


class EmptyView(LinesView):
    BINDINGS = actions.bindings("pane")

    def __init__(self, text: str, *, id: str) -> None:
        super().__init__(id=id)
        self.text = text

    def build(self, width: int) -> list[Line]:
        return [(), *([(" ", ""), *line] for line in paragraph(self.text, min(width - 2, 90), role="muted"))]
