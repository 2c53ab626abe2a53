"""What a running program prints, live: it follows the end until the reader scrolls up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from gputui.views import actions
from gputui.views.paper import LinesView
from gputui.views.text import Line, broken


@lru_cache(maxsize=8192)
def _wrapped(line: str, width: int) -> tuple[str, ...]:
    if line.isascii():
        return tuple(line[place : place + width] for place in range(0, len(line), width)) or ("",)
    return tuple(broken(line, width))


class OutputPane(LinesView):
    """While the reader looks further up, nothing moves: what is printed then comes with the end."""

    BINDINGS = actions.bindings("pane")

    def __init__(self) -> None:
        super().__init__(id="output")
        self.follows = True
        self._printed: Sequence[str] = ()

    def show(self, lines: Sequence[str]) -> None:
        self._printed = lines
        self.rebuild()
        self._keep_up()

    def build(self, width: int) -> list[Line]:
        return [((" ", ""), (part, "")) for line in self._printed for part in _wrapped(line, max(1, width - 1))]

    def on_resize(self) -> None:
        super().on_resize()
        self._keep_up()

    def _keep_up(self) -> None:
        if self.follows:
            # Not at once: where the pane has just come up, its height is not known yet.
            self.call_after_refresh(self.scroll_end, animate=False, immediate=True)

    def _moved(self) -> None:
        """The reader has scrolled."""
        self.follows = round(self.scroll_y) >= self.max_scroll_y

    def action_cursor_down(self) -> None:
        super().action_cursor_down()
        self.call_after_refresh(self._moved)

    def action_cursor_up(self) -> None:
        super().action_cursor_up()
        self.call_after_refresh(self._moved)

    def action_page_down(self) -> None:
        super().action_page_down()
        self.call_after_refresh(self._moved)

    def action_page_up(self) -> None:
        super().action_page_up()
        self.call_after_refresh(self._moved)

    def action_top(self) -> None:
        super().action_top()
        self.call_after_refresh(self._moved)

    def action_bottom(self) -> None:
        self.follows = True
        self._keep_up()

    def on_mouse_scroll_up(self) -> None:
        self.call_after_refresh(self._moved)

    def on_mouse_scroll_down(self) -> None:
        self.call_after_refresh(self._moved)
