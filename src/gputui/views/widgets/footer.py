"""The bottom line: the keys that matter now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputui.paint.grid import width_of
from gputui.views import actions
from gputui.views.text import Line, Segment, line_width
from gputui.views.widgets.one_line import OneLine

if TYPE_CHECKING:
    from gputui.wording import Wording

_BY_PANE = frozenset(
    {
        ("open_place", actions.RANGES), ("unfold", actions.RANGES),
        ("group", actions.RANGES), ("group", actions.TIMED), ("where", actions.TIMELINE), ("where", actions.FINDINGS),
        ("where", actions.TIMED), ("proceed", actions.RUN_CHOOSE),
    }
)  # fmt: skip
"""Actions that do something of their own in a pane, and are named for it there."""


class Footer(OneLine):
    """The keys that matter now; help and quit are always there."""

    def __init__(self, words: Wording) -> None:
        super().__init__(id="footer")
        self.words = words
        self.pane = actions.KERNELS
        self.status = ""
        self.without: frozenset[str] = frozenset()

    def show(self, pane: str, status: str = "", without: frozenset[str] = frozenset()) -> None:
        """``without`` are actions that are the pane's own and can do nothing now."""
        if (pane, status, without) != (self.pane, self.status, self.without):
            self.pane, self.status, self.without = pane, status, without
            self.refresh()

    def shown_actions(self, width: int) -> list[actions.Action]:
        """What fits, most needed first."""
        # While one types, ? and q are letters.
        always = [] if self.pane == actions.PROMPT else [actions.BY_ID["help"], actions.BY_ID["quit"]]
        room = width - 2 - sum(self._width(action) for action in always)
        if self.status:
            room -= width_of(self.status) + 3
        chosen = []
        for action in actions.in_footer(self.pane):
            if action in always or action.id in self.without:
                continue
            room -= self._width(action)
            if room < 0:
                break
            chosen.append(action)
        return [*chosen, *always]

    def _label(self, action: actions.Action) -> str:
        if action.id == "unfold" and self.pane == actions.METRICS:
            return self.words.ui("footer.fold")
        if self.pane == actions.SOURCE and action.id in ("unfold", "sort", "where"):
            return self.words.ui(f"footer.{action.id}_line")
        if (action.id, self.pane) in _BY_PANE:
            return self.words.ui(f"footer.{action.id}_{self.pane}")
        return self.words.ui(f"footer.{action.id}")

    def _key(self, action: actions.Action) -> str:
        return actions.footer_key(action, self.pane, ascii=self.ascii)

    def _width(self, action: actions.Action) -> int:
        return width_of(self._key(action)) + 1 + width_of(self._label(action)) + 2

    def lines(self, width: int) -> list[Line]:
        line: list[Segment] = [(" ", "")]
        for action in self.shown_actions(width):
            line += [(self._key(action), "key"), (f" {self._label(action)}  ", "muted")]
        if self.status:
            line = [
                *line,
                (" " * max(0, width - line_width(line) - width_of(self.status) - 1), ""),
                (self.status, "faint"),
            ]
        return [line]
