"""What a running program prints, live: it follows the end until the reader scrolls up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from textual.geometry import Size

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
        if self.follows:
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True)

    def build(self, width: int) -> list[Line]:
        return [((part, ""),) for line in self._printed for part in _wrapped(line, max(1, width))]

    def on_resize(self) -> None:
        super().on_resize()
        if self.follows:
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True)

    def watch_virtual_size(self, _: Size) -> None:
        if self.follows:
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.follows = round(new_value) >= self.max_scroll_y
