"""An error that leaves nothing to show: what it is about, what happened, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen

from gputui.views.paper import LinesView
from gputui.views.text import Line, paragraph, shown

if TYPE_CHECKING:
    from gputui.errors import GputuiError
    from gputui.wording import Wording


class ErrorBody(LinesView):
    DEFAULT_CSS = "ErrorBody { height: auto; }"

    def __init__(self, words: Wording, error: GputuiError) -> None:
        super().__init__(id="error-body")
        self.words = words
        self.error = error

    def get_content_height(self, container, viewport, width: int) -> int:  # type: ignore[no-untyped-def]
        return len(self.build(width))

    def build(self, width: int) -> list[Line]:
        lines: list[Line] = [[(self.words.ui("error_title"), "high")], ()]
        lines += paragraph(shown(self.error.title, 300), width, role="title")
        lines += paragraph(shown(self.error.message, 600), width)
        if self.error.hint:
            lines += [(), *paragraph(shown(self.error.hint, 600), width, role="accent")]
        return [*lines, (), [("q", "key"), (f" {self.words.ui('footer.quit')}", "muted")]]


class ErrorScreen(Screen[None]):
    BINDINGS = [Binding("escape,enter", "app.quit", show=False)]

    def __init__(self, words: Wording, error: GputuiError, *, ascii: bool) -> None:
        super().__init__()
        self.body = ErrorBody(words, error)
        self.body.ascii = ascii
        self.set_class(ascii, "-ascii")

    def compose(self) -> ComposeResult:
        yield self.body
