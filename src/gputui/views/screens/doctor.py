"""What the doctor found on a machine: problems first, each with its fix, and the message to the administrator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from gputui.render.doctor import mark, message, summary, told
from gputui.run.doctor import can_profile
from gputui.views import actions
from gputui.views.paper import LinesView
from gputui.views.text import Line, paragraph

if TYPE_CHECKING:
    from gputui.run.doctor import Check
    from gputui.wording import Wording

_ROLES = {"problem": "high", "unknown": "unknown", "warning": "warning", "ok": "ok"}


class DoctorBody(LinesView):
    BINDINGS = actions.bindings("pane")

    def __init__(self, words: Wording, checks: Sequence[Check]) -> None:
        super().__init__(id="doctor-body")
        self.words = words
        self.checks = checks

    def build(self, width: int) -> list[Line]:
        return list(self._page(width - 1))

    def _page(self, width: int) -> Iterable[Line]:
        yield from paragraph(
            summary(self.checks, self.words), width, role="ok" if can_profile(self.checks) else "sentence"
        )
        rows = told(self.checks, self.words)
        for row in rows:
            if row.state == "ok":
                continue
            yield ()
            yield [(f" {mark(row.state, ascii=self.ascii)} ", _ROLES[row.state]), (row.name, "title")]
            yield from paragraph(row.found, width, indent=3)
            for heading, lines in row.fixes:
                yield [("   ", ""), (heading, "label-word")]
                for line in lines:
                    yield from paragraph(line, width, indent=5)
        fine = [row for row in rows if row.state == "ok"]
        if fine:
            yield ()
            yield from paragraph(self.words.text("doctor.more"), width, role="faint")
        for row in fine:
            yield [(f" {mark(row.state, ascii=self.ascii)} ", "ok"), (row.name, "strong")]
            yield from paragraph(row.found, width, indent=3, role="muted")
        yield ()
        yield [(self.words.text("doctor.keys"), "faint")]


class DoctorScreen(ModalScreen[None]):
    BINDINGS = [
        Binding("escape,question_mark,f1,q", "back", show=False),
        Binding("y", "copy", show=False),
    ]

    def __init__(self, words: Wording, checks: Sequence[Check], copy: Callable[[str], None], *, ascii: bool) -> None:
        super().__init__()
        self.words = words
        self.checks = checks
        self._copy = copy
        self.body = DoctorBody(words, checks)
        self.body.ascii = ascii
        self.set_class(ascii, "-ascii")

    def compose(self) -> ComposeResult:
        yield self.body

    def on_mount(self) -> None:
        self.body.focus()

    def action_back(self) -> None:
        self.dismiss(None)

    def action_copy(self) -> None:
        text = message(self.checks, self.words)
        if text:
            self._copy(text)
        else:
            self.notify(self.words.text("doctor.nothing-to-ask"), markup=False)
